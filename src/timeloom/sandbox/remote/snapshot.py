"""Packs a folder into a zip and unpacks it; trusts neither the folder nor the zip."""

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
"""Most files in a snapshot: the maximum of a zip without the zip64 directory."""

MAX_DEPTH: Final = 64
"""Deepest folder nesting that is packed."""

_CHUNK_BYTES: Final = 1024 * 1024
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_END: Final = struct.Struct("<4s4H2LH")
_END_MARK: Final = b"PK\x05\x06"
_MAX_DIRECTORY_BYTES: Final = 64 * 1024 * 1024
_ENCRYPTED: Final = 0x1
_BROKEN: Final = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, NotImplementedError, RuntimeError)


class SnapshotError(ValueError):
    """A zip that cannot be unpacked safely, or a folder that cannot be packed; the message is the reason."""


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """Limits of a snapshot."""

    files: int
    bytes: int


@dataclass(slots=True)
class PackResult:
    """Result of packing: the hashes of all files by name, and the files left out with the reason."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    left_out: list[str] = field(default_factory=list[str])
    bytes: int = 0
    written: int = 0


def pack(
    folder: Path,
    target: Path,
    limits: SnapshotLimits,
    known: Mapping[str, str] | None = None,
    skipped: frozenset[str] = frozenset(),
) -> PackResult:
    """Pack the regular files below the folder into a new zip, except those with a known hash.

    Folders named in `skipped` are ignored. Links, devices, files with several hard links, unsafe names and files beyond
    the limits are left out.
    """
    result = PackResult()
    max_files = min(limits.files, MAX_FILES)
    with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, descriptor in _walk_files(folder, result, skipped):
            with os.fdopen(descriptor, "rb") as file:
                size = os.fstat(descriptor).st_size
                if result.written >= max_files or result.bytes + size > limits.bytes:
                    result.left_out.append(f"{name} (no room)")
                elif known is None or (was := known.get(name)) is None or hash_stream(file) != was:
                    file.seek(0)
                    result.files[name] = _add_file(archive, name, file)
                    result.bytes += size
                    result.written += 1
                else:
                    result.files[name] = was
    return result


def unpack(source: Path, folder: Path, limits: SnapshotLimits, *, uid: int | None = None) -> dict[str, str]:
    """Unpack the zip below the folder and return the hashes by name; no other process may access the folder.

    The directory of the zip is checked completely before anything is written. A file with more content than declared is
    refused. An existing file with the same content is not touched.
    """
    owner = os.geteuid() if uid is None else uid
    if not _has_plain_directory(source, limits):
        raise SnapshotError("the snapshot is no zip, or its list of files is too long")
    try:
        with zipfile.ZipFile(source) as archive:
            entries = _check_entries(archive, limits)
            return {entry.filename: _restore_file(archive, entry, folder, owner) for entry in entries}
    except SnapshotError:
        raise
    except (*_BROKEN, OSError) as error:
        raise SnapshotError(f"the snapshot cannot be unpacked: {type(error).__name__}") from None


def remove_files(folder: Path, names: tuple[str, ...]) -> None:
    """Remove these files, and folders left empty, from a folder that no other process accesses."""
    for name in names:
        check_relative(name)
        path = folder / name
        if path.is_file() and not path.is_symlink():
            path.unlink()
        for parent in path.relative_to(folder).parents[:-1]:
            inner = folder / parent
            if inner.is_dir() and not any(inner.iterdir()):
                inner.rmdir()


def hash_stream(file: IO[bytes]) -> str:
    """Return the SHA-256 of the rest of the file."""
    summed = hashlib.sha256()
    while piece := file.read(_CHUNK_BYTES):
        summed.update(piece)
    return summed.hexdigest()


def _walk_files(folder: Path, result: PackResult, skipped: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Yield each file that can be packed, opened; `fwalk` opens folders by descriptor and enters no link."""
    for here, folders, names, opened in os.fwalk(folder, follow_symlinks=False):
        folders[:] = [name for name in folders if name not in skipped]
        within = os.path.relpath(here, folder)
        prefix = "" if within == "." else f"{within}/"
        if prefix.count("/") >= MAX_DEPTH:
            result.left_out.extend(f"{prefix}{name}/ (too deep)" for name in folders)
            folders.clear()
        linked = [name for name in folders if stat.S_ISLNK(_file_mode(name, opened))]
        for name in sorted([*names, *linked]):
            descriptor = _open_file(name, opened)
            why = _unsafe_reason(f"{prefix}{name}") if isinstance(descriptor, int) else descriptor
            if isinstance(descriptor, int) and not why:
                yield f"{prefix}{name}", descriptor
                continue
            if isinstance(descriptor, int):
                os.close(descriptor)
            result.left_out.append(f"{ascii(prefix + name)[1:-1]} ({why})")


