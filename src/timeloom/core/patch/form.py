"""Telling a diff from a replacement: where in the text a unified diff stands, if there is one.

A text that looks like a change but is not a unified diff is refused here, so that it never becomes a file's content.
"""

import re

from timeloom.core.patch.model import PatchError, shown

NUMBERED_HUNK = re.compile(r"@@ ?-(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? ?@@")
_FENCE = re.compile(r"(?:```+|~~~+) *[\w.+-]*\s*")
_FILE_START = ("--- a/", "--- /dev/null", "+++ b/", "+++ /dev/null", "diff --git ")
_NORMAL_DIFF = re.compile(r"\d{1,9}(?:,\d{1,9})?[acd]\d{1,9}(?:,\d{1,9})?")
_SEARCH_BLOCK = re.compile(r"<{5,9} ?(?:SEARCH|ORIGINAL)\b")


def split_patch(patch: str) -> list[str]:
    """The lines of a patch without line feeds; a last line that lost its end gets that of the line before."""
    lines = patch.split("\n")
    if not lines[-1]:
        return lines[:-1]
    if len(lines) > 1 and lines[-2].endswith("\r") and not lines[-1].endswith("\r"):
        lines[-1] += "\r"
    return lines


def diff_span(before: str, lines: list[str]) -> tuple[int, int] | None:
    """The first line of the diff and the line after its last; None if the text is a replacement."""
    first = next((at for at, line in enumerate(lines) if line.strip()), None)
    if first is None:
        raise PatchError("patch_malformed", "the patch is only white space, expected a unified diff or a new text")
    fenced = _FENCE.fullmatch(lines[first]) is not None
    head = next((at for at in range(first + fenced, len(lines)) if lines[at].strip()), len(lines))
    start = head if opens_diff(lines, head) else _start_within(before, lines)
    if start is None:
        _refuse_other_forms(before, lines, first)
        return None
    above = next((at for at in range(start - 1, -1, -1) if lines[at].strip()), None)
    if above is not None and _FENCE.fullmatch(lines[above]):
        return start, _closing_fence(lines, above)
    return start, len(lines)


def opens_diff(lines: list[str], at: int) -> bool:
    """Whether a text whose first line is this one is a diff."""
    if at >= len(lines):
        return False
    line = lines[at].rstrip("\r")
    return line == "@@" or line.startswith(("@@ ", *_FILE_START)) or _is_evidence(lines, at)


def is_file_header(lines: list[str], at: int) -> bool:
    """Whether the old and the new name of a file stand here, one below the other."""
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _is_evidence(lines: list[str], at: int) -> bool:
    """Whether this line is found in diffs and hardly anywhere else, wherever it stands."""
    line = lines[at]
    if line.startswith("@@"):
        return NUMBERED_HUNK.match(line) is not None
    if line.startswith("---"):
        return is_file_header(lines, at) or _is_nameless_header(lines, at)
    return line.startswith("diff --git ")


def _is_nameless_header(lines: list[str], at: int) -> bool:
    after = [line.rstrip() for line in lines[at : at + 3]]
    return after[:2] == ["---", "+++"] and after[2:] != [] and after[2].startswith("@@")


def _start_within(before: str, lines: list[str]) -> int | None:
    """Where a diff starts below other text.

    A line that the file has too is no evidence: a document about diffs is replaced by its next version.
    """
    found = [at for at in range(len(lines)) if lines[at][:1] in ("@", "-", "d") and _is_evidence(lines, at)]
    if not found:
        return None
    known = {line.rstrip("\r") for line in before.split("\n")}
    return next((at for at in found if lines[at].rstrip("\r") not in known), None)


def _closing_fence(lines: list[str], opening: int) -> int:
    """The last fence: lines of a hunk carry a mark, so a fence within them does not stand at the start of a line."""
    stop = next((at for at in range(len(lines) - 1, opening, -1) if _FENCE.fullmatch(lines[at])), None)
    if stop is None:
        raise PatchError(
            "patch_malformed", f"the fence opened at line {opening + 1} of the patch is not closed; is it cut off?"
        )
    if any(_is_evidence(lines, at) for at in range(stop, len(lines))):
        raise PatchError(
            "patch_malformed", f"another diff stands after the fence closed at line {stop + 1} of the patch"
        )
    return stop


def _refuse_other_forms(before: str, lines: list[str], first: int) -> None:
    """Refuse edits in notations other than the unified diff."""
    line, following = lines[first], "".join(lines[first + 1 : first + 2])
    if line.startswith("*** Begin Patch"):
        raise _other_form("an apply_patch envelope", first)
    if line.startswith("*** ") and following.startswith("--- "):
        raise _other_form("a context diff", first)
    if _NORMAL_DIFF.fullmatch(line.rstrip("\r")) and following.startswith(("< ", "> ")):
        raise _other_form("a diff without context", first)
    blocks = (at for at, text in enumerate(lines) if text.startswith("<<<<<") and _SEARCH_BLOCK.match(text))
    block = next(blocks, None)
    if block is not None and lines[block].rstrip("\r") not in before:
        raise _other_form("a search-and-replace block", block)
    _refuse_headless_hunk(before, lines, first)


def _refuse_headless_hunk(before: str, lines: list[str], first: int) -> None:
    """Refuse lines that all carry the marks of a hunk, unless they read as a list (`- a`, `+ b`) or signed numbers."""
    texts = [line.rstrip("\r") for line in lines if line.strip()]
    changed = [text for text in texts if text[0] in "+-"]
    if not before or not changed or any(text[0] not in "+- " for text in texts):
        return
    if any(text[0] == "+" and text[1:2] not in ("", " ", "+") and not text[1].isdigit() for text in changed):
        raise _other_form("a hunk without its @@ line", first)
    known = {line.rstrip("\r") for line in before.split("\n") if line.strip()}
    if any(text[0] != "+" and text[1:] in known for text in texts):
        raise _other_form("a hunk without its @@ line", first)


def _other_form(what: str, at: int) -> PatchError:
    return PatchError(
        "patch_malformed", f"expected a unified diff or the file's new text, got {what} at line {at + 1} of the patch"
    )


def refuse_line(lines: list[str], at: int, expected: str) -> PatchError:
    """The error for a line that has no place where it stands."""
    return PatchError("patch_malformed", f"line {at + 1} of the patch is {shown(lines[at])}, expected {expected}")
