"""Maps paths that tools receive to files of the current turn."""

import msgspec

from timeloom.core.ids import IdError, TurnId, turn_id
from timeloom.core.paths.errors import PathError, shown
from timeloom.core.paths.forms import FileForm, FilePath
from timeloom.core.paths.parse_path import check_length, has_scheme, parse
from timeloom.core.paths.physical import PhysicalPath, logical, physical

_TURN_FOLDERS = frozenset({"files", "outputs", "attachments", "external"})


class Rewritten(msgspec.Struct, frozen=True):
    """The file of the current turn that a given path means."""

    path: FileForm
    physical: PhysicalPath
    relative: str
    """Path below the turn's folder of that kind: `output.csv` for `turn_1/files/output.csv`."""
    changed: bool
    """Whether a path of another turn was moved into the current turn; the caller records this as a notice."""
    writable: bool
    """Whether a tool may write there; false for files that the user sent."""


def rewrite(text: str, current_turn: TurnId) -> Rewritten:
    """Return the file meant by a physical path, a `fi:` path or a bare relative name, moved to the current turn.

    Attachments exist only in the turn in which they were sent, so they are not moved. They are never writable.
    """
    named = _named(text, current_turn)
    if not isinstance(named, FilePath):
        return Rewritten(named, physical(named), named.name, changed=False, writable=False)
    path = FilePath(current_turn, named.area, named.rel)
    return Rewritten(path, physical(path), path.rel, changed=path != named, writable=True)


def _named(text: str, current_turn: TurnId) -> FileForm:
    check_length(text)
    if has_scheme(text):
        return _file_only(text)
    first, separator, _ = text.partition("/")
    if _is_turn(first):
        return logical(text)
    if first in _TURN_FOLDERS:
        return logical(f"{current_turn}/{text}")
    if first.startswith("~") and (separator or first == "~"):
        raise PathError("path_escapes_root", "the path starts in a home folder; expected one relative to its folder")
    return FilePath(current_turn, "files", text)


def _file_only(text: str) -> FileForm:
    path = parse(text)
    if not isinstance(path, FileForm):
        raise PathError("path_not_a_file", f"expected a file's path, got {shown(text)}")
    return path


def _is_turn(name: str) -> bool:
    try:
        turn_id(name)
    except IdError:
        return False
    return True
