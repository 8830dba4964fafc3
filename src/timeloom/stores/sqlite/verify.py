"""Reads everything in a data folder and reports damage without changing anything."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Final, cast

import apsw

from timeloom.core.blocks import ConversationStarted, Titled
from timeloom.core.blocks.extract_payloads import find_blob_refs
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Entry
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.spend import SpendSums
from timeloom.ports.store import ChainStart, StoreError, StoreProblem, VerifyReport
from timeloom.stores.batch import TITLE_CHARS, open_work_after
from timeloom.stores.blob_folder import BlobFolder, tenant_folder
from timeloom.stores.feedback_rows import FeedbackRow, apply_feedback, count_copied_entries, extract_feedback
from timeloom.stores.head_folder import HeadFolder
from timeloom.stores.spend_rows import Costs, add_sums, sum_costs
from timeloom.stores.sqlite import migrations
from timeloom.stores.sqlite.connections import DATABASE_ERRORS, to_store_error
from timeloom.stores.sqlite.database import Database, convert_rows
from timeloom.stores.sqlite.lost_files import SALVAGE_HINT
from timeloom.stores.sqlite.tables import feedback, open_turns, records, spend
from timeloom.stores.sqlite.tables.append_delete import last_place, place_before
from timeloom.stores.sqlite.tables.chain import read_head, read_rows_with_links
from timeloom.stores.sqlite.tables.read_entries import EntryRow, decode_row
from timeloom.stores.sqlite.tables.search import read_info
from timeloom.wire.chain import ChainChecker
from timeloom.wire.heads import Head

MAX_FINDINGS: Final = 10_000
"""Maximum number of reported findings. More would tell a person nothing new and could exhaust memory."""


MAX_NUMBERS_TRIED: Final = 1_000_000
"""Maximum number of conversation numbers that are tried after an unreadable part of the list.

