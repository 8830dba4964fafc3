"""Computes the result of a patch before anything is written."""

from collections.abc import Sequence

from msgspec import structs

from timeloom.core.patch.detect import LocatedDiffs, find_diffs
from timeloom.core.patch.line_numbers import refuse_numbered_addition, refuse_numbered_text
from timeloom.core.patch.locate import line_key, place_hunks
from timeloom.core.patch.other_formats import WRITE_HINT
from timeloom.core.patch.parse import parse_file_diffs
from timeloom.core.patch.replacement import refuse_partial_text
from timeloom.core.patch.splice import compare_endings, splice
from timeloom.core.patch.types import (
    MAX_FILE_CHARS,
    MAX_FILE_LINES,
    MAX_PATCH_CHARS,
    FileDiff,
    Hunk,
    PatchError,
    PatchResult,
    quote_text,
)

_BYTE_ORDER_MARK = "\ufeff"
_CONTEXT_LINES = 3
"""Lines above and below a hunk that are checked for line numbers in the file itself; diffs show as many."""


def apply_patch(before: str, patch: str) -> str:
    """Return the file's text after the patch, which is a unified diff of one file or the new text; "" if deleted."""
    return plan_patch(before, patch).after or ""


def plan_patch(before: str | None, patch: str) -> PatchResult:
    """Return the result of the patch for a file; `before` is None if the file does not exist."""
    located = _find_diffs(before, patch)
    if located is None:
        return _plan_replacement(before, patch)
    try:
        files = parse_file_diffs(located.lines, located.spans)
        if len(files) != 1:
            names = ", ".join(
                quote_text(file.new_path or file.old_path or "a file without a name") for file in files[:5]
            )
            raise PatchError("patch_several_files", f"the patch changes {len(files)} files ({names}), expected one")
        return plan_diff(before, files[0])
    except PatchError as error:
        if not located.below_text:
            raise
        raise PatchError(error.code, f"{error}; {WRITE_HINT}") from None


def parse_patch(before: str | None, patch: str) -> tuple[FileDiff, ...] | None:
    """Return the files that the patch changes; None if it is not a diff but the file's new text."""
    located = _find_diffs(before, patch)
    return None if located is None else parse_file_diffs(located.lines, located.spans)


def plan_diff(before: str | None, diff: FileDiff) -> PatchResult:
    """Return the result of one file's part of a diff."""
    _check_sizes(before or "", "")
    if before and diff.creates:
        raise PatchError(
            "patch_no_match", f"the patch creates a file, but the file has {len(_split_lines(before))} lines"
        )
    if not before:
        return _plan_new_file(before, diff)
    mark = _byte_order_mark_to_keep(before, diff)
    file = _split_lines(before.removeprefix(mark))
    endings = compare_endings(file, diff.hunks)
    keys = [line_key(raw.removesuffix("\n"), loose=endings.loose) for raw in file]
    places = place_hunks(keys, diff.hunks, ended=before.endswith("\n"), loose=endings.loose)
    after, placed = splice(file, diff.hunks, places, endings)
    for hunk, spot in zip(diff.hunks, placed, strict=True):
        _refuse_line_numbers(file, hunk, spot.old_line - 1, spot.new_line - 1)
    if diff.deletes:
        if after:
            raise PatchError(
                "patch_no_match", f"the patch deletes the file, but {len(_split_lines(after))} lines would stay"
            )
        return PatchResult("deleted", None, placed)
    return PatchResult("patched", mark + after if after else "", placed)


def _find_diffs(before: str | None, patch: str) -> LocatedDiffs | None:
    _check_sizes(before or "", patch)
    return find_diffs(before or "", patch) if patch else None


def _plan_replacement(before: str | None, text: str) -> PatchResult:
    """Return the result of a patch that is a whole new text."""
    if not text and before is None:
        raise PatchError("patch_malformed", "the patch is empty and there is no file, expected the new file's text")
    if not text:
        return PatchResult("unchanged", before)
    refuse_numbered_text(before or "", text)
    refuse_partial_text(before or "", text)
    return PatchResult("created" if before is None else "replaced", text)


def _check_sizes(before: str, patch: str) -> None:
    if len(patch) > MAX_PATCH_CHARS:
        raise PatchError(
            "patch_too_large", f"the patch has {len(patch)} characters, at most {MAX_PATCH_CHARS} are read"
        )
    if len(before) > MAX_FILE_CHARS:
        raise PatchError(
            "patch_too_large", f"the file has {len(before)} characters, at most {MAX_FILE_CHARS} are patched"
        )
    if before.count("\n") >= MAX_FILE_LINES:
        raise PatchError("patch_too_large", f"the file has more than {MAX_FILE_LINES} lines")


def _plan_new_file(before: str | None, diff: FileDiff) -> PatchResult:
    """Return the result of a diff for a file that is missing or empty."""
    if diff.deletes:
        if diff.hunks or before is None:
            raise PatchError("patch_no_match", "the patch deletes lines of a file that has none")
        return PatchResult("deleted", None)
    if len(diff.hunks) > 1:
        raise PatchError("patch_ambiguous", "a file that is empty or does not exist takes one hunk; join the hunks")
    hunks = [_without_context(hunk) for hunk in diff.hunks]
    after, placed = splice([], hunks, [0] * len(hunks), compare_endings([], hunks))
    refuse_numbered_text("", after)
    return PatchResult("created" if before is None or diff.creates else "patched", after, placed)


def _without_context(hunk: Hunk) -> Hunk:
    """Return the hunk with bare empty lines turned into added ones, since a new file has no context."""
    if any(not line.bare for line in hunk.old):
        message = f"hunk {hunk.number} (line {hunk.patch_line} of the patch) expects lines of a file that has none"
        raise PatchError("patch_no_match", message)
    return structs.replace(hunk, lines=tuple(structs.replace(line, tag="+") for line in hunk.lines))


def _byte_order_mark_to_keep(before: str, diff: FileDiff) -> str:
    """Return the file's byte order mark to restore it, or "" if the file has none or the diff mentions it."""
    named = any(line.text.startswith(_BYTE_ORDER_MARK) for hunk in diff.hunks for line in hunk.lines)
    return _BYTE_ORDER_MARK if before.startswith(_BYTE_ORDER_MARK) and not named else ""


def _refuse_line_numbers(file: Sequence[str], hunk: Hunk, old_at: int, new_at: int) -> None:
    added = [line for line in hunk.lines if line.tag == "+"]
    around = file[max(0, old_at - _CONTEXT_LINES) : old_at + len(hunk.old) + _CONTEXT_LINES]
    first = next((index for index, line in enumerate(hunk.lines) if line.tag == "+"), 0)
    kept = sum(1 for line in hunk.lines[:first] if line.tag == " ")
    places = (old_at + first + 1, new_at + kept + 1)
    refuse_numbered_addition(added, around, places, f"hunk {hunk.number} (line {hunk.patch_line} of the patch)")


def _split_lines(text: str) -> list[str]:
    """Return the lines with their endings, split at line feeds only."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines
