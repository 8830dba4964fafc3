"""Writes and reads the members of a tar file in its simplest form: regular files with short ASCII names.

The reader takes one header block at a time and follows no extension, link or sparse map. So a member costs what its
size says, and nothing is expanded.
"""

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from timeloom.core.codes import CodedError
from timeloom.wire.linked_entries import ArchiveError

BLOCK: Final = tarfile.BLOCKSIZE
CHUNK_BYTES: Final = 1 << 20
MAX_MEMBERS: Final = 2_000_000
"""Most members of an archive. More would take a gigabyte of memory to index."""

MAX_MEMBER_BYTES: Final = 8 * 1024**3 - 1
"""Largest member; the header has 11 octal digits for the size."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_MAX_NAME_CHARS: Final = 100 + 1 + 155


@dataclass(frozen=True, slots=True)
class TarMember:
    """A member: its name, and the place of its content in the file."""

    name: str
    offset: int
    size: int


def write_member(out: BinaryIO, name: str, content: BinaryIO, size: int) -> None:
    """Write a member with the next `size` bytes of the content; raises `ArchiveError` if there are fewer."""
    if size > MAX_MEMBER_BYTES:
        raise CodedError("file_too_large", f"a member of an archive has at most {MAX_MEMBER_BYTES} bytes, got {size}")
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    out.write(info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict"))
    left = size
    while left:
        chunk = content.read(min(left, CHUNK_BYTES))
        if not chunk:
            raise ArchiveError(f"{name} became shorter while it was archived; export again")
        out.write(chunk)
        left -= len(chunk)
    out.write(bytes(-size % BLOCK))


def write_end(out: BinaryIO) -> None:
    """Write the two empty blocks at the end of a tar file."""
    out.write(bytes(2 * BLOCK))


def iter_members(archive: BinaryIO) -> Iterator[TarMember]:
    """Yield the members of a seekable tar file in order; raises `ArchiveError` for any other form.

    The caller may read and seek in between.
    """
    offset = 0
    for _ in range(MAX_MEMBERS):
        archive.seek(offset)
        header = archive.read(BLOCK)
        if header == bytes(BLOCK):
            return
        member = _parse_header(header, offset)
        yield member
        offset = member.offset + member.size + -member.size % BLOCK
    raise ArchiveError(f"an archive has at most {MAX_MEMBERS} members")


def read_member(archive: BinaryIO, member: TarMember, most_bytes: int) -> bytes:
    """Return the content of a member that has at most that many bytes."""
    if member.size > most_bytes:
        raise ArchiveError(f"{member.name} has at most {most_bytes} bytes, got {member.size}")
    archive.seek(member.offset)
    data = archive.read(member.size)
    if len(data) < member.size:
        raise cut_error()
    return data


def iter_chunks(archive: BinaryIO, member: TarMember) -> Iterator[bytes]:
    """Yield the content of a member in pieces."""
    left = member.size
    while left:
        archive.seek(member.offset + member.size - left)
        chunk = archive.read(min(left, CHUNK_BYTES))
        if not chunk:
            raise cut_error()
        left -= len(chunk)
        yield chunk


def iter_lines(archive: BinaryIO, member: TarMember, most_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a member; each has at most that many bytes and ends with a line break."""
    rest = b""
    for chunk in iter_chunks(archive, member):
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        if max(map(len, (*lines, rest))) > most_bytes:
            raise ArchiveError(f"a line of {member.name} has at most {most_bytes} bytes")
        yield from lines
    if rest:
        raise ArchiveError(f"the last line of {member.name} has no end")


def cut_error() -> ArchiveError:
    """Return the error for an archive that ends too early."""
    return ArchiveError("the archive ends too early; export or copy it again")


def _parse_header(header: bytes, offset: int) -> TarMember:
    if len(header) < BLOCK:
        raise cut_error()
    try:
        info = tarfile.TarInfo.frombuf(header, "ascii", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError, ValueError) as error:
        raise ArchiveError(f"this is no archive of `timeloom export --archive`: bad header at byte {offset}") from error
    if (
        info.type != tarfile.REGTYPE
        or not 0 <= info.size <= MAX_MEMBER_BYTES
        or len(info.name) > _MAX_NAME_CHARS
        or not _NAME.fullmatch(info.name)
    ):
        raise ArchiveError(f"the archive has a member that no export writes, at byte {offset}")
    return TarMember(info.name, offset + BLOCK, info.size)
