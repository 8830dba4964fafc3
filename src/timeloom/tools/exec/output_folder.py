"""Scans the folder of a finished program without following links that the program created."""

import errno
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.paths import FileForm, PathError, PhysicalPath, rewrite_path
from timeloom.core.view.aliases import rewrite_in
from timeloom.core.view.views import Views
from timeloom.platform.open_beneath import open_beneath, open_folder_beneath
from timeloom.tools.workspace import MAX_FILE_BYTES, RESERVED_PREFIX, WorkspaceError

MAX_ENTRIES: Final = 20_000
"""Most files and folders that are examined; the rest of the folder is ignored."""

MAX_DEPTH: Final = 64
"""Deepest folder that is examined."""

_RESERVED: Final = f"names that begin with {RESERVED_PREFIX} are reserved"
_IGNORED_NAMES: Final = frozenset({"__pycache__"})


class OutputFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the program wrote, and the file of the current turn that it becomes."""

    source_path: str
    """Relative to the program's folder."""
    target: PhysicalPath
    path: FileForm
    writable: bool
    """False if the path belongs to an attachment."""

    @property
    def is_moved(self) -> bool:
        """Whether the file is outside the folders of the current turn."""
        return self.source_path != str(self.target)


class RefusedFile(msgspec.Struct, frozen=True):
    """A file that is not kept, and the reason."""

    name: str
    reason: str


class OutputFolder(msgspec.Struct, kw_only=True):
    """The files that may be kept, sorted by path, and the files that may not."""

    files: list[OutputFile] = []
    refused: list[RefusedFile] = []
    complete: bool = True


def scan_output_folder(root: Path, turn: TurnId, views: Views, links: Mapping[str, str]) -> OutputFolder:
    """Return the files below the program's folder; correctly placed files come first.

    The links that the program got are ignored: what it wrote through them lies in the folders themselves.
    """
    found = OutputFolder()
    for count, names in enumerate(_walk_entries(root, found)):
        if count >= MAX_ENTRIES:
            found.complete = False
            break
        if len(names) == 1 and _is_given_link(root, names[0], links):
            continue
        place = "/".join(names)
        try:
            found.files.append(_to_output_file(place, turn, views))
        except PathError as error:
            found.refused.append(RefusedFile(place, str(error)))
    found.files.sort(key=lambda left: (left.is_moved, left.source_path))
    return found


def _is_given_link(root: Path, name: str, links: Mapping[str, str]) -> bool:
    link = root / name
    return name in links and link.is_symlink() and str(link.readlink()) == links[name]


def _to_output_file(place: str, turn: TurnId, views: Views) -> OutputFile:
    try:
        # The program may have made a folder with the alias of a turn itself.
        target = rewrite_in(place, turn, views)
    except PathError:
        target = rewrite_path(place, turn)
    return OutputFile(source_path=place, target=target.physical, path=target.path, writable=target.writable)


def _walk_entries(root: Path, found: OutputFolder) -> Iterator[tuple[str, ...]]:
    """Yield each non-folder by the names that lead to it; folders are opened from the root without following links."""
    folders: list[tuple[str, ...]] = [()]
    opened = 0
    while folders and opened < MAX_ENTRIES:
        here = folders.pop()
        opened += 1
        try:
            descriptor = open_folder_beneath(root, here)
        except (CodedError, OSError) as error:
            found.refused.append(RefusedFile("/".join(here), _reason(error)))
            continue
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    if entry.name in _IGNORED_NAMES:
                        continue
                    if entry.name.startswith(RESERVED_PREFIX):
                        found.refused.append(RefusedFile("/".join((*here, entry.name)), _RESERVED))
                    elif entry.is_dir(follow_symlinks=False) and len(here) < MAX_DEPTH:
                        folders.append((*here, entry.name))
                    else:
                        yield (*here, entry.name)
        finally:
            os.close(descriptor)
    found.complete = not folders


def read_output(root: Path, left: OutputFile, most: int = MAX_FILE_BYTES) -> bytes:
    """Return the file's content; raise a coded error if it is not regular, has a hard link, is empty or too large."""
    try:
        descriptor = open_beneath(root, left.source_path.split("/"))
    except OSError as error:
        raise WorkspaceError("workspace_failed", _reason(error)) from None
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        data = file.read(most + 1) if size <= most else b""
    if max(size, len(data)) > most:
        raise WorkspaceError("file_too_large", f"file has {size} bytes, and at most {most} are kept")
    if not data:
        raise WorkspaceError("tool_result_error", "file is empty")
    return data


def output_size(root: Path, left: OutputFile) -> int:
    """Return the file's size; raise a coded error like `read_output`."""
    try:
        descriptor = open_beneath(root, left.source_path.split("/"))
    except OSError as error:
        raise WorkspaceError("workspace_failed", _reason(error)) from None
    try:
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


class InputFingerprint(msgspec.Struct, frozen=True):
    """Size and hash of an input file before the program ran; the original may change meanwhile."""

    size: int
    sha256: bytes

    @classmethod
    def of_file(cls, file: Path) -> "InputFingerprint":
        """Return the fingerprint of the file's current content."""
        with file.open("rb") as opened:
            return cls(file.stat().st_size, hashlib.file_digest(opened, "sha256").digest())

    def matches(self, data: bytes) -> bool:
        """Return whether the data equals the input file."""
        return len(data) == self.size and hashlib.sha256(data).digest() == self.sha256


def _reason(error: CodedError | OSError) -> str:
    # Only the symbolic name of an error: its text may name a folder of the host.
    return str(error) if isinstance(error, CodedError) else errno.errorcode.get(error.errno or 0, "an unknown error")
