"""A store in memory that keeps the contract of the SQLite store until the process ends."""

import re
import unicodedata
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Self

from msgspec.structs import replace

from timeloom.core.blocks.extract_payloads import find_blob_refs
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef, ref_of
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.blobs import BlobError
from timeloom.ports.clock import Clock, SystemClock, timestamp
from timeloom.ports.feedback import FeedbackPage, FeedbackQuery
from timeloom.ports.importer import ImportedConversation, ReadPayload
from timeloom.ports.journal import ConflictError
from timeloom.ports.leases import HOLDER_CHARS, ConversationHeldError, Lease, LeaseLostError
from timeloom.ports.ledger import Ledger
from timeloom.ports.reader import (
    ConversationInfo,
    ConversationPage,
    ConversationQuery,
    ConversationUnknownError,
    OpenTurnQuery,
)
from timeloom.ports.records import Records
from timeloom.ports.spend import SpendPage, SpendQuery, SpendSums
from timeloom.ports.store import StoreError, StoreProblem, VerifyReport
from timeloom.stores.batch import SALTS, TITLE_CHARS, Batch, make_batch, open_work_after, tenant_from_header
from timeloom.stores.erasure import Erasure, check_erased_forms, find_unreferenced_payloads, make_erasure
from timeloom.stores.feedback_rows import FeedbackRow, apply_feedback, extract_batch_feedback
from timeloom.stores.followers import Followers
from timeloom.stores.import_batch import existing_error, make_import_batch, read_import_payload
from timeloom.stores.in_memory.feedback import make_feedback_page
from timeloom.stores.in_memory.ledger import MemoryLedgerTables
from timeloom.stores.in_memory.records import MemoryRecords
from timeloom.stores.ledger import StoreLedger
from timeloom.stores.search_terms import (
    QUERY_CHARS,
    QUERY_WORDS,
    clamp_page_size,
    cursor_after,
    parse_cursor,
    replace_surrogates,
)
from timeloom.stores.spend_rows import (
    Costs,
    OwnedCosts,
    add_sums,
    extract_batch_costs,
    make_spend_page,
    select_costs,
)
from timeloom.wire.chain import ChainChecker, ChainLink, erased_content, hash_before_first, link_entry
from timeloom.wire.heads import Head
from timeloom.wire.record import decode_record

_WORD: Final = re.compile(r"[^\W_]+")


@dataclass(slots=True)
class _StoredConversation:
    number: int
    info: ConversationInfo
    records: list[bytes] = field(default_factory=list[bytes])
    links: list[ChainLink] = field(default_factory=list[ChainLink])
    head: bytes = b""
    words_by_seq: dict[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])
    feedback: dict[int, FeedbackRow] = field(default_factory=dict[int, FeedbackRow])
    costs: Costs = field(default_factory=Costs)
    title_seq: int = 0
    snapshots: dict[str, tuple[int, bytes]] = field(default_factory=dict[str, tuple[int, bytes]])
    epoch: int = 0
    lease: Lease | None = None
    held_since: str = ""


