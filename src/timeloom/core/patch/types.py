"""Values of a patch: limits, parsed hunks and the result."""

from typing import Literal

import msgspec

from timeloom.core.codes import CodedError

MAX_PATCH_CHARS = 2_000_000
"""Longest patch. A smaller limit refuses replacements of real files; a larger one lets one call block a worker for
seconds."""

MAX_FILE_CHARS = 8_000_000
"""Longest patched file. A smaller limit refuses generated data; a larger one costs memory, since every line becomes an
object."""

MAX_FILE_LINES = 500_000
"""Most lines of a file. The search maps each line to one character, so a million more would run out of code points."""

MAX_HUNKS = 1_000
"""Most hunks of one file. A smaller limit refuses renames across a file; a larger one multiplies the search cost of
hostile patches."""

MAX_SEARCHED_LINES = 100_000_000
"""Most lines searched for hunks without numbers, each of which searches the whole file; ten times more take seconds."""

DRIFT_LINES = 1_000
"""How far from its stated line a hunk is searched. A smaller limit refuses edits of grown files; a larger one finds
more duplicates."""


class PatchError(CodedError):
    """Error for a refused patch; the message names the received and the expected text."""


class BodyLine(msgspec.Struct, frozen=True):
    """One line of a hunk, without its mark."""

    tag: Literal[" ", "+", "-"]
    text: str
    """Line without the line feed; a carriage return before it is kept."""
    newline: bool = True
    """False if `\\ No newline at end of file` follows."""
    bare: bool = False
    """Whether this is an empty line that lost the leading space of a context line."""


class Hunk(msgspec.Struct, frozen=True):
    """One hunk as written in the patch."""

    number: int
    patch_line: int
    old_start: int | None
    """Stated first line, counted from 1; None if the header has no numbers."""
    new_start: int | None
    counted: bool
    """Whether the header's line counts match the body."""
    lines: tuple[BodyLine, ...]

    @property
    def old(self) -> list[BodyLine]:
        """Lines that the file must have."""
        return [line for line in self.lines if line.tag != "+"]

    @property
    def new(self) -> list[BodyLine]:
        """Lines that replace them."""
        return [line for line in self.lines if line.tag != "-"]

    def count_edge(self, tag: str, *, last: bool = False) -> int:
        """Return how many lines with this tag the hunk begins with, or ends with if `last` is set."""
        lines = reversed(self.lines) if last else self.lines
        return next((count for count, line in enumerate(lines) if line.tag != tag), len(self.lines))


class FileDiff(msgspec.Struct, frozen=True):
    """Part of a diff that changes one file; names have no `a/` or `b/` prefix and are None if missing."""

    old_path: str | None
    new_path: str | None
    creates: bool
    deletes: bool
    hunks: tuple[Hunk, ...]


class PlacedHunk(msgspec.Struct, frozen=True):
    """Where a hunk was applied; lines are counted from 1."""

    old_line: int
    old_count: int
    new_line: int
    new_count: int
    drift: int
    """Distance in lines from the stated line to this one; 0 if the hunk states none."""


class PatchResult(msgspec.Struct, frozen=True):
    """The file after the patch."""

    kind: Literal["unchanged", "replaced", "patched", "created", "deleted"]
    after: str | None
    """New text; None exactly if the file is deleted."""
    hunks: tuple[PlacedHunk, ...] = ()


def quote_text(text: str) -> str:
    """Quote the text for a message, shortened to 80 characters."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