def _open_file(name: str, folder: int) -> int | str:
    """Return a descriptor of the regular file, or the reason why it cannot be packed."""
    mode = _file_mode(name, folder)
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


def _file_mode(name: str, folder: int) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return 0


def _unsafe_reason(name: str) -> str:
    try:
        check_relative(name)
        name.encode()
    except (CodedError, UnicodeEncodeError):
        return "its name is not harmless"
    return ""


def _add_file(archive: zipfile.ZipFile, name: str, file: IO[bytes]) -> str:
    # `ZipInfo` uses a fixed date, so the same folder always gives the same bytes.
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    summed = hashlib.sha256()
    with archive.open(entry, "w", force_zip64=True) as target:
        while piece := file.read(_CHUNK_BYTES):
            summed.update(piece)
            target.write(piece)
    return summed.hexdigest()


def _has_plain_directory(source: Path, limits: SnapshotLimits) -> bool:
    """Return whether the zip ends like ours, so that reading its directory is safe."""
    with source.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _END.size, 0))
        end = file.read()
    if len(end) != _END.size:
        return False
    mark, _, _, _, count, directory_bytes, _, comment = _END.unpack(end)
    few = count <= min(limits.files, MAX_FILES)
    return bool(mark == _END_MARK and not comment and few and directory_bytes <= _MAX_DIRECTORY_BYTES)


def _check_entries(archive: zipfile.ZipFile, limits: SnapshotLimits) -> list[zipfile.ZipInfo]:
    entries = archive.infolist()
    names = {entry.filename for entry in entries}
    if len(names) != len(entries) or len(entries) > limits.files:
        raise SnapshotError("the snapshot has a name twice, or more files than it may have")
    if sum(entry.file_size for entry in entries) > limits.bytes:
        raise SnapshotError(f"the snapshot has more than {limits.bytes} bytes unpacked")
    for entry in entries:
        if why := _unsafe_reason(entry.filename):
            raise SnapshotError(f"a name in the snapshot is refused, {why}: {ascii(entry.filename)[:120]}")
        if not _is_plain(entry):
            raise SnapshotError(f"the snapshot holds something that is no plain file: {ascii(entry.filename)[:120]}")
    return entries


def _is_plain(entry: zipfile.ZipInfo) -> bool:
    mode = entry.external_attr >> 16
    regular = stat.S_ISREG(mode) or not stat.S_IFMT(mode)
    return regular and not entry.flag_bits & _ENCRYPTED and entry.compress_type == zipfile.ZIP_DEFLATED


def _restore_file(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path, owner: int) -> str:
    """Write the file to a temporary path, move it into place when complete, and return its hash."""
    path = folder / entry.filename
    # Beside the folder, where no path of the snapshot can lead.
    aside = folder.with_name(f".{folder.name}.restoring")
    try:
        summed = _extract_file(archive, entry, aside)
        if path.is_file() and _has_hash(path, summed):
            return summed
        _make_folders(folder, entry.filename, owner)
        if owner != os.geteuid():
            os.chown(aside, owner, owner)
        aside.rename(path)
    finally:
        aside.unlink(missing_ok=True)
    return summed


def _extract_file(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, aside: Path) -> str:
    summed, left = hashlib.sha256(), entry.file_size
    with archive.open(entry) as source, os.fdopen(os.open(aside, _CREATE, 0o644), "wb") as target:
        while piece := source.read(_CHUNK_BYTES):
            left -= len(piece)
            if left < 0:
                raise SnapshotError(f"a file of the snapshot is larger than it says: {ascii(entry.filename)[:120]}")
            summed.update(piece)
            target.write(piece)
    return summed.hexdigest()


def _has_hash(path: Path, sha256: str) -> bool:
    with path.open("rb") as file:
        return hash_stream(file) == sha256


def _make_folders(folder: Path, name: str, owner: int) -> None:
    for part in list((folder / name).relative_to(folder).parents)[-2::-1]:
        inner = folder / part
        if not inner.is_dir():
            inner.mkdir()
            if owner != os.geteuid():
                os.chown(inner, owner, owner)
