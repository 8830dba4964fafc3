"""Writes everything readable of a damaged data folder to a new one."""

import asyncio
import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import ConversationStarted, Erased
from timeloom.core.blocks.extract_payloads import find_blob_refs, restore_payloads
from timeloom.core.blocks.redact import redact_block
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, IdError, parse_conversation_id
from timeloom.core.timeline import NO_TURN, Draft, Entry
from timeloom.ports.store import StoreError
from timeloom.stores.blob_folder import INCOMING, BlobFolder, tenant_folder
from timeloom.stores.disk import Disk
from timeloom.stores.sqlite.connections import DATABASE_ERRORS, ConnectionPool
from timeloom.stores.sqlite.database import Database, RowValues, convert_rows
from timeloom.stores.sqlite.lost_files import is_journal_empty
from timeloom.stores.sqlite.store import SqliteStore
from timeloom.stores.sqlite.tables import records
from timeloom.stores.sqlite.tables.append_delete import last_place, place_before
from timeloom.stores.sqlite.tables.read_entries import decode_row
from timeloom.wire.record import decode_record

BY: Final = "timeloom verify --salvage"
"""Named in the blocks that take the places of lost entries."""

LEFTOVERS: Final = "leftovers"
"""Folder of the new data folder for readable files that belong to no salvaged entry."""

CHUNK: Final = 100
"""Entries of one append, which are in memory with their payloads."""

MAX_PLACES_TRIED: Final = 20_000
"""Places that are tried one by one after an unreadable part of a conversation."""

MAX_SEQS_TRIED: Final = 2000
"""Seqs that are tried in a conversation whose tail is unknown."""

_UNKNOWN: Final = "unknown"
_NO_TIME: Final = "1970-01-01T00:00:00Z"
_AMOUNTS: Final = "scope, rounds, tokens, cost_nano_usd, tool_calls, wall_ms, largest_tokens, largest_cost_nano_usd"


class SalvageReport(msgspec.Struct, kw_only=True):
    """What a salvage has written, and what was lost."""

    conversations: int = 0
    entries: int = 0
    lost_entries: int = 0
    lost_payloads: int = 0
    records: int = 0
    """Records, such as API keys, that are readable and have a correct checksum."""
    leftovers: int = 0
    """Payload files that no salvaged entry refers to."""
    notes: list[str] = msgspec.field(default_factory=list[str])
    """A sentence for each conversation that is not complete, and for each entry that was changed."""


@dataclass(slots=True)
class _FoundConversation:
    number: int
    id: ConversationId
    is_named: bool
    tail: int = 0
    header: ConversationStarted = field(
        default_factory=lambda: ConversationStarted(tenant=_UNKNOWN, project=_UNKNOWN, user=_UNKNOWN)
    )


async def salvage(data_dir: Path, out: Path) -> SalvageReport:
    """Write everything readable of a data folder to `out`, which must not exist or be empty.

    Lost entries get a `conv.erased` block in their place, so that all other entries keep their seqs. An entry whose
    payload is lost gets its erased form. Nothing in `data_dir` changes.
    """
    if await asyncio.to_thread(lambda: out.exists() and any(out.iterdir())):
        raise StoreError("folder_not_empty", f"the folder {out.name} is not empty; name a new one")
    report = SalvageReport()
    source = _Source(data_dir)
    try:
        async with await SqliteStore.open(out) as store:
            for found in await asyncio.to_thread(lambda: list(source.conversations())):
                await _copy_conversation(source, store, found, report)
        await asyncio.to_thread(source.copy_ledger, out)
        report.records = await asyncio.to_thread(source.copy_records, out)
        report.leftovers = await asyncio.to_thread(source.copy_leftovers, out / LEFTOVERS)
    finally:
        source.close()
    return report


