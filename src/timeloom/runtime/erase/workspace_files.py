"""Finds and removes the files of a conversation's workspace that contain erased content."""

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from timeloom.core.paths import FileForm, parse_long, to_physical
from timeloom.core.payload import ref_of
from timeloom.runtime.erase.same_text import SearchTexts
from timeloom.tools.workspace import MAX_FILE_BYTES, RESERVED_PREFIX


@dataclass(frozen=True, slots=True)
class FilesToErase:
    """Files below a folder, by relative name; `whole` means that the folder itself is removed too."""

    folder: Path
    names: tuple[str, ...] = ()
    whole: bool = False


def list_all_files(folder: Path) -> FilesToErase:
    """Return all files of the workspace."""
    return FilesToErase(folder, tuple(sorted(_files(folder))), whole=True)


def find_files(folder: Path, paths: Iterable[str], wanted: SearchTexts) -> FilesToErase:
    """Return the files at these logical paths, their undo files, and files that contain the same text."""
    physical_paths = {str(to_physical(form)) for path in paths if isinstance(form := parse_long(path), FileForm)}
    turns = {place.partition("/")[0] for place in physical_paths}
    found = [
        name
        for name in _files(folder)
        if name in physical_paths or _is_undo_file(name, turns) or _contains(folder / name, wanted)
    ]
    return FilesToErase(folder, tuple(sorted(found)))


def erase_files(files: FilesToErase) -> None:
    """Remove the files durably; missing files are ignored."""
    paths = [files.folder / name for name in files.names]
    for path in paths:
        path.unlink(missing_ok=True)
    for folder in sorted({path.parent for path in paths}):
        _sync_folder(folder)
    if files.whole and files.folder.exists():
        shutil.rmtree(files.folder, ignore_errors=True)
        _sync_folder(files.folder.parent)


def _files(folder: Path) -> Iterator[str]:
    """Yield every plain file; symbolic links are skipped because they may lead outside the conversation."""
    for here, _, names in os.walk(folder):
        for name in names:
            path = Path(here) / name
            if not path.is_symlink() and path.is_file():
                yield path.relative_to(folder).as_posix()


def _sync_folder(folder: Path) -> None:
    """Sync the folder so that the removal of names is durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_undo_file(name: str, turns: set[str]) -> bool:
    turn, _, rest = name.partition("/")
    return turn in turns and rest.rpartition("/")[2].startswith(RESERVED_PREFIX)


def _contains(path: Path, wanted: SearchTexts) -> bool:
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES)
    return ref_of(data) in wanted.refs or wanted.occur_in(data.decode("utf-8", "replace"))
