"""Stores checked conversations with their files; each becomes visible completely or not at all."""

import asyncio
import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.platform.open_beneath import open_beneath
from timeloom.ports.importer import IMPORT_FOLDER, PLACED_FILE
from timeloom.ports.reader import ConversationUnknownError
from timeloom.ports.store import Store
from timeloom.runtime.archive.read_archive import FoundConversation
from timeloom.stores.batch import open_work_after


class ImportResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one conversation, with the number of its entries, payloads and files."""

    conversation: ConversationId
    outcome: Literal["imported", "skipped", "checked"]
    tenant: str
    project: str
    user: str
    entries: int
    payloads: int
    files: int
    is_open: bool
    """Whether its newest turn is open; the next worker or server resumes it."""


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an import accepts."""

    skip_existing: bool = False
    open_turns: bool = False


async def check_import(store: Store | None, found: FoundConversation, options: ImportOptions) -> ImportResult:
    """Return what an import would do; raises `CodedError` if it would be refused. `store` is None for a new folder."""
    name = found.imported.id
    exists = store is not None and await _exists(store, name)
    if exists and not options.skip_existing:
        raise CodedError(
            "conversation_exists",
            f"conversation {name} exists already; delete it first, or skip it with --skip-existing",
        )
    is_open = open_work_after(None, found.entries) is not None
    if is_open and not exists and not options.open_turns:
        raise CodedError(
            "turn_open",
            f"conversation {name} has an open turn, which the next worker or server would resume with its tools; "
            "pass --open-turns to import it",
        )
    return _to_result(found, "skipped" if exists else "checked", is_open=is_open)


async def import_conversation(
    store: Store, data_dir: Path, workspaces: Path, found: FoundConversation, options: ImportOptions
) -> ImportResult:
    """Store the conversation with its payloads and files, durably, and return the outcome."""
    checked = await check_import(store, found, options)
    if checked.outcome == "skipped":
        return checked
    staging = await asyncio.to_thread(_make_staging, data_dir / IMPORT_FOLDER)
    target = workspaces / found.imported.id
    try:
        await asyncio.to_thread(_stage_files, staging / "files", found)
        await store.import_conversation(
            found.imported, found.read_payload, lambda: _place(staging, target, has_files=bool(found.files))
        )
    except OSError as error:
        raise CodedError("store_unwritable", f"the files cannot be written: {os.strerror(error.errno or 0)}") from error
    finally:
        # Also after a cancelled commit, of which nobody knows whether it is durable.
        if (staging / PLACED_FILE).exists() and not await _exists(store, found.imported.id):
            await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
        await asyncio.to_thread(shutil.rmtree, staging, ignore_errors=True)
    return msgspec.structs.replace(checked, outcome="imported")


async def _exists(store: Store, conversation: ConversationId) -> bool:
    try:
        await store.info(conversation)
    except ConversationUnknownError:
        return False
    return True


def _to_result(
    found: FoundConversation, outcome: Literal["imported", "skipped", "checked"], *, is_open: bool
) -> ImportResult:
    return ImportResult(
        conversation=found.imported.id,
        outcome=outcome,
        tenant=found.header.tenant,
        project=found.header.project,
        user=found.header.user,
        entries=len(found.entries),
        payloads=found.payloads,
        files=len(found.files),
        is_open=is_open,
    )


def _make_staging(root: Path) -> Path:
    root.mkdir(mode=0o700, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=root))


def _stage_files(folder: Path, found: FoundConversation) -> None:
    folder.mkdir(mode=0o700)
    for index, file in enumerate(found.files):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = open_beneath(folder, file.path.split("/"), flags, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            for chunk in found.open_file(index):
                out.write(chunk)
            out.flush()
            os.fchmod(out.fileno(), file.mode | 0o400)
            os.utime(out.fileno(), ns=(file.mtime_us * 1000, file.mtime_us * 1000))
            os.fsync(out.fileno())
    for here, _, _ in os.walk(folder):
        _sync_folder(Path(here))


def _place(staging: Path, target: Path, *, has_files: bool) -> None:
    """Move the staged files to the workspace, durably; runs under the write lock, right before the commit."""
    # After a crash, the next opening removes files and heads if the conversation is not there.
    (staging / PLACED_FILE).write_text(target.name, encoding="ascii")
    _sync_folder(staging)
    if not has_files:
        return
    target.parent.mkdir(mode=0o700, exist_ok=True)
    # A folder without its conversation is left over from one that a crash cut off, or that was deleted.
    with contextlib.suppress(FileNotFoundError):
        target.rename(staging / "replaced")
    (staging / "files").rename(target)
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
