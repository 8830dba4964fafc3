"""Snapshots: a folder as a zip and back, trusting neither what lies in the folder nor what stands in the zip."""

import hashlib
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from timeloom.core.codes import CodedError
from timeloom.core.paths.names import check_relative

MAX_FILES: Final = 65_534
"""Most files of a snapshot: what a zip counts in its plain form."""

MAX_DEPTH: Final = 64
"""Deepest nesting of folders that is packed."""

_CHUNK_BYTES: Final = 1024 * 1024
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_END: Final = struct.Struct("<4s4H2LH")
_END_MARK: Final = b"PK\x05\x06"
_MAX_DIRECTORY_BYTES: Final = 64 * 1024 * 1024
_ENCRYPTED: Final = 0x1
_BROKEN: Final = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, NotImplementedError, RuntimeError)


class SnapshotError(ValueError):
    """A zip that is not unpacked, or a folder that is not packed; the message says what is in it."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much a snapshot may hold."""

    files: int
    bytes: int


@dataclass(slots=True)
class Packed:
    """What was packed: the hashes of all files by their names, and what was left behind and why."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    left: list[str] = field(default_factory=list[str])
    bytes: int = 0
    written: int = 0


def pack(
    folder: Path,
    target: Path,
    room: Room,
    known: Mapping[str, str] | None = None,
    skipped: frozenset[str] = frozenset(),
) -> Packed:
    """Packs the regular files below the folder into a new zip, but not those whose hash is known already.

    Folders with a name that is to be skipped are not looked into. Links, devices, files with a second name, names that
    are not harmless and whatever has no room is left behind.
    """
    packed = Packed()
    most = min(room.files, MAX_FILES)
    with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, descriptor in _found(folder, packed, skipped):
            with os.fdopen(descriptor, "rb") as file:
                size = os.fstat(descriptor).st_size
                if packed.written >= most or packed.bytes + size > room.bytes:
                    packed.left.append(f"{name} (no room)")
                elif known is None or (was := known.get(name)) is None or digest(file) != was:
                    file.seek(0)
                    packed.files[name] = _added(archive, name, file)
                    packed.bytes += size
                    packed.written += 1
                else:
                    packed.files[name] = was
    return packed


def unpack(source: Path, folder: Path, room: Room, *, uid: int | None = None) -> dict[str, str]:
    """Writes the files of the zip below the folder, which is ours alone while it is done; their hashes by name.

    Nothing is written before everything that the zip says of itself was found harmless, and a file that turns out
    to hold more than was said is refused. A file that is there with the same content is left as it is.
    """
    owner = os.geteuid() if uid is None else uid
    if not _plain(source, room):
        raise SnapshotError("the snapshot is no zip, or its list of files is too long")
    try:
        with zipfile.ZipFile(source) as archive:
            entries = _checked(archive, room)
            return {entry.filename: _restored(archive, entry, folder, owner) for entry in entries}
    except SnapshotError:
        raise
    except (*_BROKEN, OSError) as error:
        raise SnapshotError(f"the snapshot cannot be unpacked: {type(error).__name__}") from None


def remove(folder: Path, names: tuple[str, ...]) -> None:
    """Removes these files from a folder that is ours alone, and the folders that are empty then."""
    for name in names:
        check_relative(name)
        place = folder / name
        if place.is_file() and not place.is_symlink():
            place.unlink()
        for parent in place.relative_to(folder).parents[:-1]:
            inner = folder / parent
            if inner.is_dir() and not any(inner.iterdir()):
                inner.rmdir()


def digest(file: IO[bytes]) -> str:
    """The hash of what is left to read of it."""
    summed = hashlib.sha256()
    while piece := file.read(_CHUNK_BYTES):
        summed.update(piece)
    return summed.hexdigest()


def _found(folder: Path, packed: Packed, skipped: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Each file that can be packed, opened; `fwalk` opens folders by descriptors and enters no link."""
    for here, folders, names, opened in os.fwalk(folder, follow_symlinks=False):
        folders[:] = [name for name in folders if name not in skipped]
        within = os.path.relpath(here, folder)
        prefix = "" if within == "." else f"{within}/"
        if prefix.count("/") >= MAX_DEPTH:
            packed.left.extend(f"{prefix}{name}/ (too deep)" for name in folders)
            folders.clear()
        linked = [name for name in folders if stat.S_ISLNK(_mode(name, opened))]
        for name in sorted([*names, *linked]):
            descriptor = _file(name, opened)
            why = _unsafe(f"{prefix}{name}") if isinstance(descriptor, int) else descriptor
            if isinstance(descriptor, int) and not why:
                yield f"{prefix}{name}", descriptor
                continue
            if isinstance(descriptor, int):
                os.close(descriptor)
            packed.left.append(f"{ascii(prefix + name)[1:-1]} ({why})")


