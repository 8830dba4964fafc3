"""Append-only audit log of decisions, erasures, deletions and access to conversations of other users."""

import asyncio
import fcntl
import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from timeloom.core.codes import CodedError

PAGE_BYTES: Final = 1024 * 1024
"""Maximum number of bytes that are read from a file for one page."""


LINE_BYTES: Final = 64 * 1024
"""Maximum length of a line. Names and ids in an entry are much shorter."""


MAX_NAME_BYTES: Final = 200
"""Longest name of a tenant or project in a file name, which has at most 255 bytes with its ending."""

_SAFE_NAME: Final = re.compile(r"[^/\0.\ud800-\udfff][^/\0\ud800-\udfff]*")


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


class _ChainedEntry(AuditEntry, frozen=True, kw_only=True, omit_defaults=True):
    """An entry as the file has it."""

    before: str = ""
    """The SHA-256 of the line before; in the first line, of the file's name."""


class _AuditHead(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a file and the hash of its last line, kept in a second file."""

    size: int
    hash: str


class AuditProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A line of an audit log that is not what was written, with a code."""

    code: str
    message: str


class AuditLog:
    """One JSON Lines file per project; every entry is synced to disk and has the hash of the one before it."""

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
        tenant, project = path.parent.name, path.stem
        try:
            for folder in (path.parent.parent, path.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_new = not path.exists()
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "r+b", buffering=0) as file:
                # Another process may write to the same file.
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                size = os.fstat(descriptor).st_size
                last = _read_last_line(descriptor, size)
                # A power failure may have left an incomplete line.
                torn = size > 0 and not last.endswith(b"\n")
                before = _hash_line(last) if size else _hash_name(tenant, project)
                line = msgspec.json.encode(_ChainedEntry(**msgspec.structs.asdict(entry), before=before)) + b"\n"
                file.write(b"\n" + line if torn else line)
                os.fsync(descriptor)
                head = _AuditHead(size=size + torn + len(line), hash=_hash_line(line))
                _write_head(path.with_suffix(".head"), head)
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
        return self._folder / _file_name(tenant) / f"{_file_name(project)}.jsonl"


def verify_audit_logs(folder: Path) -> tuple[int, list[AuditProblem]]:
    """Return the number of entries in all audit logs of the folder, and the first problem of each log."""
    entries, problems = 0, list[AuditProblem]()
    for path in sorted({*folder.glob("*/*.jsonl"), *(head.with_suffix(".jsonl") for head in folder.glob("*/*.head"))}):
        count, problem = _verify_file(path)
        entries += count
        problems += [problem] if problem else []
    return entries, problems


def copy_audit_logs(source: Path, target: Path) -> None:
    """Copy all audit logs with their heads; no entry is added to a log while it is copied."""
    for path in sorted(source.glob("*/*.jsonl")):
        folder = target / path.parent.name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH)
            for name in (path.name, path.with_suffix(".head").name):
                if (path.parent / name).exists():
                    shutil.copyfile(path.parent / name, folder / name)
                    (folder / name).chmod(0o600)


def _verify_file(path: Path) -> tuple[int, AuditProblem | None]:
    name = f"{path.parent.name}/{path.stem}"
    head = _read_head(path.with_suffix(".head"))
    expected, chained, count, size = _hash_name(path.parent.name, path.stem), False, 0, 0
    head_found = head is None
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                size += len(line)
                entry = _decode_chained(line)
                count += entry is not None
                if entry and (chained or entry.before) and entry.before != expected:
                    message = (
                        f"line {max(1, number - 1)} of the audit log {name}, or the one after it, was changed or moved"
                    )
                    return count, AuditProblem(code="chain_broken", message=message)
                chained = chained or bool(entry and entry.before)
                expected = _hash_line(line)
                head_found = head_found or (head is not None and (head.size, head.hash) == (size, expected))
    except OSError:
        size = 0
    if not head_found and head is not None and size < head.size:
        message = f"the audit log {name} was cut: it had {head.size} bytes and has {size}"
        return count, AuditProblem(code="journal_truncated", message=message)
    if not head_found:
        message = f"line {count} of the audit log {name} is not the one that was written last"
        return count, AuditProblem(code="chain_broken", message=message)
    return count, None


def _file_name(name: str) -> str:
    """Return the name as a file name; a name that could leave the folder or is too long becomes its hash."""
    if _SAFE_NAME.fullmatch(name) and len(name.encode()) <= MAX_NAME_BYTES:
        return name
    return f"x_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _read_last_line(descriptor: int, size: int) -> bytes:
    data = os.pread(descriptor, LINE_BYTES, max(0, size - LINE_BYTES))
    return data[data.rfind(b"\n", 0, -1) + 1 :]


def _hash_line(line: bytes) -> str:
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def _hash_name(tenant: str, project: str) -> str:
    return hashlib.sha256(f"timeloom audit 1\n{tenant}/{project}".encode()).hexdigest()


def _write_head(path: Path, head: _AuditHead) -> None:
    """Replace the head, without a sync: after a power cut it may be older than the log, but never newer."""
    partial = path.with_suffix(".head.partial")
    partial.touch(mode=0o600)
    partial.write_bytes(msgspec.json.encode(head))
    partial.replace(path)


def _read_head(path: Path) -> _AuditHead | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_AuditHead)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _decode_chained(line: bytes) -> _ChainedEntry | None:
    try:
        return msgspec.json.decode(line, type=_ChainedEntry)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


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
