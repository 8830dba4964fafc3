"""A store in one data folder: an SQLite journal with folders for payloads and snapshots."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Final, Self, TypeVar

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Draft, Entry
from timeloom.platform.tasks import acquire_or_release
from timeloom.ports.clock import Clock, SystemClock, timestamp
from timeloom.ports.feedback import FeedbackPage, FeedbackQuery
from timeloom.ports.ids import RandomIds
from timeloom.ports.importer import ImportedConversation, ReadPayload
from timeloom.ports.leases import HOLDER_CHARS, Lease
from timeloom.ports.ledger import Ledger
from timeloom.ports.reader import (
    ConversationInfo,
    ConversationPage,
    ConversationQuery,
    ConversationUnknownError,
    OpenTurnQuery,
)
from timeloom.ports.records import Records
from timeloom.ports.signer import Signer
from timeloom.ports.spend import SpendPage, SpendQuery
from timeloom.ports.store import StoreError, StoreProblem, VerifyReport
from timeloom.stores.batch import Batch, is_light, make_batch, tenant_from_header
from timeloom.stores.blob_folder import BlobFolder, StagedPayloads
from timeloom.stores.disk import Disk
from timeloom.stores.erasure import make_erasure
from timeloom.stores.followers import Followers
from timeloom.stores.head_folder import HeadFolder
from timeloom.stores.import_batch import ImportBatch, make_import_batch, read_import_payload
from timeloom.stores.ledger import StoreLedger
from timeloom.stores.process_locks import ProcessLocks
from timeloom.stores.search_terms import replace_surrogates
from timeloom.stores.snapshot_folder import SnapshotFolder
from timeloom.stores.sqlite import migrations
from timeloom.stores.sqlite.connections import DATABASE_ERRORS, ConnectionPool, to_store_error
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.journal_file import JournalFile
from timeloom.stores.sqlite.ledger import SqliteLedgerTables
from timeloom.stores.sqlite.lost_files import JOURNAL
from timeloom.stores.sqlite.poller import Poller
from timeloom.stores.sqlite.records import SqliteRecords
from timeloom.stores.sqlite.tables import append_delete, chain, erase, import_rows, leases
from timeloom.stores.sqlite.tables.feedback import read_feedback_page
from timeloom.stores.sqlite.tables.open_turns import (
    filter_by_open_turn,
    read_conversations_with_open_turn,
    read_page_with_open_turn,
)
from timeloom.stores.sqlite.tables.read_entries import read_entries
from timeloom.stores.sqlite.tables.search import get_info, read_idle, read_ids, read_matching_seqs, read_page
from timeloom.stores.sqlite.tables.spend import read_spend_page
from timeloom.stores.sqlite.verify import verify
from timeloom.stores.sqlite.writer import Writer
from timeloom.wire.chain import ChainLink
from timeloom.wire.heads import Head

PROBE_BYTES: Final = 64 * 1024
"""Size of the payload that tests whether a full disk has room again. Smaller payloads are stored in the journal."""

READER_THREADS: Final = 4
"""Number of reader threads. More help only on a slow disk, and each holds a connection with its cache."""

FOLLOW_PAGE: Final = 256
"""Entries that a follower reads at once and holds in memory while its consumer is slow."""

T = TypeVar("T")


class SqliteStore:
    """A `Store` in a folder. Several stores, also in several processes, may have the same folder open."""

    make_entry_rows: ClassVar[append_delete.MakeEntryRows] = staticmethod(append_delete.make_entry_rows)
    """Links new entries to the hash chain. Only a benchmark replaces it, to measure an append without a chain."""

    def __init__(
        self,
        data_dir: Path,
        lock_wait_s: float = 10.0,
        vfs: str = "",
        disk: Disk | None = None,
        clock: Clock | None = None,
        signer: Signer | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        disk, clock = disk or Disk(), clock or SystemClock()
        self._data_dir = data_dir
        self._disk = disk
        self._blobs = BlobFolder(data_dir / "blobs", disk)
        self._snapshots = SnapshotFolder(data_dir / "snapshots")
        self._heads = HeadFolder(data_dir / "heads", signer)
        self._connections = ConnectionPool(data_dir / JOURNAL, lock_wait_s, vfs, read_only=read_only)
        self._followers = Followers()
        self._clock = clock
        self._process_locks = ProcessLocks(data_dir / "holders", clock, RandomIds())
        self._appender = append_delete.Appender(self._blobs, self._process_locks, type(self).make_entry_rows)
        self._ledger = StoreLedger(SqliteLedgerTables(self._process_locks, self._write, self._read))
        self._records = SqliteRecords(self._write_records, self._read)
        self._poller = Poller(self._connections, self._followers)
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="timeloom-reader")
        self._journal = JournalFile(
            data_dir, self._connections, disk, self._blobs, self._heads, self._process_locks, self._purge_deleted
        )
        self._read_only = read_only
        self._has_deletions = False
        self._unreleased: dict[ConversationId, Lease] = {}
        """Leases that have ended, while the disk did not take that."""
        self._closed = False

    @classmethod
    async def open(
        cls,
        data_dir: Path | str,
        *,
        create: bool = True,
        lock_wait_s: float = 10.0,
        vfs: str = "",
        disk: Disk | None = None,
        clock: Clock | None = None,
        signer: Signer | None = None,
    ) -> Self:
        """Open the store in that folder, and create it if `create` is true and it does not exist.

        A damaged database opens too: its intact parts can be read, and appends raise `StoreError`. `signer` signs the
        head of a conversation at the end of each turn.
        """
        # SQLite is configured not to follow links. A link to the data folder itself is allowed and resolved here.
        resolved = await asyncio.to_thread(Path(data_dir).resolve)
        store = cls(resolved, lock_wait_s, vfs, disk, clock, signer)
        try:
            await asyncio.to_thread(store._journal.open, create)
        except BaseException:
            await store.close()
            raise
        return store

    @classmethod
    async def open_read_only(cls, data_dir: Path | str) -> Self:
        """Open the store in that folder without creating or changing a file; also if it lost its write-ahead log."""
        store = cls(await asyncio.to_thread(Path(data_dir).resolve), read_only=True)
        try:
            await asyncio.to_thread(store._journal.open_read_only)
        except BaseException:
            await store.close()
            raise
        return store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def ledger(self) -> Ledger:
        """The ledger with the shared budgets of all conversations in this folder, across all processes."""
        return self._ledger

    @property
    def records(self) -> Records:
        """The records of this folder, across all processes."""
        return self._records

    @property
    def write_failure(self) -> str:
        return self._journal.writer.write_failure if self._journal.writer else self._journal.damage

    async def probe_write(self) -> None:
        writer = self._require_writer()
        # The journal may have room within its files while no payload can be added.
        await self._in_thread(self._probe_blobs)
        await writer.run(migrations.rewrite_version, lambda _: None)

    async def acquire(self, conversation: ConversationId, holder: str) -> Lease:
        def change(connection: Database) -> Lease:
            return self._acquire_lease(connection, conversation, holder)

        return await acquire_or_release(self._write(conversation, change), self.release)

    async def release(self, lease: Lease) -> None:
        # Closing the store has ended all its leases.
        if self._closed:
            return
        try:
            await self._write(
                lease.conversation, lambda connection: leases.release(connection, self._process_locks, lease)
            )
        except StoreError as error:
            if error.code != "store_unwritable":
                raise
            self._unreleased[lease.conversation] = lease

    async def is_held(self, conversation: ConversationId) -> bool:
        if conversation in self._unreleased:
            return False
        return await self._read(
            lambda connection: leases.is_held(connection, self._process_locks, conversation), conversation
        )

    async def append(
        self, conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], lease: Lease | None = None
    ) -> tuple[Entry, ...]:
        if self._unreleased or not is_light(drafts):
            entries, _ = await self._append(conversation, expected_tail, drafts, lease, lambda _: None)
            return entries
        # Most appends: no thread to build the batch, nothing staged and one change in the transaction.
        writer = self._require_writer(conversation)
        batch = make_batch(conversation, expected_tail, drafts)
        await writer.run(
            lambda connection: self._appender.append(connection, batch, None, lease),
            lambda appended: self._note_appended(batch, appended),
            caller=conversation,
        )
        return batch.entries

    async def begin(
        self, conversation: ConversationId, drafts: Sequence[Draft], holder: str
    ) -> tuple[tuple[Entry, ...], Lease]:
        def then(connection: Database) -> Lease:
            return self._acquire_lease(connection, conversation, holder)

        begun = self._append(conversation, 0, drafts, None, then)
        return await acquire_or_release(begun, lambda begun: self.release(begun[1]))

    async def import_conversation(
        self, imported: ImportedConversation, read_payload: ReadPayload, place_files: Callable[[], None]
    ) -> None:
        writer = self._require_writer(imported.id)
        staged = StagedPayloads(self._blobs)

        def change(connection: Database) -> append_delete.ConversationRow:
            nonlocal has_heads
            row = import_rows.import_conversation(connection, self._blobs, made, staged)
            place_files()
            # Before the commit, so that a crash leaves no imported conversation without its heads.
            if imported.heads:
                has_heads = True
                self._heads.write_imported(imported.id, imported.heads)
            return row

        has_heads = False
        try:
            made = await self._in_thread(lambda: self._build_import(imported, read_payload, staged))
            await writer.run(change, lambda row: self._followers.wake((row.number,)))
        except BaseException:
            if has_heads and not await self._exists(imported.id):
                await self._in_thread(lambda: self._heads.remove(imported.id))
            raise
        finally:
            staged.discard_unpublished()

    async def _exists(self, conversation: ConversationId) -> bool:
        try:
            await self.info(conversation)
        except ConversationUnknownError:
            return False
        return True

    async def delete(self, conversation: ConversationId) -> None:
        writer = self._require_writer(conversation)

        # Before and after the delete, so that no heads of a deleted conversation remain after a crash in between.
        await self._in_thread(lambda: self._heads.remove(conversation))

        def on_deleted(found: append_delete.ConversationRow) -> None:
            self._has_deletions = True
            self._followers.wake((found.number,))

        await writer.run(lambda connection: append_delete.delete(connection, conversation), on_deleted)
        await writer.run(
            lambda connection: append_delete.remove_unused_payloads(connection, self._blobs), lambda _: None
        )
        await self._in_thread(lambda: self._snapshots.remove(conversation))
        await self._in_thread(lambda: self._heads.remove(conversation))
        self._ledger.wake_waiters()

    async def erase(
        self,
        conversation: ConversationId,
        expected_tail: int,
        entries: Sequence[Entry],
        record: Draft,
        lease: Lease | None = None,
    ) -> Entry:
        writer = self._require_writer(conversation)
        erasure = make_erasure(conversation, expected_tail, entries, record)
        # Before and after the erase, so that no old snapshot can be loaded after a crash in between.
        await self._in_thread(lambda: self._snapshots.remove(conversation))
        await writer.run(
            lambda connection: erase.erase(connection, self._appender, erasure, lease),
            lambda found: self._followers.wake((found.number,)),
        )
        await writer.run(
            lambda connection: append_delete.remove_unused_payloads(connection, self._blobs), lambda _: None
        )
        await self._in_thread(lambda: self._snapshots.remove(conversation))
        return erasure.batch.entries[0]

    async def scrub(self) -> None:
        writer = self._require_writer()
        await self.drop_snapshots()
        await self._in_thread(lambda: self._disk.sync_folder(self._data_dir))
        await self._in_thread(lambda: erase.scrub(self._connections))
        writer.start_new_log()

    async def info(self, conversation: ConversationId) -> ConversationInfo:
        return await self._read(lambda connection: get_info(connection, conversation), conversation)

    async def load(self, conversation: ConversationId, after: int = 0, limit: int | None = None) -> list[Entry]:
        start, most = max(0, after), -1 if limit is None else max(0, limit)

        def query(connection: Database) -> list[Entry]:
            found = append_delete.get_conversation(connection, conversation)
            return read_entries(connection, conversation, found.number, start, most, found.tail)

        return await self._read(query, conversation)

    async def load_chain(
        self, conversation: ConversationId, after: int = 0, limit: int | None = None
    ) -> list[ChainLink]:
        start, most = max(0, after), -1 if limit is None else max(0, limit)

        def query(connection: Database) -> list[ChainLink]:
            found = append_delete.get_conversation(connection, conversation)
            return chain.read_links(connection, found.number, start, most)

        return await self._read(query, conversation)

    async def load_heads(self, conversation: ConversationId) -> list[Head]:
        return await self._in_thread(lambda: self._heads.read(conversation))

    async def follow(self, conversation: ConversationId, after: int = 0) -> AsyncIterator[Entry]:
        found = await self._read(
            lambda connection: append_delete.get_conversation(connection, conversation), conversation
        )
        follower = self._followers.add(found.number)
        self._poller.start()
        seq = max(0, after)
        try:
            while not self._followers.closed:
                follower.clear()
                if (page := await self._read_page_after(conversation, found.number, seq)) is None:
                    return
                for entry in page:
                    seq = entry.seq
                    yield entry
                if not page:
                    await follower.wait()
        finally:
            self._followers.remove(found.number, follower)

    async def conversations(self, query: ConversationQuery) -> ConversationPage:
        return await self._read(lambda connection: read_page(connection, query))

    async def conversations_with_open_turn(self, query: OpenTurnQuery) -> list[ConversationInfo]:
        return await self._read(lambda connection: read_page_with_open_turn(connection, query))

    async def having_open_turn(self, conversations: Collection[ConversationId]) -> frozenset[ConversationId]:
        return await self._read(lambda connection: filter_by_open_turn(connection, conversations))

    async def idle_conversations(self, before: str, after: str = "", limit: int = 100) -> list[ConversationInfo]:
        return await self._read(lambda connection: read_idle(connection, before, after, limit))

    async def search_messages(self, conversation: ConversationId, words: str, limit: int = 10) -> list[int]:
        return await self._read(
            lambda connection: read_matching_seqs(connection, conversation, words, limit), conversation
        )

    async def list_feedback(self, query: FeedbackQuery) -> FeedbackPage:
        return await self._read(lambda connection: read_feedback_page(connection, query))

    async def read_spend(self, query: SpendQuery) -> SpendPage:
        return await self._read(lambda connection: read_spend_page(connection, query))

    async def conversation_ids(self, after: str = "", limit: int = 1000) -> list[ConversationId]:
        return await self._read(lambda connection: read_ids(connection, after, limit))

    async def open_turns(self, after: str = "", limit: int = 1000) -> list[ConversationId]:
        return await self._read(lambda connection: read_conversations_with_open_turn(connection, after, limit))

    async def read_blob(self, tenant: str, ref: BlobRef) -> bytes:
        return await self._in_thread(lambda: self._blobs.read(tenant, ref))

    async def read_part(self, tenant: str, ref: BlobRef, start: int, most_bytes: int) -> bytes:
        return await self._in_thread(lambda: self._blobs.read_part(tenant, ref, start, most_bytes))

    async def save_snapshot(self, conversation: ConversationId, seq: int, version: str, data: bytes) -> None:
        def save(connection: Database) -> None:
            if found := append_delete.find_conversation(connection, conversation):
                # On a full or read-only disk the snapshot is lost, which only makes the next load slower.
                with contextlib.suppress(OSError):
                    self._snapshots.save(conversation, found.number, seq, version, data)

        await self._read(save, conversation)

    async def load_snapshot(self, conversation: ConversationId, version: str) -> tuple[int, bytes] | None:
        def query(connection: Database) -> tuple[int, bytes] | None:
            found = append_delete.find_conversation(connection, conversation)
            snapshot = self._snapshots.load(conversation, found.number, version) if found else None
            return snapshot if found and snapshot and snapshot[0] <= found.tail else None

        return await self._read(query, conversation)

    async def drop_snapshots(self) -> int:
        return await self._in_thread(self._snapshots.remove_all)

    async def verify(self) -> VerifyReport:
        def check(connection: Database) -> VerifyReport:
            report = verify(connection, self._blobs, self._heads, self._find_row)
            # A store that writes refuses such a folder when it is opened.
            lost = self._journal.find_lost_log(connection) if self._read_only else None
            problems = (StoreProblem(lost.code, str(lost)),) if lost else ()
            return msgspec.structs.replace(report, findings=problems + report.findings)

        return await self._read(check)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._followers.close()
            await asyncio.to_thread(self._stop)

    def _purge_deleted(self, connection: Database) -> None:
        """Remove deleted words from the search index, before the writer closes its connection."""
        if self._has_deletions:
            append_delete.purge_index(connection)

    def _stop(self) -> None:
        self._poller.close()
        self._readers.shutdown()
        self._journal.close()

    async def _append(
        self,
        conversation: ConversationId,
        expected_tail: int,
        drafts: Sequence[Draft],
        lease: Lease | None,
        then: Callable[[Database], T],
    ) -> tuple[tuple[Entry, ...], T]:
        """Append, run `then` in the same transaction, and return the entries and the result of `then`."""
        writer = self._require_writer(conversation)
        staged = StagedPayloads(self._blobs)

        def change(connection: Database) -> tuple[append_delete.ConversationRow, T]:
            return self._appender.append(connection, batch, staged, lease), then(connection)

        try:
            if is_light(drafts):
                batch = make_batch(conversation, expected_tail, drafts)
            else:
                batch = await self._in_thread(lambda: self._build_batch(conversation, expected_tail, drafts, staged))
            _, done = await self._commit(conversation, change, lambda changed: self._note_appended(batch, changed[0]))
        except StoreError as error:
            writer.record_failure(error)
            raise
        finally:
            staged.discard_unpublished()
        return batch.entries, done

    def _note_appended(self, batch: Batch, appended: append_delete.ConversationRow) -> None:
        """Wake the followers, and write the head if a turn has ended; called after the commit."""
        self._followers.wake((appended.number,))
        if not batch.is_plain and appended.head and batch.ends_turn:
            last = batch.entries[-1]
            self._heads.add(Head(conversation=batch.conversation, seq=last.seq, ts=last.ts, hash=appended.head.hex()))

    def _acquire_lease(self, connection: Database, conversation: ConversationId, holder: str) -> Lease:
        held_by, now = replace_surrogates(holder[:HOLDER_CHARS]), timestamp(self._clock.epoch_us())
        return leases.acquire(connection, self._process_locks, conversation, held_by, now)

    def _require_writer(self, conversation: ConversationId | None = None) -> Writer:
        self._check_open()
        if self._read_only:
            raise StoreError("store_unwritable", "the store is open for reading only; nothing can be changed")
        if self._journal.writer is None:
            subject = f"conversation {conversation}" if conversation else "the store"
            raise StoreError("store_damaged", f"{subject} cannot be changed: {self._journal.damage}")
        return self._journal.writer

    def _build_batch(
        self, conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], staged: StagedPayloads
    ) -> Batch:
        """Build the batch and stage its new payloads, so that the transaction only has to rename files."""
        tenant = self._tenant_of(conversation, drafts)

        def read_text(ref: BlobRef) -> str:
            return self._blobs.read(tenant, ref).decode("utf-8", "replace")

        batch = make_batch(conversation, expected_tail, drafts, read_text)
        try:
            for ref, data in batch.payloads.items():
                if not self._blobs.has(tenant, ref):
                    staged.add(ref, data)
        except OSError as error:
            raise StoreError("store_unwritable", f"cannot write to the blob folder: {error.strerror}") from None
        return batch

    def _build_import(
        self, imported: ImportedConversation, read_payload: ReadPayload, staged: StagedPayloads
    ) -> ImportBatch:
        """Build the batch and stage all its payloads: the tenant may have lost or changed those that it has."""
        made = make_import_batch(imported, read_payload)
        try:
            for ref in made.batch.references:
                staged.add(ref, read_import_payload(read_payload, ref))
        except OSError as error:
            raise StoreError("store_unwritable", f"cannot write to the blob folder: {error.strerror}") from None
        return made

    def _probe_blobs(self) -> None:
        try:
            self._blobs.discard(self._blobs.stage(bytes(PROBE_BYTES)))
        except OSError as error:
            raise StoreError("store_unwritable", f"cannot write to the blob folder: {error.strerror}") from None

    def _find_row(self, conversation: ConversationId) -> append_delete.ConversationRow | None:
        with self._connections.reader() as connection:
            return append_delete.find_conversation(connection, conversation)

    def _tenant_of(self, conversation: ConversationId, drafts: Sequence[Draft]) -> str:
        found = self._find_row(conversation)
        return found.tenant if found else tenant_from_header(drafts)

    async def _read_page_after(self, conversation: ConversationId, number: int, after: int) -> list[Entry] | None:
        def query(connection: Database) -> list[Entry] | None:
            found = append_delete.find_conversation(connection, conversation)
            if not found or found.number != number:
                return None
            return read_entries(connection, conversation, number, after, FOLLOW_PAGE, found.tail)

        return await self._read(query, conversation)

    async def _write_records(self, change: Callable[[Database], T]) -> T:
        return await self._require_writer().run(change, lambda _: None)

    async def _write(self, conversation: ConversationId, change: Callable[[Database], T]) -> T:
        return await self._commit(conversation, change, lambda _: None)

    async def _commit(
        self, conversation: ConversationId, change: Callable[[Database], T], after: Callable[[T], None]
    ) -> T:
        """Commit the change, together with the end of leases that could not be released before."""
        ended = tuple(self._unreleased.values())

        def change_and_release(connection: Database) -> T:
            for lease in ended:
                leases.release(connection, self._process_locks, lease)
            return change(connection)

        result = await self._require_writer(conversation).run(change_and_release, after, caller=conversation)
        for lease in ended:
            if self._unreleased.get(lease.conversation) is lease:
                del self._unreleased[lease.conversation]
        return result

    async def _read(self, query: Callable[[Database], T], conversation: ConversationId | None = None) -> T:
        def run_query() -> T:
            try:
                with self._connections.reader() as connection:
                    return query(connection)
            except DATABASE_ERRORS as error:
                raise to_store_error(error, conversation) from error

        return await self._in_thread(run_query)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("store_closed", "the store is closed")