class MemoryStore:
    """A `Store` for one event loop.

    It keeps encoded records as a file would, so that every loaded entry has been encoded and decoded.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._ledger_tables = MemoryLedgerTables(self._check_open)
        self._ledger = StoreLedger(self._ledger_tables)
        self._records = MemoryRecords(self._check_open)
        self._conversations: dict[ConversationId, _StoredConversation] = {}
        self._open_turns: dict[ConversationId, str] = {}
        self._blobs: dict[tuple[str, BlobRef], bytes] = {}
        self._deleted_costs: list[OwnedCosts] = []
        self._followers = Followers()
        self._numbers = 0

    @classmethod
    async def open(cls) -> Self:
        """Return an empty store."""
        return cls()

    @property
    def ledger(self) -> Ledger:
        """The ledger with the shared budgets of all conversations in this store."""
        return self._ledger

    @property
    def records(self) -> Records:
        """The records of this store; they end with the process."""
        return self._records

    @property
    def write_failure(self) -> str:
        return ""

    async def probe_write(self) -> None:
        self._check_open()

    async def acquire(self, conversation: ConversationId, holder: str) -> Lease:
        found = self._get_conversation(conversation)
        if found.lease:
            raise ConversationHeldError(conversation, f"{found.lease.holder}, in this process,", found.held_since)
        # Numbers are never reused, so a conversation with the id of a deleted one starts above the epochs of that one.
        found.epoch = max(found.epoch, found.number << 32) + 1
        found.lease = Lease(conversation, found.epoch, replace_surrogates(holder[:HOLDER_CHARS]))
        found.held_since = timestamp(self._clock.epoch_us())
        return found.lease

    async def release(self, lease: Lease) -> None:
        found = self._conversations.get(lease.conversation)
        if found and found.lease == lease:
            found.lease = None

    async def is_held(self, conversation: ConversationId) -> bool:
        return self._get_conversation(conversation).lease is not None

    async def begin(
        self, conversation: ConversationId, drafts: Sequence[Draft], holder: str
    ) -> tuple[tuple[Entry, ...], Lease]:
        return await self.append(conversation, 0, drafts), await self.acquire(conversation, holder)

    async def append(
        self, conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], lease: Lease | None = None
    ) -> tuple[Entry, ...]:
        self._check_open()
        found = self._conversations.get(conversation)

        def read_text(ref: BlobRef) -> str:
            return self._read_payload(found.info.tenant if found else tenant_from_header(drafts), ref).decode(
                "utf-8", "replace"
            )

        batch = make_batch(conversation, expected_tail, drafts, read_text)
        _check_lease(conversation, found, lease)
        tail = found.info.tail if found else 0
        if tail != expected_tail:
            raise ConflictError(conversation, expected_tail, tail)
        found = found or self._new_conversation(batch)
        tenant = found.info.tenant
        for ref in batch.references:
            if ref not in batch.payloads:
                self._read_payload(tenant, ref)
        self._blobs.update({(tenant, ref): data for ref, data in batch.payloads.items()})
        self._conversations[conversation] = found
        _apply_batch(found, batch)
        self._update_open_turn(batch)
        self._followers.wake((found.number,))
        return batch.entries

    async def import_conversation(
        self, imported: ImportedConversation, read_payload: ReadPayload, place_files: Callable[[], None]
    ) -> None:
        self._check_open()
        made = make_import_batch(imported, read_payload)
        batch = made.batch
        if imported.id in self._conversations:
            raise existing_error(imported.id)
        payloads = {ref: read_import_payload(read_payload, ref) for ref in batch.references}
        found = self._new_conversation(batch)
        place_files()
        self._blobs.update({(found.info.tenant, ref): data for ref, data in payloads.items()})
        self._conversations[imported.id] = found
        _apply_batch(found, batch)
        found.links, found.head = [replace(link, record=b"") for link in made.links], made.head
        if made.erased_title:
            found.info, found.title_seq = replace(found.info, title=made.erased_title), 0
        self._update_open_turn(batch)

    async def delete(self, conversation: ConversationId) -> None:
        deleted = self._get_conversation(conversation)
        del self._conversations[conversation]
        self._deleted_costs.append((deleted.info, "", deleted.costs))
        self._open_turns.pop(conversation, None)
        tenant = deleted.info.tenant
        others = [other for other in self._conversations.values() if other.info.tenant == tenant]
        used = {ref for other in others for entry in _entries(other) for ref in find_blob_refs(entry)}
        for ref in {ref for entry in _entries(deleted) for ref in find_blob_refs(entry)} - used:
            self._blobs.pop((tenant, ref), None)
        self._followers.wake((deleted.number,))
        self._ledger_tables.delete_conversation(conversation)
        self._ledger.wake_waiters()

    async def erase(
        self,
        conversation: ConversationId,
        expected_tail: int,
        entries: Sequence[Entry],
        record: Draft,
        lease: Lease | None = None,
    ) -> Entry:
        erasure = make_erasure(conversation, expected_tail, entries, record)
        found = self._get_conversation(conversation)
        _check_lease(conversation, found, lease)
        if found.info.tail != expected_tail:
            raise ConflictError(conversation, expected_tail, found.info.tail)
        existing = [entry for entry in _entries(found) if entry.seq in erasure.seqs]
        check_erased_forms(existing, erasure)
        _apply_erasure(found, erasure)
        (recorded,) = await self.append(conversation, expected_tail, [erasure.record], lease)
        tenant = found.info.tenant
        of_tenant = [other for other in self._conversations.values() if other.info.tenant == tenant]
        for ref in find_unreferenced_payloads(existing, (entry for other in of_tenant for entry in _entries(other))):
            self._blobs.pop((tenant, ref), None)
        return recorded

    async def scrub(self) -> None:
        await self.drop_snapshots()

    async def info(self, conversation: ConversationId) -> ConversationInfo:
        return self._get_conversation(conversation).info

    async def load(self, conversation: ConversationId, after: int = 0, limit: int | None = None) -> list[Entry]:
        found = self._get_conversation(conversation)
        start = max(0, after)
        stop = found.info.tail if limit is None else min(found.info.tail, start + max(0, limit))
        return [decode_record(found.records[seq - 1], seq) for seq in range(start + 1, stop + 1)]

    async def load_chain(
        self, conversation: ConversationId, after: int = 0, limit: int | None = None
    ) -> list[ChainLink]:
        found, start = self._get_conversation(conversation), max(0, after)
        stop = found.info.tail if limit is None else start + max(0, limit)
        pairs = zip(found.links[start:stop], found.records[start:stop], strict=True)
        return [replace(link, record=record) for link, record in pairs]

    async def load_heads(self, conversation: ConversationId) -> list[Head]:
        return []

    async def follow(self, conversation: ConversationId, after: int = 0) -> AsyncIterator[Entry]:
        found = self._get_conversation(conversation)
        follower = self._followers.add(found.number)
        seq = max(0, after)
        try:
            while not self._followers.closed and self._conversations.get(conversation) is found:
                follower.clear()
                if found.info.tail > seq:
                    seq += 1
                    yield decode_record(found.records[seq - 1], seq)
                else:
                    await follower.wait()
        finally:
            self._followers.remove(found.number, follower)

    async def conversations(self, query: ConversationQuery) -> ConversationPage:
        self._check_open()
        size = clamp_page_size(query.limit)
        found = [each.info for each in self._conversations.values() if _matches(each, query)]
        found.sort(key=_sort_key, reverse=True)
        if query.cursor:
            cursor = parse_cursor(query.cursor)
            found = [info for info in found if _sort_key(info) < cursor]
        return ConversationPage(tuple(found[:size]), cursor_after(found[size - 1]) if len(found) > size else "")

    async def conversations_with_open_turn(self, query: OpenTurnQuery) -> list[ConversationInfo]:
        self._check_open()
        found = (self._conversations[name].info for name in sorted(self._open_turns) if name > query.after)
        wanted = (query.tenant, query.project)
        matching = (info for info in found if (info.tenant, info.project) == wanted and query.user in ("", info.user))
        return list(islice(matching, max(0, query.limit)))

    async def having_open_turn(self, conversations: Collection[ConversationId]) -> frozenset[ConversationId]:
        self._check_open()
        return frozenset(name for name in conversations if name in self._open_turns)

    async def idle_conversations(self, before: str, after: str = "", limit: int = 100) -> list[ConversationInfo]:
        self._check_open()
        found = (self._conversations[name].info for name in sorted(self._conversations) if name > after)
        return list(islice((info for info in found if info.last_ts < before), max(0, limit)))

    async def search_messages(self, conversation: ConversationId, words: str, limit: int = 10) -> list[int]:
        found, wanted = self._get_conversation(conversation), _query_words(words)
        seqs = [
            seq for seq, present in found.words_by_seq.items() if any(_has_prefix(start, present) for start in wanted)
        ]
        return sorted(seqs, reverse=True)[: clamp_page_size(limit)]

    async def list_feedback(self, query: FeedbackQuery) -> FeedbackPage:
        self._check_open()
        return make_feedback_page(query, ((each.info, each.feedback.values()) for each in self._conversations.values()))

    async def read_spend(self, query: SpendQuery) -> SpendPage:
        self._check_open()
        found = [*self._deleted_costs]
        found += [(each.info, each.info.id, each.costs) for each in self._conversations.values()]
        return make_spend_page(query, select_costs(query, found))

    async def conversation_ids(self, after: str = "", limit: int = 1000) -> list[ConversationId]:
        self._check_open()
        return sorted(name for name in self._conversations if name > after)[:limit]

    async def open_turns(self, after: str = "", limit: int = 1000) -> list[ConversationId]:
        self._check_open()
        return sorted(name for name in self._open_turns if name > after)[:limit]

    async def read_blob(self, tenant: str, ref: BlobRef) -> bytes:
        self._check_open()
        return self._read_payload(tenant, ref)

    async def read_part(self, tenant: str, ref: BlobRef, start: int, most_bytes: int) -> bytes:
        return (await self.read_blob(tenant, ref))[start : start + most_bytes]

    async def save_snapshot(self, conversation: ConversationId, seq: int, version: str, data: bytes) -> None:
        self._check_open()
        found = self._conversations.get(conversation)
        if found:
            found.snapshots[version] = max(
                found.snapshots.get(version, (0, b"")), (seq, data), key=lambda pair: pair[0]
            )

    async def load_snapshot(self, conversation: ConversationId, version: str) -> tuple[int, bytes] | None:
        self._check_open()
        found = self._conversations.get(conversation)
        snapshot = found.snapshots.get(version) if found else None
        return snapshot if found and snapshot and snapshot[0] <= found.info.tail else None

    async def drop_snapshots(self) -> int:
        self._check_open()
        count = sum(len(each.snapshots) for each in self._conversations.values())
        for each in self._conversations.values():
            each.snapshots.clear()
        return count

    async def verify(self) -> VerifyReport:
        self._check_open()
        entries = sum(each.info.tail for each in self._conversations.values())
        findings: list[StoreProblem] = []
        erased = 0
        for each in self._conversations.values():
            checker = ChainChecker(each.info.id)
            for entry, record, link in zip(_entries(each), each.records, each.links, strict=True):
                checker.add(entry, record, link)
            problems = checker.finish(each.head)
            findings += [StoreProblem("chain_broken", one.message, each.info.id, one.seq) for one in problems]
            erased += checker.erased_count
        return VerifyReport(
            len(self._conversations),
            entries,
            len(self._blobs),
            tuple(findings),
            erased=erased,
            records=self._records.count(),
        )

    async def close(self) -> None:
        self._followers.close()

    def _new_conversation(self, batch: Batch) -> _StoredConversation:
        header, ts = batch.header, batch.entries[0].ts
        assert header is not None
        self._numbers += 1
        info = ConversationInfo(
            id=batch.conversation,
            tenant=header.tenant,
            project=header.project,
            user=header.user,
            bundle=header.bundle,
            parent=header.parent,
            started_ts=ts,
            last_ts=ts,
            tail=0,
        )
        return _StoredConversation(self._numbers, info)

    def _update_open_turn(self, batch: Batch) -> None:
        turn = open_work_after(self._open_turns.pop(batch.conversation, None), batch.entries)
        if turn is not None:
            self._open_turns[batch.conversation] = turn

    def _get_conversation(self, conversation: ConversationId) -> _StoredConversation:
        self._check_open()
        found = self._conversations.get(conversation)
        if not found:
            raise ConversationUnknownError(conversation)
        return found

    def _read_payload(self, tenant: str, ref: BlobRef) -> bytes:
        data = self._blobs.get((tenant, ref))
        if data is None:
            raise BlobError("blob_missing", f"payload {ref.sha256[:64]!r} ({ref.size_bytes} bytes) is not stored")
        assert ref_of(data) == ref
        return data

    def _check_open(self) -> None:
        if self._followers.closed:
            raise StoreError("store_closed", "the store is closed")


def _check_lease(conversation: ConversationId, found: _StoredConversation | None, lease: Lease | None) -> None:
    current = found.lease if found else None
    if current == lease:
        return
    if not lease:
        assert found is not None and current is not None
        raise ConversationHeldError(conversation, f"{current.holder}, in this process,", found.held_since)
    if not found:
        raise LeaseLostError(conversation, "the conversation was deleted")
    raise LeaseLostError(
        conversation, f"{current.holder} has held it since {found.held_since}" if current else "it was released"
    )


def _apply_batch(found: _StoredConversation, batch: Batch) -> None:
    found.head = found.head or hash_before_first(batch.conversation, 1)
    for seq, record in enumerate(batch.records, batch.expected_tail + 1):
        link = ChainLink(seq, SALTS.take(), found.head)
        found.links.append(link)
        found.head = link_entry(link.before, link.salt, seq, record)
    found.records += batch.records
    title = found.info.title
    if batch.title:
        found.words_by_seq.pop(found.title_seq, None)
        found.title_seq, title = batch.title
        found.words_by_seq[found.title_seq] = frozenset(_words(title))
    for one in extract_batch_feedback(batch):
        apply_feedback(found.feedback, one)
    for key, sums in extract_batch_costs(batch).items():
        found.costs[key] = add_sums(found.costs.get(key, SpendSums()), sums)
    found.words_by_seq |= {seq: frozenset(_words(text)) for seq, text in batch.searchable_texts}
    found.info = ConversationInfo(
        id=found.info.id,
        tenant=found.info.tenant,
        project=found.info.project,
        user=found.info.user,
        bundle=found.info.bundle,
        title=title[:TITLE_CHARS],
        parent=found.info.parent,
        started_ts=found.info.started_ts,
        last_ts=batch.last_ts,
        tail=batch.tail,
    )


def _apply_erasure(found: _StoredConversation, erasure: Erasure) -> None:
    for seq, data, salt in zip(erasure.seqs, erasure.records, erasure.salts, strict=True):
        link = found.links[seq - 1]
        found.links[seq - 1] = replace(link, salt=salt, content=erased_content(link, found.records[seq - 1], data))
        found.records[seq - 1] = data
        found.words_by_seq.pop(seq, None)
        found.feedback.pop(seq, None)
    title = erasure.erased_title_at(found.title_seq)
    if title is not None:
        found.info, found.title_seq = replace(found.info, title=title), 0
    found.snapshots.clear()


def _entries(found: _StoredConversation) -> Iterator[Entry]:
    return (decode_record(record, seq) for seq, record in enumerate(found.records, 1))


def _matches(found: _StoredConversation, query: ConversationQuery) -> bool:
    info = found.info
    if info.tenant != query.tenant or query.project not in ("", info.project) or query.user not in ("", info.user):
        return False
    if not query.words.strip():
        return True
    wanted = _query_words(query.words)
    present = frozenset[str]().union(*found.words_by_seq.values())
    return bool(wanted) and all(_has_prefix(start, present) for start in wanted)


def _query_words(words: str) -> list[str]:
    return list(dict.fromkeys(_words(words[:QUERY_CHARS])))[:QUERY_WORDS]


def _has_prefix(start: str, present: Iterable[str]) -> bool:
    return any(word.startswith(start) for word in present)


def _sort_key(info: ConversationInfo) -> tuple[str, str]:
    return info.last_ts, info.id


def _words(text: str) -> list[str]:
    """Return the words without case and accents, close to the tokens of the SQLite full-text index."""
    plain = "".join(char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char))
    return _WORD.findall(plain.lower())