def copy_readable_files(source: Path, target: Path) -> None:
    """Copy the regular files of a folder; links and files that cannot be read are left out."""
    for path in sorted(source.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        copy = target / path.relative_to(source)
        with contextlib.suppress(OSError):
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


async def _copy_conversation(
    source: "_Source", store: SqliteStore, found: _FoundConversation, report: SalvageReport
) -> None:
    entries = await asyncio.to_thread(lambda: source.entries(found))
    if not entries:
        report.lost_entries += found.tail
        report.notes.append(f"conversation {found.id}: no entry is readable, lost entries: {found.tail or 'unknown'}")
        return
    report.conversations += 1
    lost, payloads, tail = 0, 0, 0
    for first in range(1, max(entries) + 1, CHUNK):
        drafts: list[Draft] = []
        for seq in range(first, min(first + CHUNK, max(entries) + 1)):
            draft, is_whole = await asyncio.to_thread(source.draft, found, seq, entries.get(seq))
            lost += seq not in entries
            payloads += seq in entries and not is_whole
            drafts.append(draft)
        tail += len(await store.append(found.id, tail, drafts))
    lost += max(0, found.tail - tail)
    report.entries += tail
    report.lost_entries += lost
    report.lost_payloads += payloads
    if lost or payloads or not found.is_named:
        name = "" if found.is_named else "; its id and owner are lost"
        report.notes.append(f"conversation {found.id}: lost entries: {lost}, entries without payload: {payloads}{name}")


class _Source:
    """The damaged folder. Every read may fail; what fails is left out."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._blobs = BlobFolder(data_dir / "blobs", Disk())
        self._used: set[tuple[str, str]] = set()
        self._connection: Database | None = None
        if not is_journal_empty(data_dir):
            pool = ConnectionPool(data_dir / "journal.db", 10.0, "", read_only=True)
            pool.salvaging = True
            # A file that is no database has no readable entries; its payloads are.
            with contextlib.suppress(*DATABASE_ERRORS):
                self._connection = pool.open_reader()

    def close(self) -> None:
        if self._connection:
            self._connection.close(True)

    def conversations(self) -> Iterator[_FoundConversation]:
        """Yield the conversations of the list, and those that have entries only."""
        known: set[str] = set()
        listed = self._numbers("SELECT n FROM conversations WHERE n > ? ORDER BY n LIMIT 1")
        stored = self._numbers(
            "SELECT place >> 32 FROM entries WHERE place > (? << 32 | 4294967295) ORDER BY place LIMIT 1"
        )
        for number in sorted({*listed, *stored}):
            found = self._find(number)
            if found.id in known:
                found = _FoundConversation(number, _new_name(number), is_named=False)
            known.add(found.id)
            yield found

    def entries(self, found: _FoundConversation) -> dict[int, Entry]:
        """Return the readable entries of a conversation, by seq."""
        entries: dict[int, Entry] = {}
        for row in self._entry_rows(found):
            with contextlib.suppress(CodedError, *DATABASE_ERRORS):
                seq, _, _, record = row
                entry = decode_row(found.id, row) if found.is_named else decode_record(record, seq)
                if (seq == 1) == isinstance(entry.block, ConversationStarted):
                    entries[seq] = entry
        return entries

    def draft(self, found: _FoundConversation, seq: int, entry: Entry | None) -> tuple[Draft, bool]:
        """Return the entry as a draft with its payloads; the second value is false if a payload is lost."""
        if entry is None:
            if seq == 1:
                return Draft(NO_TURN, _NO_TIME, found.header), True
            return Draft(NO_TURN, _NO_TIME, Erased(by=BY, text="This entry was lost.")), True
        draft = Draft(entry.turn_id, entry.ts, entry.block, entry.original)
        if isinstance(entry.block, ConversationStarted):
            found.header = entry.block
        tenant = found.header.tenant
        refs = find_blob_refs(draft)
        try:
            whole = restore_payloads(draft, lambda ref: self._blobs.read(tenant, ref))
        except CodedError:
            return self._without_payloads(draft), False
        self._used.update((tenant_folder(tenant), ref.sha256) for ref in refs)
        return whole, True

    def copy_ledger(self, out: Path) -> None:
        """Copy the settled amounts of all scopes that are readable."""
        rows = self._rows(f"SELECT {_AMOUNTS}, largest_wall_ms FROM ledger")
        writer = ConnectionPool(out / "journal.db", 10.0, "").writer()
        try:
            sql = f"INSERT OR REPLACE INTO ledger({_AMOUNTS}, largest_wall_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            for row in rows or ():
                # A damaged row breaks a rule of the table.
                with contextlib.suppress(*DATABASE_ERRORS):
                    writer.execute(sql, row)
        finally:
            writer.close()

    def copy_records(self, out: Path) -> int:
        """Copy the readable records and the revisions of their kinds; return the number of records."""
        numbers = self._numbers("SELECT n FROM records WHERE n > ? ORDER BY n LIMIT 1") if self._has_records() else ()
        connection = ConnectionPool(out / "journal.db", 10.0, "").writer()
        try:
            count = 0
            for number in numbers:
                for row in self._rows(f"SELECT {records.COLUMNS} FROM records WHERE n = ?", (number,)) or ():
                    # A damaged record is left out: a wrong key or setting is worse than none.
                    with contextlib.suppress(CodedError, *DATABASE_ERRORS):
                        records.insert_copy(connection, records.decode_row(row))
                        count += 1
            for kind, revision in self._rows("SELECT kind, revision FROM record_kinds") or ():
                with contextlib.suppress(*DATABASE_ERRORS):
                    records.raise_revision(connection, kind, revision)
            return count
        finally:
            connection.close()

    def copy_leftovers(self, target: Path) -> int:
        """Copy payload files that no salvaged entry refers to, and the heads; return the number of payloads."""
        count = 0
        for folder, name in self._blobs.list_files():
            path = self._data_dir / "blobs" / folder / name[:2] / name
            if folder == INCOMING or (folder, name) in self._used or path.is_symlink() or not path.is_file():
                continue
            with contextlib.suppress(OSError):
                (target / "blobs" / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.copyfile(path, target / "blobs" / folder / name)
                count += 1
        for path in sorted((self._data_dir / "heads").glob("*.jsonl")):
            with contextlib.suppress(OSError):
                (target / "heads").mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.copyfile(path, target / "heads" / path.name)
        return count

    def _without_payloads(self, draft: Draft) -> Draft:
        erased = replace(draft, block=redact_block(draft.block), original="")
        if find_blob_refs(erased):
            return replace(draft, block=Erased(by=BY, text="The payload of this entry was lost."), original="")
        return erased

    def _has_records(self) -> bool:
        try:
            return self._connection is not None and records.exists(self._connection)
        except DATABASE_ERRORS:
            return False

    def _numbers(self, sql: str) -> Iterator[int]:
        """Yield the numbers that the statement finds after each other; an unreadable one is stepped over."""
        number, failures = 0, 0
        while failures < MAX_PLACES_TRIED:
            rows = self._rows(sql, (number,))
            if rows is None:
                number, failures = number + 1, failures + 1
                continue
            if not rows:
                return
            (number,), failures = msgspec.convert(rows[0], tuple[int]), 0
            yield number

    def _find(self, number: int) -> _FoundConversation:
        columns = "id, tail, tenant, project, user, bundle, parent"
        rows = self._rows(f"SELECT {columns} FROM conversations WHERE n = ?", (number,))
        with contextlib.suppress(IdError, CodedError, *DATABASE_ERRORS):
            shape = tuple[str, int, str, str, str, str, str | None]
            for name, tail, tenant, project, user, bundle, parent in convert_rows(rows or (), shape):
                header = ConversationStarted(
                    tenant=tenant,
                    project=project,
                    user=user,
                    bundle=bundle,
                    parent=ConversationId(parent) if parent else None,
                )
                return _FoundConversation(number, parse_conversation_id(name), True, tail, header)
        return _FoundConversation(number, _new_name(number), is_named=False)

    def _entry_rows(self, found: _FoundConversation) -> Iterator[tuple[int, object, object, bytes]]:
        """Yield the readable rows of a conversation; after an unreadable one, each place is tried."""
        place, failures = place_before(found.number), 0
        before = place
        sql = "SELECT place - ?, form, crc, record FROM entries WHERE place > ? AND place <= ? ORDER BY place LIMIT 200"
        one = "SELECT place - ?, form, crc, record FROM entries WHERE place = ?"
        while failures < MAX_PLACES_TRIED:
            rows = self._rows(sql, (before, place, last_place(found.number)))
            if rows is None:
                # A part is unreadable. Up to the tail, each place of it is looked up alone.
                place, failures = place + 1, failures + 1
                rows = self._rows(one, (before, place)) or []
                if not rows and place - before > (found.tail or MAX_SEQS_TRIED):
                    return
                yield from _typed(rows)
                continue
            if not rows:
                return
            yield from _typed(rows)
            place = before + max(seq for seq, *_ in rows)

    def _rows(self, sql: str, values: Sequence[int] = ()) -> list[RowValues] | None:
        """Return the rows; None if they are unreadable, and no rows without a journal."""
        if not self._connection:
            return []
        try:
            return self._connection.execute(sql, values).fetchall()
        except DATABASE_ERRORS:
            return None


def _typed(rows: list[RowValues]) -> Iterator[tuple[int, object, object, bytes]]:
    for seq, form, crc, record in rows:
        if isinstance(seq, int) and isinstance(record, bytes):
            yield seq, form, crc, record


def _new_name(number: int) -> ConversationId:
    return ConversationId(f"conv_salvaged_{number}")
