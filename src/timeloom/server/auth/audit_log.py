"""Append-only audit log of decisions, erasures, deletions and access to conversations of other users."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from timeloom.core.codes import CodedError

PAGE_BYTES: Final = 1024 * 1024
"""Maximum number of bytes that are read from a file for one page."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request; a second entry with the same id carries the `status` of the response."""

    id: str
    ts: str
    tenant: str
    project: str
    user: str
    role: str
    operation: str
    conversation_id: str = ""
    owner: str = ""
    """The owner of the conversation if it is another user."""
    call_id: str = ""
    status: int = 0


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a page of the audit log."""

    cursor: Annotated[str, Meta(max_length=20)] = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Entries, oldest first. `cursor` requests the next page and also works for entries that are added later."""

    entries: tuple[AuditEntry, ...]
    cursor: str


class AuditLog:
    """One JSON Lines file per project; every entry is synced to disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = asyncio.Lock()

    async def add(self, entry: AuditEntry) -> None:
        """Append the entry and sync it; raise if it cannot be written."""
        async with self._lock:
            await asyncio.to_thread(self._add, entry)

    async def page(self, tenant: str, project: str, query: AuditQuery) -> AuditPage:
        """Return a page of the audit log of that project."""
        if query.cursor and not (query.cursor.isascii() and query.cursor.isdigit()):
            raise _unknown_cursor_error()
        return await asyncio.to_thread(self._page, tenant, project, int(query.cursor or 0), query.limit)

    def _add(self, entry: AuditEntry) -> None:
        path = self._file(entry.tenant, entry.project)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_new = not path.exists()
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "r+b", buffering=0) as file:
                line = msgspec.json.encode(entry) + b"\n"
                size = os.fstat(descriptor).st_size
                # A power failure may have left an incomplete line.
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                file.write(b"\n" + line if torn else line)
                os.fsync(descriptor)
            if is_new:
                _sync_folder(path.parent)
        except OSError as error:
            raise CodedError("store_unwritable", f"the audit log cannot be written: {error.strerror}") from error

    def _page(self, tenant: str, project: str, start: int, limit: int) -> AuditPage:
        entries: list[AuditEntry] = []
        try:
            with self._file(tenant, project).open("rb") as file:
                if start:
                    file.seek(start - 1)
                    if file.read(1) != b"\n":
                        raise _unknown_cursor_error()
                read = 0
                while len(entries) < limit and read < PAGE_BYTES and (line := file.readline()).endswith(b"\n"):
                    read += len(line)
                    entries += _decode_line(line, tenant, project)
                end = start + read
        except FileNotFoundError:
            if start:
                raise _unknown_cursor_error() from None
            end = 0
        return AuditPage(entries=tuple(entries), cursor=str(end))

    def _file(self, tenant: str, project: str) -> Path:
        return self._folder / tenant / f"{project}.jsonl"


def _decode_line(line: bytes, tenant: str, project: str) -> list[AuditEntry]:
    try:
        entry = msgspec.json.decode(line, type=AuditEntry)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []
    # On some file systems, names that differ only by case share a file.
    return [entry] if (entry.tenant, entry.project) == (tenant, project) else []


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unknown_cursor_error() -> CodedError:
    return CodedError("cursor_malformed", "unknown cursor; pass the `cursor` of a previous page")
