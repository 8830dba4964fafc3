"""Reads everything in a data folder and reports damage without changing anything."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import apsw

from timeloom.core.blocks import ConversationStarted, Titled
from timeloom.core.blocks.extract_payloads import references
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Entry
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.store import Finding, StoreError, Verified
from timeloom.stores.batch import TITLE_CHARS, open_turn_after
from timeloom.stores.blob_folder import BlobFolder, tenant_folder
from timeloom.stores.feedback_rows import Judgement, copied_by, judgements_in, note_judgement
from timeloom.stores.sqlite import migrations
from timeloom.stores.sqlite.connections import DATABASE_ERRORS, explained
from timeloom.stores.sqlite.database import Database, typed
from timeloom.stores.sqlite.tables import feedback, open_turns
from timeloom.stores.sqlite.tables.append_delete import first_place, last_place
from timeloom.stores.sqlite.tables.read_entries import Row, decoded, rows_of
from timeloom.stores.sqlite.tables.search import read_info

MAX_FINDINGS: Final = 10_000
"""Maximum number of reported findings. More would tell a person nothing new and could exhaust memory."""


MAX_SEARCHED: Final = 1_000_000
"""Maximum number of conversation numbers that are tried after an unreadable part of the list.

The stored highest number may be damaged too, so it cannot bound the search alone."""

IsThere = Callable[[ConversationId], object]
"""Returns a true value if the conversation exists."""


def verify(connection: Database, blobs: BlobFolder, is_there: IsThere) -> Verified:
    """Return the counts of checked items and all findings. Keeps the references of one conversation in memory.

    The connection sees one state of the store; `exists` tells whether a conversation was deleted since.
    """
    check = _Check(connection, blobs, is_there)
    check.database()
    check.conversations()
    check.strays()
    return check.verified()


class _Check:
    def __init__(self, connection: Database, blobs: BlobFolder, is_there: IsThere) -> None:
        self._connection = connection
        self._is_there = is_there
        self._blobs = blobs
        self._findings: list[Finding] = []
        self._conversations = self._entries = self._orphans = 0
        self._blob_count = 0

    def verified(self) -> Verified:
        return Verified(self._conversations, self._entries, self._blob_count, tuple(self._findings), self._orphans)

    def database(self) -> None:
        """Check the schema and run the integrity check of SQLite."""
        try:
            # A database that is too damaged to be migrated is compared with the schema of its version.
            should_be = migrations.expected(migrations.version_of(self._connection))
            for change in sorted(migrations.described(self._connection) ^ should_be, key=str):
                self._add("store_damaged", f"the schema of {change[1]!r} in journal.db was changed")
            for (line,) in self._connection.execute("PRAGMA integrity_check(100)"):
                if line != "ok":
                    self._add("store_damaged", f"the integrity check of journal.db reports: {str(line)[:300]}")
        except DATABASE_ERRORS as error:
            self._add("store_damaged", str(explained(error)))

    def conversations(self) -> None:
        """Check each conversation separately, so that an unreadable one does not prevent checking the others."""
        before = 0
        for number, conversation in self._numbered():
            self._gap_between(before, number)
            before = number
            if conversation:
                self._conversations += 1
                try:
                    self._conversation(number, conversation)
                except DATABASE_ERRORS as error:
                    self._add("store_damaged", str(explained(error, conversation)), conversation)
        self._gap_between(before, (1 << 31) - 1)

    def strays(self) -> None:
        """Count payload files with and without references. Unreferenced ones are no findings."""
        known: dict[str, str] = {}
        with contextlib.suppress(*DATABASE_ERRORS):
            tenants = self._connection.execute("SELECT DISTINCT tenant FROM conversations")
            known = {tenant_folder(tenant): tenant for (tenant,) in typed(tenants, tuple[str])}
        sql = "SELECT 1 FROM payloads JOIN conversations USING (n) WHERE sha256 = ? AND tenant = ? LIMIT 1"
        for folder, name in self._blobs.stored():
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

    def _numbered(self) -> Iterator[tuple[int, ConversationId | None]]:
        last = 0
        try:
            rows = self._connection.execute("SELECT n, id FROM conversations ORDER BY n")
            for last, conversation in typed(rows, tuple[int, str]):
                yield last, ConversationId(conversation)
        except DATABASE_ERRORS as error:
            self._add("store_damaged", str(explained(error)))
            yield from self._numbered_one_by_one(last)

    def _numbered_one_by_one(self, last: int) -> Iterator[tuple[int, ConversationId | None]]:
        """Yield the conversations after an unreadable page of the list, by trying each number."""
        for number in range(last + 1, min(self._highest(), last + MAX_SEARCHED) + 1):
            try:
                rows = self._connection.execute("SELECT id FROM conversations WHERE n = ?", (number,))
                names = [ConversationId(name) for (name,) in typed(rows, tuple[str])]
            except DATABASE_ERRORS as error:
                self._add("store_damaged", f"conversation number {number}, whose id is unknown, is lost ({error})")
                yield number, None
            else:
                yield from ((number, name) for name in names)

    def _highest(self) -> int:
        with contextlib.suppress(*DATABASE_ERRORS):
            rows = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'conversations'")
            return next((seq for (seq,) in typed(rows, tuple[int])), 0)
        return 0

    def _gap_between(self, before: int, after: int) -> None:
        """Report entries whose number lies between two neighbouring conversations and belongs to none."""
        if after - before < 2:
            return
        sql = "SELECT place >> 32 FROM entries WHERE place > ? AND place < ? LIMIT 1"
        with contextlib.suppress(*DATABASE_ERRORS):
            row = self._connection.execute(sql, (last_place(before), first_place(after))).fetchone()
            if row:
                self._add("store_damaged", f"conversation number {row[0]} has entries but is missing in the list")

    def _conversation(self, number: int, conversation: ConversationId) -> None:
        info = read_info(self._connection, conversation)
        if info is None:
            self._add("store_damaged", f"conversation {conversation} cannot be found by its id", conversation)
            return
        expected, refs, summary = 1, dict[BlobRef, int](), _Summary()
        for row in rows_of(self._connection, number):
            self._entries += 1
            expected = self._after_gap(conversation, expected, row[0])
            entry = self._entry(conversation, row)
            if entry:
                summary.add(entry)
                for ref in references(entry):
                    refs.setdefault(ref, entry.seq)
        if expected <= info.tail:
            self._after_gap(conversation, expected, info.tail + 1)
        elif not summary.agrees(info) or not self._follows(number, summary):
            message = f"the list entry of conversation {conversation} does not match its entries"
            self._add("store_damaged", message, conversation)
        self._payloads(number, info, refs)

    def _follows(self, number: int, summary: "_Summary") -> bool:
        """Whether the stored open turn and feedback match the entries."""
        # A journal that is too damaged to be migrated may lack the column or the table.
        with contextlib.suppress(apsw.SQLError):
            if open_turns.listed(self._connection, number) != summary.open_turn:
                return False
            return feedback.listed(self._connection, number) == {seq: one.said for seq, one in summary.judged.items()}
        return True

    def _after_gap(self, conversation: ConversationId, expected: int, seq: int) -> int:
        if seq != expected:
            message = f"entries {expected} to {seq - 1} of conversation {conversation} are missing"
            self._add("seq_gap", message, conversation, expected)
        return seq + 1

    def _entry(self, conversation: ConversationId, row: Row) -> Entry | None:
        try:
            return decoded(conversation, row)
        except StoreError as error:
            self._add(error.code, str(error), conversation, row[0])
            return None

    def _payloads(self, number: int, info: ConversationInfo, refs: dict[BlobRef, int]) -> None:
        sql = "SELECT sha256 FROM payloads WHERE n = ?"
        rows = self._connection.execute(sql, (number,))
        listed = {sha256.hex() for (sha256,) in typed(rows, tuple[bytes])}
        for ref, seq in refs.items():
            if ref.sha256 not in listed:
                message = f"payload {ref.sha256} of conversation {info.id} is not in the list of payloads"
                self._add("store_damaged", message, info.id, seq)
            wrong = self._blobs.check(info.tenant, ref)
            if wrong and self._is_there(info.id):
                self._add(wrong.code, f"conversation {info.id}, entry {seq}: {wrong}", info.id, seq)

    def _add(self, code: str, message: str, conversation: ConversationId | None = None, seq: int | None = None) -> None:
        if len(self._findings) < MAX_FINDINGS:
            self._findings.append(Finding(code, message, conversation, seq))


class _Summary:
    """The list entry, open turn and feedback that follow from the entries of a conversation."""

    def __init__(self) -> None:
        self._header: Entry | None = None
        self._last: Entry | None = None
        self._title = ""
        self.open_turn: TurnId | None = None
        self.judged: dict[int, Judgement] = {}

    def add(self, entry: Entry) -> None:
        self.open_turn = open_turn_after(self.open_turn, (entry,))
        self._header = self._header or entry
        self._last = entry
        for one in judgements_in((entry,)):
            if one.seq > copied_by(self._header.block):
                note_judgement(self.judged, one)
        if isinstance(entry.block, Titled):
            self._title = entry.block.text[:TITLE_CHARS]

    def agrees(self, info: ConversationInfo) -> bool:
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
