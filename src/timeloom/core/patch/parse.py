"""Parses unified diffs into files and hunks.

Models miscount, so a header's counts are used only if the hunk they give ends before something that can follow a hunk.
Otherwise the hunk extends as far as its lines carry marks. Correct counts are still needed: only they distinguish a
removed `-- x` above an added `++ y` from the header of another file.
"""

import re
from collections.abc import Iterable

from msgspec import structs

from timeloom.core.patch.detect import DiffSpan
from timeloom.core.patch.line_numbers import has_prefix, numbered_hunk_error
from timeloom.core.patch.syntax import (
    HEADER,
    NUMBERED_HUNK,
    is_file_header,
    is_hunk_header,
    skip_blank,
    tag_of,
    unexpected_line_error,
)
from timeloom.core.patch.types import MAX_HUNKS, BodyLine, FileDiff, Hunk, PatchError

_SIGNATURE_VERSION = re.compile(r"\d{1,4}\.\d{1,4}[\w.\- ()]{0,40}\s*")
_EXPECTED_LINE = "a line that starts with ' ', '+', '-' or '@@'"


def parse_file_diffs(lines: list[str], spans: Iterable[DiffSpan]) -> tuple[FileDiff, ...]:
    """Return the files that these spans of a patch change; consecutive spans that name the same file are joined."""
    files: list[FileDiff] = []
    for span in spans:
        at = skip_blank(lines, span.start, span.stop)
        while at < span.stop and not _is_signature(lines, at, span.stop):
            file, after = _parse_file(lines, at, span)
            if after == at:
                raise _misplaced_line_error(lines, at)
            if files and _is_continued(files[-1], file):
                file = _join(files.pop(), file)
            files.append(file)
            at = skip_blank(lines, after, span.stop)
    return tuple(files)


def _is_continued(file: FileDiff, following: FileDiff) -> bool:
    if file.creates or file.deletes or following.creates or following.deletes:
        return False
    names = (following.old_path, following.new_path)
    return names in ((None, None), (file.old_path, file.new_path))


def _join(file: FileDiff, following: FileDiff) -> FileDiff:
    count = len(file.hunks)
    _check_count(count + len(following.hunks))
    added = (structs.replace(hunk, number=count + hunk.number) for hunk in following.hunks)
    return structs.replace(file, hunks=(*file.hunks, *added))


def _check_count(hunks: int) -> None:
    if hunks > MAX_HUNKS:
        raise PatchError("patch_too_large", f"the patch has more than {MAX_HUNKS} hunks for one file")


def _parse_file(lines: list[str], at: int, span: DiffSpan) -> tuple[FileDiff, int]:
    header_line, stop = at, span.stop
    names, at = _parse_header(lines, at, stop)
    hunks: list[Hunk] = []
    while (at := skip_blank(lines, at, stop)) < stop:
        if not lines[at].startswith("@@") and (hunks or not _starts_headless(lines, at, names, span)):
            break
        hunk, at = _parse_hunk(lines, at, stop, len(hunks) + 1)
        hunks.append(hunk)
        _check_count(len(hunks))
    file = _make_file_diff(names, tuple(hunks))
    if names and not hunks and not file.creates and not file.deletes:
        found = "ends there" if at >= stop else f"goes on with {lines[at][:40]!r}"
        raise PatchError(
            "patch_malformed", f"the file header at line {header_line + 1} has no hunks: the patch {found}"
        )
    return file, at


def _starts_headless(lines: list[str], at: int, names: dict[str, str], span: DiffSpan) -> bool:
    """Return whether a hunk without an @@ line may start here: below a new name, or in a fence labelled diff.

    In such a fence an old name alone is not enough: `--- x` could be the removed line `-- x`.
    """
    allowed = "+++" in names or (span.headless and not names)
    return allowed and tag_of(lines[at]) is not None and not is_file_header(lines, at)


def _parse_header(lines: list[str], at: int, stop: int) -> tuple[dict[str, str], int]:
    names: dict[str, str] = {}
    while at < stop and "+++" not in names:
        line = lines[at].rstrip("\r")
        found = HEADER.match(line)
        if found is None or found[1].strip() in names:
            break
        names[found[1].strip()] = line[found.end() :]
        at += 1
    return names, at


def _make_file_diff(names: dict[str, str], hunks: tuple[Hunk, ...]) -> FileDiff:
    old, new = _parse_name(names.get("---", "")), _parse_name(names.get("+++", ""))
    creates = old == "/dev/null" or "new file mode" in names
    deletes = new == "/dev/null" or "deleted file mode" in names
    return FileDiff(None if creates else old or None, None if deletes else new or None, creates, deletes, hunks)


def _parse_name(written: str) -> str:
    """Return the name without the time stamp after a tab and without git's `a/` or `b/`."""
    name = written.split("\t", 1)[0].strip().strip('"')
    return name[2:] if name.startswith(("a/", "b/")) else name