def _file(name: str, folder: int) -> int | str:
    """A descriptor of the regular file, or what it is instead."""
    mode = _mode(name, folder)
    if not stat.S_ISREG(mode):
        return "a link" if stat.S_ISLNK(mode) else "no regular file"
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError as error:
        return os.strerror(error.errno or 0)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    return "a file with several names"


def _mode(name: str, folder: int) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return 0


def _unsafe(name: str) -> str:
    try:
        check_relative(name)
        name.encode()
    except (CodedError, UnicodeEncodeError):
        return "its name is not harmless"
    return ""


def _added(archive: zipfile.ZipFile, name: str, file: IO[bytes]) -> str:
    # A date that is always the same, so that a folder gives the same bytes each time.
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    summed = hashlib.sha256()
    with archive.open(entry, "w", force_zip64=True) as target:
        while piece := file.read(_CHUNK_BYTES):
            summed.update(piece)
            target.write(piece)
    return summed.hexdigest()


def _plain(source: Path, room: Room) -> bool:
    """Whether it ends as our own zips do, so that its list of files can be read without harm."""
    with source.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _END.size, 0))
        end = file.read()
    if len(end) != _END.size:
        return False
    mark, _, _, _, count, directory_bytes, _, comment = _END.unpack(end)
    few = count <= min(room.files, MAX_FILES)
    return bool(mark == _END_MARK and not comment and few and directory_bytes <= _MAX_DIRECTORY_BYTES)


def _checked(archive: zipfile.ZipFile, room: Room) -> list[zipfile.ZipInfo]:
    entries = archive.infolist()
    names = {entry.filename for entry in entries}
    if len(names) != len(entries) or len(entries) > room.files:
        raise SnapshotError("the snapshot has a name twice, or more files than it may have")
    if sum(entry.file_size for entry in entries) > room.bytes:
        raise SnapshotError(f"the snapshot has more than {room.bytes} bytes unpacked")
    for entry in entries:
        if why := _unsafe(entry.filename):
            raise SnapshotError(f"a name in the snapshot is refused, {why}: {ascii(entry.filename)[:120]}")
        if not _is_plain(entry):
            raise SnapshotError(f"the snapshot holds something that is no plain file: {ascii(entry.filename)[:120]}")
    return entries


def _is_plain(entry: zipfile.ZipInfo) -> bool:
    mode = entry.external_attr >> 16
    regular = stat.S_ISREG(mode) or not stat.S_IFMT(mode)
    return regular and not entry.flag_bits & _ENCRYPTED and entry.compress_type == zipfile.ZIP_DEFLATED


def _restored(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path, owner: int) -> str:
    """Writes the file aside and puts it in its place when it is whole; its hash."""
    place = folder / entry.filename
    # Beside the folder, where no name of the snapshot can be.
    aside = folder.with_name(f".{folder.name}.restoring")
    try:
        summed = _written(archive, entry, aside)
        if place.is_file() and _same(place, summed):
            return summed
        _make_folders(folder, entry.filename, owner)
        if owner != os.geteuid():
            os.chown(aside, owner, owner)
        aside.rename(place)
    finally:
        aside.unlink(missing_ok=True)
    return summed


def _written(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, aside: Path) -> str:
    summed, left = hashlib.sha256(), entry.file_size
    with archive.open(entry) as source, os.fdopen(os.open(aside, _CREATE, 0o644), "wb") as target:
        while piece := source.read(_CHUNK_BYTES):
            left -= len(piece)
            if left < 0:
                raise SnapshotError(f"a file of the snapshot is larger than it says: {ascii(entry.filename)[:120]}")
            summed.update(piece)
            target.write(piece)
    return summed.hexdigest()


def _same(place: Path, sha256: str) -> bool:
    with place.open("rb") as file:
        return digest(file) == sha256


def _make_folders(folder: Path, name: str, owner: int) -> None:
    for part in list((folder / name).relative_to(folder).parents)[-2::-1]:
        inner = folder / part
        if not inner.is_dir():
            inner.mkdir()
            if owner != os.geteuid():
                os.chown(inner, owner, owner)
