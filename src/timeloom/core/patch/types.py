"""The values of a patch: what a diff says, and what came of it."""

from typing import Literal

import msgspec

from timeloom.core.codes import CodedError

MAX_PATCH_CHARS = 2_000_000
"""Longest patch read. Smaller refuses replacements of real files; larger lets one call hold a worker for seconds."""

MAX_FILE_CHARS = 8_000_000
"""Longest file patched. Smaller refuses generated data; larger costs memory, since every line becomes an object."""

MAX_FILE_LINES = 500_000
"""Most lines of a file. Lines are searched as one character each, so a million more would run out of code points."""

MAX_HUNKS = 1_000
"""Most hunks of one file. Smaller refuses renames across a file; larger multiplies hostile patches with the window."""

MAX_SEARCHED_LINES = 100_000_000
"""Most lines searched for hunks without numbers, each of which searches the whole file; ten times more take seconds."""

DRIFT_LINES = 1_000
"""How far from its stated line a hunk is looked for. Smaller refuses edits of grown files; larger sees more twins."""


class PatchError(CodedError):
    """A patch that is refused; the message says what was got and what was expected."""


class BodyLine(msgspec.Struct, frozen=True):
    """One line of a hunk, without its mark."""

    tag: Literal[" ", "+", "-"]
    text: str
    """Without the line feed; a carriage return before it is kept."""
    newline: bool = True
    """False where `\\ No newline at end of file` follows."""
    bare: bool = False
    """An empty line that has lost the space of a context line."""


class Hunk(msgspec.Struct, frozen=True):
    """One hunk as it was written."""

    number: int
    patch_line: int
    old_start: int | None
    """The stated first line, counted from 1; None where the header has no numbers."""
    new_start: int | None
    counted: bool
    """Whether the header's counts are those of the body."""
    lines: tuple[BodyLine, ...]

    @property
    def old(self) -> list[BodyLine]:
        """The lines that the file must have."""
        return [line for line in self.lines if line.tag != "+"]

    @property
    def new(self) -> list[BodyLine]:
        """The lines that stand in their place afterwards."""
        return [line for line in self.lines if line.tag != "-"]


class FileDiff(msgspec.Struct, frozen=True):
    """The part of a diff that changes one file; names lack `a/` and `b/`; None where there is none."""

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
    """Lines between the stated place and this one; 0 where none was stated."""


class PatchResult(msgspec.Struct, frozen=True):
    """What becomes of the file."""

    kind: Literal["unchanged", "replaced", "patched", "created", "deleted"]
    after: str | None
    """The new text; None exactly when the file is deleted."""
    hunks: tuple[PlacedHunk, ...] = ()


def shown(text: str) -> str:
    """The text quoted and short enough for a message."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
