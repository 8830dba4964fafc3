"""The records on disk, in memory and in a plain dict answer every sequence of operations alike."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import NamedTuple, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from timeloom.core.codes import CodedError
from timeloom.ports.records import RecordAddress, RecordPage, RecordQuery, Records, StoredRecord
from timeloom.ports.store import Store
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.overlay import OverlayStore
from timeloom.stores.sqlite import SqliteStore

T = TypeVar("T")

names = st.sampled_from(["", "t", "T", "é"])
keys = st.sampled_from(["a", "a/1", "a/2", "b", "\U0010ffff"])
kinds = st.sampled_from(["note", "cache:x"])
addresses = st.builds(RecordAddress, kind=kinds, key=keys, tenant=names, project=names, user=names)
queries = st.builds(
    RecordQuery,
    kind=st.sampled_from(["", "note", "cache:x"]),
    tenant=names | st.none(),
    project=names | st.none(),
    user=names | st.none(),
    prefix=st.sampled_from(["", "a", "a/", "\U0010ffff"]),
    limit=st.integers(1, 4),
)


class ModelRow(NamedTuple):
    value: bytes
    version: int
    expires_us: int | None


class RecordsAgree(RuleBasedStateMachine):
    """Does the same to all stores, and compares each answer with those of a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        self.disk: Store = self.run(SqliteStore.open(self.folder))
        self.memory: Store = MemoryStore()
        self.overlay: Store = OverlayStore(MemoryStore())
        self.rows: dict[RecordAddress, ModelRow] = {}
        self.changes: dict[str, int] = {"note": 0, "cache:x": 0}
        self.now_us = 1

    def teardown(self) -> None:
        self.run(self.disk.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    def run(self, work: Coroutine[None, None, T]) -> T:
        return self.runner.run(work)

    def check(self, ask: Callable[[Records], Awaitable[object]], expected: object) -> None:
        async def answer(records: Records) -> object:
            try:
                return await ask(records)
            except CodedError as error:
                return error.code

        for store in (self.disk, self.memory, self.overlay):
            assert self.run(answer(store.records)) == expected

    def visible(self, address: RecordAddress) -> ModelRow | None:
        row = self.rows.get(address)
        return row if row and (row.expires_us is None or row.expires_us > self.now_us) else None

    def stored(self, query: RecordQuery) -> list[StoredRecord]:
        found = [address for address in self.rows if query.matches(address) and self.visible(address)]
        return [StoredRecord(each, *self.rows[each]) for each in sorted(found, key=lambda each: each.sort_key)]

    @rule(
        address=addresses,
        at=st.sampled_from([None, 0, 0, -1, -1, 7]),
        value=st.integers(0, 9),
        lasts=st.none() | st.integers(1, 9),
    )
    def put(self, address: RecordAddress, at: int | None, value: int, lasts: int | None) -> None:
        before, now_us = self.visible(address), self.now_us
        expected = (before.version if before else 0) if at == -1 else at
        data, expires_us = b'{"n":%d}' % value, None if lasts is None else now_us + lasts
        answer: object = "record_conflict"
        if expected is None or expected == (before.version if before else 0):
            self.changes[address.kind] += 1
            answer = self.changes[address.kind]
            self.rows[address] = ModelRow(data, self.changes[address.kind], expires_us)
        self.check(
            lambda records: records.put(address, data, expected=expected, expires_us=expires_us, now_us=now_us), answer
        )

    @rule(address=addresses, at=st.sampled_from([None, -1, -1, 7]))
    def delete(self, address: RecordAddress, at: int | None) -> None:
        before, now_us = self.visible(address), self.now_us
        expected = before.version if at == -1 and before else None if at == -1 else at
        answer: object = before is not None
        if expected not in (None, before.version if before else 0):
            answer = "record_conflict"
        elif before:
            del self.rows[address]
            self.changes[address.kind] += 1
        self.check(lambda records: records.delete(address, expected=expected, now_us=now_us), answer)

    @rule(query=queries)
    def list_pages(self, query: RecordQuery) -> None:
        expected, now_us = self.stored(query), self.now_us

        async def read_all(records: Records) -> object:
            found: list[StoredRecord] = []
            page = RecordPage(())
            while page.cursor or not found:
                page = await records.list(replace(query, cursor=page.cursor), now_us=now_us)
                assert bool(page.cursor) == (len(found) + len(page.records) < len(expected))
                found += page.records
                if not page.cursor:
                    break
            return found

        self.check(read_all, expected)

    @rule(tenant=names, user=names, project=names | st.none())
    def erase_user(self, tenant: str, user: str, project: str | None) -> None:
        if tenant and user:
            count = self.erase(RecordQuery(tenant=tenant, user=user, project=project))
            self.check(lambda records: records.erase_user(tenant, user, project), count)

    @rule(tenant=st.sampled_from(["t", "é"]))
    def erase_tenant(self, tenant: str) -> None:
        count = self.erase(RecordQuery(tenant=tenant))
        self.check(lambda records: records.erase_tenant(tenant), count)

    def erase(self, query: RecordQuery) -> int:
        gone = [address for address in self.rows if query.matches(address)]
        for kind in {address.kind for address in gone}:
            self.changes[kind] += 1
        for address in gone:
            del self.rows[address]
        return len(gone)

    @rule(later=st.integers(1, 5))
    def wait(self, later: int) -> None:
        self.now_us += later
        # A put may remove expired rows at any later time, so the model has none.
        self.rows = {address: row for address, row in self.rows.items() if self.visible(address)}

    @rule()
    def open_again(self) -> None:
        self.run(self.disk.close())
        self.disk = self.run(SqliteStore.open(self.folder))

    @invariant()
    def all_hold_the_same(self) -> None:
        for kind, changes in self.changes.items():
            self.check(lambda records, kind=kind: records.revision(kind), changes)
        assert self.run(self.disk.verify()).findings == ()


RecordsAgree.TestCase.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
TestRecordsAgree = RecordsAgree.TestCase
