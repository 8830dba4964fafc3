"""Maps paths that tools receive to files of the current turn."""

import re

import msgspec

from timeloom.core.ids import IdError, TurnId, parse_turn_id
from timeloom.core.paths.errors import PathError, quote_prefix
from timeloom.core.paths.forms import FileForm, FilePath
from timeloom.core.paths.parse_path import check_length, has_scheme, parse_long
from timeloom.core.paths.physical import PhysicalPath, to_logical, to_physical

_TURN_FOLDERS = frozenset({"files", "outputs", "attachments", "external"})
_HERE = re.compile(r"(?:\./)+")


class RewrittenPath(msgspec.Struct, frozen=True):
    """The file of the current turn that a given path means."""

    path: FileForm
    physical: PhysicalPath
    relative: str
    """Path below the turn's folder of that kind: `output.csv` for `turn_1/files/output.csv`."""
    changed: bool
    """Whether a path of another turn was moved into the current turn; the caller records this as a notice."""
    writable: bool
    """Whether a tool may write there; false for files that the user sent."""


def rewrite_path(text: str, current_turn: TurnId) -> RewrittenPath:
    """Return the file meant by a physical path, a `fi:` path or a bare relative name, moved to the current turn.

    Attachments exist only in the turn in which they were sent, so they are not moved. They are never writable.
    """
    given = _parse_given(text, current_turn)
    if not isinstance(given, FilePath):
        return RewrittenPath(given, to_physical(given), given.name, changed=False, writable=False)
    path = FilePath(current_turn, given.area, given.rel)
    return RewrittenPath(path, to_physical(path), path.rel, changed=path != given, writable=True)


def strip_here(text: str) -> str:
    """Return the path without a leading `./`, which names the folder that relative paths begin in anyway."""
    return text[found.end() :] if (found := _HERE.match(text)) else text


def _parse_given(text: str, current_turn: TurnId) -> FileForm:
    check_length(text)
    if has_scheme(text):
        return _parse_file_path(text)
    text = strip_here(text)
    first, separator, _ = text.partition("/")
    if _is_turn_id(first):
        return to_logical(text)
    if first in _TURN_FOLDERS:
        return to_logical(f"{current_turn}/{text}")
    if first.startswith("~") and (separator or first == "~"):
        raise PathError("path_escapes_root", "the path starts in a home folder; expected one relative to its folder")
    return FilePath(current_turn, "files", text)


def _parse_file_path(text: str) -> FileForm:
    path = parse_long(text)
    if not isinstance(path, FileForm):
        raise PathError("path_not_a_file", f"expected a file's path, got {quote_prefix(text)}")
    return path


def _is_turn_id(name: str) -> bool:
    try:
        parse_turn_id(name)
    except IdError:
        return False
    return True
