"""Undoes the escapes of edition 2 in text for a file, where the file tells a copied escape from the file's own text.

A prompt shows the line `[x]` as `~[x]` between the lines of a result, and as `12| [x]` behind its number. So a model
that writes `~[x]` may have copied either `[x]` or a line of the file that really is `~[x]`. The file decides: a line
that stands in it exactly comes first. Any other line loses its escape, as every other parameter of a call does.
"""

from collections.abc import Collection

from timeloom.core.patch import PatchError, PatchResult, parse_patch, plan_patch
from timeloom.core.render.v2.fence import unfence_text


def undo_file_escapes(text: str, before: str | None) -> str:
    """Return the new text of a file without copied escapes; `before` is its old text, None if there is none."""
    known = _lines_of(before)
    return "\n".join(_undo(line, known) for line in text.split("\n"))


def plan_copied_patch(before: str | None, patch: str) -> tuple[PatchResult, str]:
    """Return the result of a patch that may contain copied escapes, and the patch without them.

    Lines of a diff that stand in the file exactly are tried first. If the diff does not apply like that, all its
    escapes are undone. Raises the first error if neither applies.
    """
    if parse_patch(before, patch) is None:
        text = undo_file_escapes(patch, before)
        return plan_patch(before, text), text
    exact, copied = _undo_diff(patch, _lines_of(before)), _undo_diff(patch, ())
    try:
        return plan_patch(before, exact), exact
    except PatchError as error:
        try:
            return plan_patch(before, copied), copied
        except PatchError:
            raise error from None


def _lines_of(text: str | None) -> Collection[str]:
    return frozenset((text or "").split("\n"))


def _undo(line: str, known: Collection[str]) -> str:
    return line if line in known else unfence_text(line)


def _undo_diff(patch: str, known: Collection[str]) -> str:
    lines = patch.split("\n")
    # A line of the file that has an escape of its own, as written: the model writes the text itself, not a copy.
    is_exact = any(
        line[:1] in ("-", " ") and line[1:] in known and unfence_text(line[1:]) != line[1:] for line in lines
    )
    return "\n".join(_undo_diff_line(line, known, is_exact=is_exact) for line in lines)


def _undo_diff_line(line: str, known: Collection[str], *, is_exact: bool) -> str:
    tag, text = line[:1], line[1:]
    if tag not in ("-", "+", " ") or (tag == "+" and is_exact):
        return line
    return tag + _undo(text, known)
