"""Fences: the blocks that Markdown sets off by lines of backticks or tildes."""

import re

import msgspec

from timeloom.core.patch.syntax import skip_blank

_FENCE = re.compile(r"(`{3,}|~{3,})([^`\r]*)\r?")
_WORD = re.compile(r"[\w+-]*")


class Fenced(msgspec.Struct, frozen=True):
    """A fenced block by its lines, counted from 0."""

    opening: int
    closing: int | None
    """None where the text ends before the block."""
    language: str

    @property
    def is_diff(self) -> bool:
        """Whether the fence says that a diff is in it."""
        return self.language in ("patch", "udiff") or self.language.startswith("diff")

    def head(self, lines: list[str]) -> int:
        """The first line in the block that is not blank, or the line that ends the block."""
        stop = len(lines) if self.closing is None else self.closing
        return skip_blank(lines, self.opening + 1, stop)


def fenced_blocks(lines: list[str]) -> dict[int, Fenced]:
    """The fenced blocks, by the line that opens them; only a bare fence as long as the first one closes a block."""
    blocks: dict[int, Fenced] = {}
    block: Fenced | None = None
    fence = ""
    for at, line in enumerate(lines):
        found = _FENCE.fullmatch(line) if line.startswith(("```", "~~~")) else None
        if found is None:
            continue
        if block is None:
            fence = found[1]
            language = _WORD.match(found[2].strip())
            block = Fenced(at, None, language[0].lower() if language else "")
            blocks[at] = block
        elif found[1].startswith(fence) and not found[2].strip():
            blocks[block.opening] = msgspec.structs.replace(block, closing=at)
            block = None
    return blocks