The stored highest number may be damaged too, so it cannot bound the search alone."""

ConversationExists = Callable[[ConversationId], object]
"""Returns a true value if the conversation exists."""


def verify(connection: Database, blobs: BlobFolder, heads: HeadFolder, exists: ConversationExists) -> VerifyReport:
    """Return the counts of checked items and all findings. Keeps the references of one conversation in memory.

    The connection sees one state of the store; `exists` tells whether a conversation was deleted since.
    """
    verifier = _StoreVerifier(connection, blobs, heads, exists)
    verifier.check_database()
    verifier.check_conversations()
    verifier.check_lost_conversations()
    verifier.check_records()
    verifier.count_payload_files()
    return verifier.result()


class _StoreVerifier:
    def __init__(self, connection: Database, blobs: BlobFolder, heads: HeadFolder, exists: ConversationExists) -> None:
        self._connection = connection
        self._exists = exists
        self._blobs = blobs
        self._findings: list[StoreProblem] = []
        self._heads = heads
        self._late_chains: list[ChainStart] = []
        self._conversations = self._entries = self._orphans = self._erased = 0
        self._blob_count = self._records = 0

    def result(self) -> VerifyReport:
        return VerifyReport(
            self._conversations,
            self._entries,
            self._blob_count,
            tuple(self._findings),
            self._orphans,
            self._erased,
            tuple(self._late_chains),
            self._records,
        )

    def check_database(self) -> None:
        """Check the schema and run the integrity check of SQLite."""
        try:
            # A database that is too damaged to be migrated is compared with the schema of its version.
            should_be = migrations.expected_schema(migrations.read_version(self._connection))
            for change in sorted(migrations.read_schema(self._connection) ^ should_be, key=str):
                self._add_finding("store_damaged", f"the schema of {change[1]!r} in journal.db was changed")
            for (line,) in self._connection.execute("PRAGMA integrity_check(100)"):
                if line != "ok":
                    self._add_finding("store_damaged", f"the integrity check of journal.db reports: {str(line)[:300]}")
        except DATABASE_ERRORS as error:
            self._add_finding("store_damaged", str(to_store_error(error)))

    def check_conversations(self) -> None:
        """Check each conversation separately, so that an unreadable one does not prevent checking the others."""
        before = 0
        for number, conversation in self._iter_conversations():
            self._check_unlisted_entries(before, number)
            before = number
            if conversation:
                self._conversations += 1
                try:
                    self._check_conversation(number, conversation)
                except DATABASE_ERRORS as error:
                    self._add_finding("store_damaged", str(to_store_error(error, conversation)), conversation)
        self._check_unlisted_entries(before, (1 << 31) - 1)

    def check_lost_conversations(self) -> None:
        """Report conversations that have heads and are not in the journal."""
        for conversation in self._heads.conversations():
            with contextlib.suppress(*DATABASE_ERRORS):
                if read_info(self._connection, conversation) or self._exists(conversation):
                    continue
                heads = self._heads.read(conversation)
                if heads:
                    self._add_finding(
                        "journal_truncated",
                        f"conversation {conversation} is missing: a turn of it ended at entry {heads[-1].seq}, "
                        f"{heads[-1].ts}",
                        conversation,
                        1,
                    )

    def check_records(self) -> None:
        """Check the checksum of each record."""
        try:
            if not records.exists(self._connection):
                return
            for row in self._connection.execute(f"SELECT {records.COLUMNS} FROM records ORDER BY n"):
                self._records += 1
                try:
                    records.decode_row(row)
                except CodedError as error:
                    self._add_finding(error.code, str(error))
                except DATABASE_ERRORS as error:
                    self._add_finding("store_damaged", f"a record cannot be read from journal.db ({error})")
        except DATABASE_ERRORS as error:
            self._add_finding("store_damaged", f"records cannot be read from journal.db ({error}); {SALVAGE_HINT}")

    def count_payload_files(self) -> None:
        """Count payload files with and without references. Unreferenced ones are no findings."""
        known: dict[str, str] = {}
        with contextlib.suppress(*DATABASE_ERRORS):
            tenants = self._connection.execute("SELECT DISTINCT tenant FROM conversations")
            known = {tenant_folder(tenant): tenant for (tenant,) in convert_rows(tenants, tuple[str])}
        sql = "SELECT 1 FROM payloads JOIN conversations USING (n) WHERE sha256 = ? AND tenant = ? LIMIT 1"
        for folder, name in self._blobs.list_files():
            try:
                sha256 = bytes.fromhex(name)
                if self._connection.execute(sql, (sha256, known.get(folder))).fetchone():
                    self._blob_count += 1
                else:
                    self._orphans += 1
            except ValueError:
                self._orphans += 1
            except DATABASE_ERRORS:
                self._blob_count += 1

    def _iter_conversations(self) -> Iterator[tuple[int, ConversationId | None]]:
        last = 0
        try:
            rows = self._connection.execute("SELECT n, id FROM conversations ORDER BY n")
            for last, conversation in convert_rows(rows, tuple[int, str]):
                yield last, ConversationId(conversation)
        except DATABASE_ERRORS as error:
            self._add_finding("store_damaged", str(to_store_error(error)))
            yield from self._iter_one_by_one(last)

    def _iter_one_by_one(self, last: int) -> Iterator[tuple[int, ConversationId | None]]:
        """Yield the conversations after an unreadable page of the list, by trying each number."""
        for number in range(last + 1, min(self._highest_number(), last + MAX_NUMBERS_TRIED) + 1):
            try:
                rows = self._connection.execute("SELECT id FROM conversations WHERE n = ?", (number,))
                names = [ConversationId(name) for (name,) in convert_rows(rows, tuple[str])]
            except DATABASE_ERRORS as error:
                self._add_finding(
                    "store_damaged", f"conversation number {number}, whose id is unknown, is lost ({error})"
                )
                yield number, None
            else:
                yield from ((number, name) for name in names)

    def _highest_number(self) -> int:
        with contextlib.suppress(*DATABASE_ERRORS):
            rows = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'conversations'")
            return next((seq for (seq,) in convert_rows(rows, tuple[int])), 0)
        return 0

    def _check_unlisted_entries(self, before: int, after: int) -> None:
        """Report entries whose number lies between two neighbouring conversations and belongs to none."""
        if after - before < 2:
            return
        sql = "SELECT place >> 32 FROM entries WHERE place > ? AND place < ? LIMIT 1"
        with contextlib.suppress(*DATABASE_ERRORS):
            row = self._connection.execute(sql, (last_place(before), place_before(after))).fetchone()
            if row:
                self._add_finding(
                    "store_damaged", f"conversation number {row[0]} has entries but is missing in the list"
                )

    def _check_conversation(self, number: int, conversation: ConversationId) -> None:
        info = read_info(self._connection, conversation)
        if info is None:
            self._add_finding("store_damaged", f"conversation {conversation} cannot be found by its id", conversation)
            return
        heads = {head.seq: head for head in self._heads.read(conversation)}
        chain = ChainChecker(conversation, {seq: head.hash for seq, head in heads.items()})
        expected, refs, derived = 1, dict[BlobRef, int](), _DerivedInfo()
        for row, link in read_rows_with_links(self._connection, number):
            self._entries += 1
            expected = self._check_gap(conversation, expected, row[0])
            entry = self._decode_entry(conversation, row)
            if entry and link:
                chain.add(entry, cast(bytes, row[3]), link)
            else:
                chain.skip(row[0])
            if entry and not link:
                message = f"the hashes of entry {row[0]} of conversation {conversation} have wrong types"
                self._add_finding("chain_broken", message, conversation, row[0])
            if entry:
                derived.add(entry)
                for ref in find_blob_refs(entry):
                    refs.setdefault(ref, entry.seq)
        self._check_chain(number, info, chain, max(heads.values(), key=lambda head: head.seq, default=None))
        if expected <= info.tail:
            self._check_gap(conversation, expected, info.tail + 1)
        elif not derived.matches(info) or not self._has_matching_rows(number, conversation, derived):
            message = f"the list entry of conversation {conversation} does not match its entries"
            self._add_finding("store_damaged", message, conversation)
        self._check_payloads(number, info, refs)

    def _check_chain(self, number: int, info: ConversationInfo, chain: ChainChecker, newest: Head | None) -> None:
        for problem in chain.finish(read_head(self._connection, number)):
            self._add_finding("chain_broken", problem.message, info.id, problem.seq)
        if newest and newest.seq > info.tail and self._exists(info.id):
            message = (
                f"entries {info.tail + 1} to {newest.seq} of conversation {info.id} are missing at its end: a turn "
                f"ended at entry {newest.seq}, {newest.ts}"
            )
            self._add_finding("journal_truncated", message, info.id, info.tail + 1)
        self._erased += chain.erased_count
        if chain.first_seq != 1 and len(self._late_chains) < MAX_FINDINGS:
            self._late_chains.append(ChainStart(info.id, chain.first_seq))

    def _has_matching_rows(self, number: int, conversation: ConversationId, derived: "_DerivedInfo") -> bool:
        """Whether the stored open turn, feedback and costs match the entries."""
        # A journal that is too damaged to be migrated may lack the column or the table.
        with contextlib.suppress(apsw.SQLError):
            if open_turns.read_open_turn(self._connection, number) != derived.open_turn:
                return False
            kinds = {seq: one.kind for seq, one in derived.feedback.items()}
            if feedback.read_kinds(self._connection, number) != kinds:
                return False
            return spend.read_costs(self._connection, conversation) == derived.costs
        return True

    def _check_gap(self, conversation: ConversationId, expected: int, seq: int) -> int:
        if seq != expected:
            message = f"entries {expected} to {seq - 1} of conversation {conversation} are missing"
            self._add_finding("seq_gap", message, conversation, expected)
        return seq + 1

    def _decode_entry(self, conversation: ConversationId, row: EntryRow) -> Entry | None:
        try:
            return decode_row(conversation, row)
        except StoreError as error:
            self._add_finding(error.code, str(error), conversation, row[0])
            return None

    def _check_payloads(self, number: int, info: ConversationInfo, refs: dict[BlobRef, int]) -> None:
        sql = "SELECT sha256 FROM payloads WHERE n = ?"
        rows = self._connection.execute(sql, (number,))
        listed = {sha256.hex() for (sha256,) in convert_rows(rows, tuple[bytes])}
        for ref, seq in refs.items():
            if ref.sha256 not in listed:
                message = f"payload {ref.sha256} of conversation {info.id} is not in the list of payloads"
                self._add_finding("store_damaged", message, info.id, seq)
            wrong = self._blobs.find_damage(info.tenant, ref)
            if wrong and self._exists(info.id):
                self._add_finding(wrong.code, f"conversation {info.id}, entry {seq}: {wrong}", info.id, seq)

    def _add_finding(
        self, code: str, message: str, conversation: ConversationId | None = None, seq: int | None = None
    ) -> None:
        if len(self._findings) < MAX_FINDINGS:
            self._findings.append(StoreProblem(code, message, conversation, seq))


class _DerivedInfo:
    """The list entry, open turn, feedback and costs that follow from the entries of a conversation."""

    def __init__(self) -> None:
        self._header: Entry | None = None
        self._last: Entry | None = None
        self._title = ""
        self.open_turn: str | None = None
        self.feedback: dict[int, FeedbackRow] = {}
        self.costs: Costs = {}

    def add(self, entry: Entry) -> None:
        self.open_turn = open_work_after(self.open_turn, (entry,))
        self._header = self._header or entry
        self._last = entry
        if entry.seq > count_copied_entries(self._header.block):
            for one in extract_feedback((entry,)):
                apply_feedback(self.feedback, one)
            for key, sums in sum_costs((entry,)).items():
                self.costs[key] = add_sums(self.costs.get(key, SpendSums()), sums)
        if isinstance(entry.block, Titled):
            self._title = entry.block.text[:TITLE_CHARS]

    def matches(self, info: ConversationInfo) -> bool:
        if not self._header or not self._last or not isinstance(self._header.block, ConversationStarted):
            # The first entry is damaged, which is already reported.
            return True
        header = self._header.block
        expected = ConversationInfo(
            id=info.id,
            tenant=header.tenant,
            project=header.project,
            user=header.user,
            bundle=header.bundle,
            title=self._title,
            parent=header.parent,
            started_ts=self._header.ts,
            last_ts=self._last.ts,
            tail=self._last.seq,
        )
        return info == expected
