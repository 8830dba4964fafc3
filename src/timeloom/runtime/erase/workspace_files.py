"""Erasing files: those of a conversation's workspace that hold what is erased."""

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from timeloom.core.paths import FileForm, parse, physical
from timeloom.core.payload import ref_of
from timeloom.runtime.erase.same_text import Words
from timeloom.tools.workspace import MAX_FILE_BYTES, UNSEEN


@dataclass(frozen=True, slots=True)
class FilesToErase:
    """Files beneath a folder, by their names relative to it; `whole` where the folder goes with them."""

    folder: Path
    names: tuple[str, ...] = ()
    whole: bool = False


def all_files(folder: Path) -> FilesToErase:
    """Everything in the workspace."""
    return FilesToErase(folder, tuple(sorted(_files(folder))), whole=True)


def find_files(folder: Path, paths: Iterable[str], words: Words) -> FilesToErase:
    """The files at these logical paths, what is kept of changes to them, and files that hold the same."""
    places = {str(physical(form)) for path in paths if isinstance(form := parse(path), FileForm)}
    turns = {place.partition("/")[0] for place in places}
    found = [name for name in _files(folder) if name in places or _is_undo(name, turns) or _holds(folder / name, words)]
    return FilesToErase(folder, tuple(sorted(found)))


def erase_files(files: FilesToErase) -> None:
    """Removes them, durably; those that are gone already do no harm."""
    paths = [files.folder / name for name in files.names]
    for path in paths:
        path.unlink(missing_ok=True)
    for folder in sorted({path.parent for path in paths}):
        _sync(folder)
    if files.whole and files.folder.exists():
        shutil.rmtree(files.folder, ignore_errors=True)
        _sync(files.folder.parent)


def _files(folder: Path) -> Iterator[str]:
    """Every plain file; what a link leads to need not be of this conversation."""
    for here, _, names in os.walk(folder):
        for name in names:
            path = Path(here) / name
            if not path.is_symlink() and path.is_file():
                yield path.relative_to(folder).as_posix()


def _sync(folder: Path) -> None:
    """Makes it durable that names are gone from the folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_undo(name: str, turns: set[str]) -> bool:
    turn, _, rest = name.partition("/")
    return turn in turns and rest.rpartition("/")[2].startswith(UNSEEN)


def _holds(path: Path, words: Words) -> bool:
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES)
    return ref_of(data) in words.refs or words.are_in(data.decode("utf-8", "replace"))
