"""Copies a data folder, also one that running programs write to, into a new folder."""

import asyncio
import contextlib
import os
import shutil
from pathlib import Path
from typing import Final

import msgspec

from timeloom.ports.store import StoreError
from timeloom.stores.blob_folder import tenant_folder
from timeloom.stores.disk import FILE_MODE, Disk
from timeloom.stores.sqlite.connections import DATABASE_ERRORS, ConnectionPool, to_store_error
from timeloom.stores.sqlite.database import convert_rows
from timeloom.stores.sqlite.lost_files import JOURNAL, check_journal

ATTEMPTS: Final = 5
"""How often the journal is copied if an erase removes payloads between its copy and theirs."""


class BackupReport(msgspec.Struct, frozen=True):
    """The numbers of copied conversations and payloads."""

    conversations: int
    payloads: int


async def copy_store(source: Path, target: Path, *, read_only: bool = False) -> BackupReport:
    """Copy journal, heads and payloads of a data folder to `target`, which must not exist or be empty.

    The copy has one state of the journal. Leases, snapshots and content without a reference are not copied. With
    `read_only`, no file is created in the source; no program may have it open then.
    """
    if await asyncio.to_thread(lambda: target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise StoreError("folder_not_empty", f"{target.name} is not an empty folder; name a new one")
    check_journal(source)
    return await asyncio.to_thread(_copy, source, target, read_only)


def copy_folder(source: Path, target: Path) -> None:
    """Copy the regular files of a folder, durably; links and files that are removed meanwhile are left out."""
    for path in sorted(source.rglob("*")):
        if not path.is_symlink() and path.is_file():
            with contextlib.suppress(FileNotFoundError):
                _copy_file(path, target / path.relative_to(source))


def _copy(source: Path, target: Path, read_only: bool) -> BackupReport:
    source, disk = source.resolve(), Disk()
    disk.make_folder(target)
    # Heads come first: a head is written after its commit, so none of them is ahead of the copied journal.
    copy_folder(source / "heads", target / "heads")
    pool = ConnectionPool(source / JOURNAL, 10.0, "", read_only=read_only)
    missing: list[str] = []
    for _ in range(ATTEMPTS):
        _copy_journal(pool, target)
        conversations, payloads = _read_references(target)
        missing = [name for name in payloads if not _copy_payload(source / "blobs" / name, target / "blobs" / name)]
        if not missing:
            break
    else:
        raise StoreError(
            "store_damaged", f"{len(missing)} payloads are missing in the data folder; run `timeloom verify`"
        )
    _remove_others(target, conversations, payloads)
    disk.sync_folder(target)
    return BackupReport(len(conversations), len(payloads))


def _copy_journal(pool: ConnectionPool, target: Path) -> None:
    journal = target / JOURNAL
    journal.unlink(missing_ok=True)
    os.close(os.open(journal, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
    try:
        connection = pool.open_reader()
        try:
            # One read transaction, which blocks no writer; the copy has no pages of deleted rows.
            connection.execute("PRAGMA query_only = OFF").fetchall()
            connection.execute("VACUUM INTO ?", (str(journal),)).fetchall()
        finally:
            connection.close()
    except DATABASE_ERRORS as error:
        raise to_store_error(error) from error
    descriptor = os.open(journal, os.O_RDONLY | os.O_CLOEXEC)
    try:
        Disk().sync(descriptor)
    finally:
        os.close(descriptor)


def _read_references(target: Path) -> tuple[set[str], set[str]]:
    """Return the conversations of the copied journal, and the names of the payload files that it refers to."""
    connection = ConnectionPool(target / JOURNAL, 10.0, "", read_only=True).open_reader()
    try:
        ids = convert_rows(connection.execute("SELECT id FROM conversations").fetchall(), tuple[str])
        sql = "SELECT DISTINCT tenant, sha256 FROM payloads JOIN conversations USING (n)"
        rows = convert_rows(connection.execute(sql).fetchall(), tuple[str, bytes])
        names = {f"{tenant_folder(tenant)}/{digest.hex()[:2]}/{digest.hex()}" for tenant, digest in rows}
        return {name for (name,) in ids}, names
    except DATABASE_ERRORS as error:
        raise to_store_error(error) from error
    finally:
        connection.close()


def _copy_payload(source: Path, target: Path) -> bool:
    """Copy a payload unless it is there; return False if the source does not have it."""
    if target.exists():
        return True
    try:
        _copy_file(source, target)
    except FileNotFoundError:
        return False
    return True


def _remove_others(target: Path, conversations: set[str], payloads: set[str]) -> None:
    """Remove heads and payloads of content that was deleted or erased during the copy."""
    for head in (target / "heads").glob("*.jsonl"):
        if head.stem not in conversations:
            head.unlink()
    for path in (target / "blobs").glob("*/*/*"):
        if str(path.relative_to(target / "blobs")) not in payloads:
            path.unlink()


def _copy_file(source: Path, target: Path) -> None:
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        created = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        with os.fdopen(created, "wb") as file:
            shutil.copyfileobj(opened, file)
            file.flush()
            Disk().sync(file.fileno())
