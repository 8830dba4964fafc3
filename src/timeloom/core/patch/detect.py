"""Tells diffs from replacement texts and locates the unified diffs in a patch."""

import re
from bisect import bisect_left
from collections.abc import Set as AbstractSet
from functools import cached_property

import msgspec

from timeloom.core.patch.fences import FencedBlock, find_fenced_blocks
from timeloom.core.patch.other_formats import WRITE_HINT, find_foreign_edit, find_headless_hunk
from timeloom.core.patch.syntax import HEADER, end_of_diff, is_diff_evidence, opens_diff, skip_blank, tag_of
from timeloom.core.patch.types import PatchError

_LEAD = re.compile(r"(?:> ?){1,8}|[ \t]{0,64}")
_MAIL = ("From ", "commit ", "Index: ")
_STRUCTURE = re.compile(r"#{1,6} |<(?!diff\b|patch\b)[A-Za-z!]|={3,}\s*$|-{3,}\s*$")
_MESSAGE_LINES = 3
"""Most lines of text above a diff for a missing file. A smaller limit misses remarks; a larger one takes documents for
remarks."""


class DiffSpan(msgspec.Struct, frozen=True):
    """Lines of one diff: from line `start` to the line before `stop`."""

    start: int
    stop: int
    headless: bool
    """Whether hunks may lack an @@ line, because the fence is labelled as a diff."""


class LocatedDiffs(msgspec.Struct, frozen=True):
    """The diffs found in a patch."""

    lines: list[str]
    """Lines of the patch without a byte order mark and without the indentation or quote marks that all lines share."""
    spans: tuple[DiffSpan, ...]
    below_text: bool
    """Whether other text precedes the first diff."""


def find_diffs(before: str, patch: str) -> LocatedDiffs | None:
    """Return the diffs in the patch; None if the patch is a replacement text."""
    lines = _split_lines(patch)
    first = skip_blank(lines, 0, len(lines))
    if first == len(lines):
        raise PatchError("patch_malformed", "the patch is only white space, expected a unified diff or a new text")
    bare, shared = _strip_shared_prefix(lines, first)
    if not shared or is_diff_evidence(bare, first) or bare[first].startswith(("```", "~~~")):
        lines = bare
    patch_text = _PatchText(before, lines)
    start = patch_text.find_opening_diff(first)
    below_text = start is None
    if start is None:
        start = patch_text.find_diff_from(first)
        other = find_foreign_edit(patch_text.known_lines, lines, first, len(lines) if start is None else start)
        if start is None:
            other = other or find_headless_hunk(patch_text.known_lines, bare)
        if patch_text.is_document(first, other.at if other else start):
            return None
        if other:
            raise other.to_error()
    return None if start is None else LocatedDiffs(lines, tuple(patch_text.collect_spans(start)), below_text)


def _split_lines(patch: str) -> list[str]:
    """Return the lines without line feeds; a cut-off last line gets a carriage return if the lines before have one."""
    lines = patch.split("\n")
    last = lines[-1]
    if not last:
        return lines[:-1]
    near = lines[:-1] if last.startswith("\\ ") else lines[-2:-1]
    if near and not last.endswith("\r") and all(line.endswith("\r") for line in near):
        lines[-1] += "\r"
    return lines


def _strip_shared_prefix(lines: list[str], first: int) -> tuple[list[str], int]:
    """Return the lines without byte order mark and shared indentation or quote marks, and the length of that prefix.

    Empty lines may have a shorter prefix.
    """
    bare = [*lines[:first], lines[first].removeprefix("\ufeff"), *lines[first + 1 :]]
    leads = {
        found[0] for line, found in zip(bare, map(_LEAD.match, bare), strict=True) if found and line.strip(" \t>\r")
    }
    low, high = min(leads, default=""), max(leads, default="")
    shared = next((at for at, (one, two) in enumerate(zip(low, high, strict=False)) if one != two), len(low))
    return [line[shared:] or line[-1:].strip(" \t>") for line in bare], shared