def _parse_hunk(lines: list[str], at: int, stop: int, number: int) -> tuple[Hunk, int]:
    patch_line = at + 1
    found = NUMBERED_HUNK.match(lines[at])
    headed = lines[at].startswith("@@")
    if headed and not is_hunk_header(lines[at]):
        raise unexpected_line_error(lines, at, "a hunk header such as '@@ -1,3 +1,4 @@'")
    at += headed
    counts = (int(found[2] or 1), int(found[4] or 1)) if found else None
    end = _counted_end(lines, at, stop, counts) if counts else None
    counted = end is not None
    if end is None:
        end = _marked_end(lines, at, stop)
    body = _parse_body(lines, at, end)
    if all(line.tag == " " for line in body):
        raise _no_change_error(lines, end, stop, body, f"hunk {number} (line {patch_line} of the patch)")
    starts = (int(found[1]), int(found[3])) if found else (None, None)
    return Hunk(number, patch_line, *starts, counted, body), end


def _no_change_error(lines: list[str], end: int, stop: int, body: tuple[BodyLine, ...], name: str) -> PatchError:
    """Return the error for a hunk without added or removed lines; line numbers before the marks can cause it."""
    if end < stop and has_prefix(lines[end]):
        return _misplaced_line_error(lines, end)
    return numbered_hunk_error(body, name) or PatchError(
        "patch_malformed", f"{name} has no line that starts with '+' or '-'"
    )


def _counted_end(lines: list[str], at: int, stop: int, counts: tuple[int, int]) -> int | None:
    """Return the end of the hunk by its header's counts; None if they do not match."""
    old, new = counts
    while at < stop and (old > 0 or new > 0):
        tag = tag_of(lines[at])
        if tag is None:
            return None
        old -= tag in (" ", "-")
        new -= tag in (" ", "+")
        at += 1
    if (old, new) != (0, 0) or counts == (0, 0):
        return None
    if at < stop and tag_of(lines[at]) == "\\":
        at += 1
    return at if _may_follow(lines, skip_blank(lines, at, stop), stop) else None


def _marked_end(lines: list[str], at: int, stop: int) -> int:
    """Return the end of the lines with marks; trailing empty lines are excluded, since context does not need them."""
    start = at
    while at < stop and tag_of(lines[at]) is not None:
        if is_file_header(lines, at) and "".join(lines[at + 2 : at + 3]).startswith("@@"):
            break
        at += 1
    while at > start and not lines[at - 1].rstrip("\r"):
        at -= 1
    return at


def _may_follow(lines: list[str], at: int, stop: int) -> bool:
    if at >= stop or lines[at].startswith(("@@", "diff ", "Index: ")):
        return True
    return is_file_header(lines, at) or _is_signature(lines, at, stop)


def _is_signature(lines: list[str], at: int, stop: int) -> bool:
    """Return whether a mailed patch ends here: `-- ` above a version, which cannot be a line of a hunk."""
    if lines[at].rstrip("\r") != "-- " or at + 1 >= stop or not _SIGNATURE_VERSION.fullmatch(lines[at + 1]):
        return False
    return skip_blank(lines, at + 2, stop) == stop


def _parse_body(lines: list[str], at: int, end: int) -> tuple[BodyLine, ...]:
    body: list[BodyLine] = []
    for index in range(at, end):
        line = lines[index]
        match tag_of(line):
            case "\\":
                _drop_last_newline(body, lines, index)
            case "+":
                body.append(BodyLine("+", line[1:]))
            case "-":
                body.append(BodyLine("-", line[1:]))
            case _:
                bare = not line.rstrip("\r")
                body.append(BodyLine(" ", line[1:] if line[0:1] == " " else line, bare=bare))
    _check_newline_marks(body, at)
    return tuple(body)


def _drop_last_newline(body: list[BodyLine], lines: list[str], index: int) -> None:
    """Remove the newline of the last line, and its carriage return if the patch itself ends lines with one."""
    if not body or not body[-1].newline:
        raise unexpected_line_error(lines, index, "the line that has no newline above it")
    text = body[-1].text.removesuffix("\r") if lines[index].endswith("\r") else body[-1].text
    body[-1] = structs.replace(body[-1], text=text, newline=False)


def _check_newline_marks(body: list[BodyLine], at: int) -> None:
    """Raise if a line without a newline is followed by another line of the same side."""
    for tags in (" -", " +"):
        side = [line for line in body if line.tag in tags]
        if not all(line.newline for line in side[:-1]):
            where = f"in the hunk whose lines start at line {at + 1} of the patch"
            raise PatchError("patch_malformed", f"'\\ No newline at end of file' stands above further lines {where}")


def _misplaced_line_error(lines: list[str], at: int) -> PatchError:
    if has_prefix(lines[at]):
        return PatchError(
            "patch_line_numbers",
            f"line {at + 1} of the patch starts with a line number; the numbers are display only, leave them out",
        )
    return unexpected_line_error(lines, at, _EXPECTED_LINE)
