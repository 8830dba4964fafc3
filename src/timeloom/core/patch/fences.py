"""Finds Markdown code blocks that are fenced by backticks or tildes."""

import re

import msgspec

from timeloom.core.patch.syntax import skip_blank

_FENCE = re.compile(r"(`{3,}|~{3,})([^`\r]*)\r?")
_WORD = re.compile(r"[\w+-]*")


class FencedBlock(msgspec.Struct, frozen=True):
    """Line numbers of a fenced block, counted from 0, and its language."""

    opening: int
    closing: int | None
    """None if the text ends before the block does."""
    language: str

    @property
    def is_diff(self) -> bool:
        """Whether the fence is labelled as a diff."""
        return self.language in ("patch", "udiff") or self.language.startswith("diff")

    def first_line(self, lines: list[str]) -> int:
        """Return the first non-blank line of the block, or the line that ends the block."""
        stop = len(lines) if self.closing is None else self.closing
        return skip_blank(lines, self.opening + 1, stop)


def find_fenced_blocks(lines: list[str]) -> dict[int, FencedBlock]:
    """Return the fenced blocks by opening line; only a bare fence at least as long as the first closes a block."""
    blocks: dict[int, FencedBlock] = {}
    block: FencedBlock | None = None
    fence = ""
    for at, line in enumerate(lines):
        found = _FENCE.fullmatch(line) if line.startswith(("```", "~~~")) else None
        if found is None:
            continue
        if block is None:
            fence = found[1]
            language = _WORD.match(found[2].strip())
            block = FencedBlock(at, None, language[0].lower() if language else "")
            blocks[at] = block
        elif found[1].startswith(fence) and not found[2].strip():
            blocks[block.opening] = msgspec.structs.replace(block, closing=at)
            block = None
    return blocks
