"""Classifies lines of a unified diff by how they start."""

import re

from timeloom.core.patch.types import PatchError, quote_text

NUMBERED_HUNK = re.compile(r"@@ ?-(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? ?@@")
HEADER = re.compile(
    r"(diff |Index: |index |old mode |new mode |new file mode |deleted file mode |similarity index "
    r"|dissimilarity index |rename from |rename to |copy from |copy to |={10,}|---(?: |$)|\+\+\+(?: |$))"
)
_FILE_START = ("--- a/", "--- /dev/null", "+++ b/", "+++ /dev/null", "diff --git ")


def opens_diff(lines: list[str], at: int) -> bool:
    """Return whether a text that starts with this line is a diff."""
    return lines[at].startswith(_FILE_START) or is_hunk_header(lines[at]) or is_diff_evidence(lines, at)


def is_diff_evidence(lines: list[str], at: int) -> bool:
    """Return whether this line occurs in diffs and hardly ever in other text."""
    line = lines[at]
    if line.startswith("@@"):
        return NUMBERED_HUNK.match(line) is not None or (is_hunk_header(line) and _has_changes_below(lines, at))
    if line.startswith(("---", "+++")):
        return is_file_header(lines, at) or _is_lone_name(lines, at) or _is_nameless_header(lines, at)
    return line.startswith("diff --git ")


def is_hunk_header(line: str) -> bool:
    """Return whether the line can head a hunk, with or without numbers."""
    return line.rstrip() == "@@" or line.startswith("@@ ") or NUMBERED_HUNK.match(line) is not None


def is_file_header(lines: list[str], at: int) -> bool:
    """Return whether the old and the new name of a file are on this line and the next."""
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def tag_of(line: str) -> str | None:
    """Return the mark of a hunk line; an empty line or one that starts with a tab is context that lost its space."""
    if line.startswith("\\ "):
        return "\\"
    mark = line[:1]
    if mark in ("", "\t") or line == "\r":
        return " "
    return mark if mark in " +-" else None


def end_of_diff(lines: list[str], at: int, stop: int) -> int:
    """Return the first line from here on that cannot belong to a diff."""
    while at < stop and (tag_of(lines[at]) or lines[at].startswith("@@") or HEADER.match(lines[at])):
        at += 1
    return at


def skip_blank(lines: list[str], at: int, stop: int) -> int:
    """Return the first line from here on that is not blank."""
    while at < stop and not lines[at].strip():
        at += 1
    return at


def unexpected_line_error(lines: list[str], at: int, expected: str) -> PatchError:
    """Return the error for a line that is not expected at its position."""
    return PatchError("patch_malformed", f"line {at + 1} of the patch is {quote_text(lines[at])}, expected {expected}")


def _has_changes_below(lines: list[str], at: int) -> bool:
    """Return whether marked lines follow, at least one of them added or removed."""
    below = (tag_of(lines[index]) for index in range(at + 1, len(lines)))
    return next((tag for tag in below if tag is None or tag in "+-"), None) is not None


def _is_lone_name(lines: list[str], at: int) -> bool:
    """Return whether a single file name precedes a hunk."""
    below = skip_blank(lines, at + 1, min(at + 3, len(lines)))
    return lines[at].startswith(("--- ", "+++ ")) and below < len(lines) and is_hunk_header(lines[below])


def _is_nameless_header(lines: list[str], at: int) -> bool:
    after = [line.rstrip() for line in lines[at : at + 3]]
    return after[:2] == ["---", "+++"] and after[2:] != [] and after[2].startswith("@@")