class _PatchText:
    """Lines of a patch with their fenced blocks, and the lines of the file."""

    def __init__(self, before: str, lines: list[str]) -> None:
        self._before = before
        self._lines = lines
        self._blocks = find_fenced_blocks(lines)
        self._openings = list(self._blocks)

    @cached_property
    def known_lines(self) -> AbstractSet[str]:
        """Lines of the file that are not blank."""
        return {line.rstrip("\r") for line in self._before.split("\n") if line.strip()}

    def find_opening_diff(self, first: int) -> int | None:
        """Return the start of a diff at the beginning of the text, inside a fence or not; None if there is none."""
        block = self._blocks.get(first)
        head = first if block is None else block.first_line(self._lines)
        if head == len(self._lines) or (block and head == block.closing):
            return None
        if block and block.is_diff:
            return self._block_start(block)
        return head if opens_diff(self._lines, head) else None

    def find_diff_from(self, at: int) -> int | None:
        """Return the start of the first diff from this line on whose lines are not all in the file already."""
        lines = self._lines
        while at < len(lines):
            block = self._blocks.get(at)
            if block and block.is_diff:
                start = self._block_start(block)
            elif is_diff_evidence(lines, at):
                start = at
            else:
                at += 1
                continue
            end = end_of_diff(lines, start, len(lines))
            texts = (line.rstrip("\r") for line in lines[start:end] if line.strip())
            if not all(text in self.known_lines for text in texts):
                return start
            at = max(end, at + 1)
        return None

    def is_document(self, first: int, at: int | None) -> bool:
        """Return whether a text for a missing or empty file is a document that only shows an edit at this line."""
        if self._before or at is None or self._lines[first].startswith(_MAIL):
            return False
        block = self._block_of(at)
        above = [line for index, line in enumerate(self._lines[:at]) if line.strip() and index not in self._blocks]
        below = self._lines[block.closing :] if block and block.closing else []
        if len(above) <= _MESSAGE_LINES and not any(map(_STRUCTURE.match, above + below)):
            return False
        if self._is_only_additions(at):
            got = f"a text in which the diff at line {at + 1} would make the file as well"
            raise PatchError("patch_ambiguous", f"expected a diff or the file's new text, got {got}; {WRITE_HINT}")
        return True

    def _is_only_additions(self, start: int) -> bool:
        """Return whether a diff starts here that neither expects nor removes lines."""
        end = end_of_diff(self._lines, start, len(self._lines))
        texts = (line for line in self._lines[start:end] if line.strip() and not HEADER.match(line))
        marks = {line[0] for line in texts}
        return bool(marks) and marks <= {"+", "@", "\\"}

    def collect_spans(self, start: int | None) -> list[DiffSpan]:
        """Return the diff that starts here and the fenced ones after it; only remarks may separate them."""
        spans: list[DiffSpan] = []
        while start is not None:
            block = self._block_of(start)
            if block is None and spans:
                message = (
                    f"the diff at line {start + 1} of the patch stands outside of a fence, unlike the one above it"
                )
                raise PatchError("patch_malformed", message)
            if block is None:
                return [DiffSpan(start, len(self._lines), headless=False)]
            stop = _closing_line(block)
            spans.append(DiffSpan(start, stop, headless=block.is_diff))
            start = self.find_diff_from(stop + 1)
            other = find_foreign_edit(
                self.known_lines, self._lines, stop + 1, len(self._lines) if start is None else start
            )
            if other:
                raise other.to_error()
        return spans

    def _block_start(self, block: FencedBlock) -> int:
        """Return the first line of the diff in its fence; a file name may precede it."""
        head = block.first_line(self._lines)
        stop = len(self._lines) if block.closing is None else block.closing
        if head == stop or tag_of(self._lines[head]) or opens_diff(self._lines, head):
            return head
        marked = (at for at in range(head, stop) if self._lines[at].startswith(("+", "-", "@@", "diff --git ")))
        start = next(marked, head)
        return start if is_diff_evidence(self._lines, start) else head

    def _block_of(self, at: int) -> FencedBlock | None:
        """Return the block that contains the line; None if there is none."""
        above = bisect_left(self._openings, at)
        block = self._blocks[self._openings[above - 1]] if above else None
        return block if block and (block.closing is None or at < block.closing) else None


def _closing_line(block: FencedBlock) -> int:
    if block.closing is None:
        message = f"the fence opened at line {block.opening + 1} of the patch is not closed; is it cut off?"
        raise PatchError("patch_malformed", message)
    return block.closing
