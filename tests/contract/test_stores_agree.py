"""The stores on disk and in memory answer every sequence of operations alike."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TypeVar, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    Completion,
    Erased,
    Thinking,
    Titled,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.blocks.redact import redact_block
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.payload import ref_of
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.leases import Lease
from timeloom.ports.reader import ConversationQuery
from timeloom.ports.store import Store
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing.store_contract.fixtures import PATH, draft, header

T = TypeVar("T")

NAMES = [ConversationId(f"conv_{letter}") for letter in "abc"]
TENANTS = ["t", "T", "../t"]
WORDS = ["alpha", "Béta", "gamma ray", "large " * 3000]
DATA = [b"", b"one", b"two" * 9000]

names = st.sampled_from(NAMES)
# By number: a failure's report shows every value that could be drawn.
words = st.integers(0, len(WORDS) - 1).map(lambda n: WORDS[n])
data = st.integers(0, len(DATA) - 1).map(lambda n: DATA[n])
blocks: st.SearchStrategy[AnyBlock] = st.one_of(
    st.builds(UserPrompt, text=words),
    st.builds(Completion, text=words),
    st.builds(Titled, text=words),
    st.builds(Thinking, round=st.just(1), text=words),
    st.sampled_from([TurnStarted(n=1), TurnEnded(reason="completed")]),
    st.builds(Attachment, artifact_path=st.just(PATH), mime=st.just("a/b"), data=data),
    st.builds(Attachment, artifact_path=st.just(PATH), mime=st.just("a/b"), data=data.map(ref_of)),
)
drafts = st.builds(draft, blocks, st.integers(0, 3599))


def without_hashes(answer: object) -> object:
    """Return the answer without the hashes of erased forms: their salts are random."""
    if isinstance(answer, list):
        return [without_hashes(each) for each in cast(list[object], answer)]
    if not isinstance(answer, Entry) or not isinstance(answer.block, Erased):
        return answer
    forms = tuple(replace(form, hash="") for form in answer.block.forms)
    return replace(answer, block=replace(answer.block, forms=forms))


class StoresAgree(RuleBasedStateMachine):
    """Does the same to both stores and compares every answer, errors included."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        self.memory: Store = MemoryStore()
        self.disk: Store = self.run(SqliteStore.open(self.folder))
        self.leases: list[dict[Store, Lease]] = []

    def teardown(self) -> None:
        self.run(self.disk.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    def run(self, work: Coroutine[None, None, T]) -> T:
        return self.runner.run(work)

    def same(self, ask: str | Callable[[Store], Awaitable[object]], *values: object) -> None:
        async def answer(store: Store) -> object:
            try:
                return without_hashes(await getattr(store, ask)(*values) if isinstance(ask, str) else await ask(store))
            except CodedError as error:
                return error.code

        assert self.run(answer(self.disk)) == self.run(answer(self.memory))

    @rule(name=names, tenant=st.sampled_from(TENANTS), more=st.lists(drafts, max_size=3))
    def begin(self, name: ConversationId, tenant: str, more: list[Draft]) -> None:
        self.same("append", name, 0, [header(tenant=tenant), *more])

    @rule(name=names, some=st.lists(drafts, max_size=3), off_by=st.sampled_from([0, 0, 0, -1, 1]))
    def go_on(self, name: ConversationId, some: list[Draft], off_by: int) -> None:
        async def append(store: Store) -> object:
            tail = (await store.info(name)).tail
            return await store.append(name, max(1, tail + off_by), some)

        self.same(append)

    @rule(name=names)
    def acquire(self, name: ConversationId) -> None:
        taken: dict[Store, Lease] = {}

        async def acquire(store: Store) -> object:
            taken[store] = await store.acquire(name, "holder")
            return taken[store].holder

        self.same(acquire)
        if taken:
            self.leases.append(taken)

    @precondition(lambda self: self.leases)
    @rule(at=st.integers(0, 9))
    def release(self, at: int) -> None:
        leases = self.leases[at % len(self.leases)]
        self.same(lambda store: store.release(leases[store]))

    @precondition(lambda self: self.leases)
    @rule(at=st.integers(0, 9), some=st.lists(drafts, max_size=2))
    def go_on_with_lease(self, at: int, some: list[Draft]) -> None:
        leases = self.leases[at % len(self.leases)]

        async def append(store: Store) -> object:
            lease = leases[store]
            tail = (await store.info(lease.conversation)).tail
            return await store.append(lease.conversation, tail, some, lease)

        self.same(append)

    @rule(name=names)
    def delete(self, name: ConversationId) -> None:
        self.same("delete", name)

    @rule(name=names, seqs=st.sets(st.integers(2, 6), min_size=1), scrub=st.booleans())
    def erase(self, name: ConversationId, seqs: set[int], scrub: bool) -> None:
        async def erase(store: Store) -> object:
            entries = [entry for entry in await store.load(name) if entry.seq in seqs]
            gone = [replace(entry, block=redact_block(entry.block)) for entry in entries]
            recorded = await store.erase(name, (await store.info(name)).tail, gone, draft(Erased(by="somebody")))
            if scrub:
                await store.scrub()
            return recorded

        self.same(erase)

    @rule(name=names, seq=st.integers(1, 8), data=data, version=st.sampled_from(["v1", "v2"]))
    def snapshot(self, name: ConversationId, seq: int, data: bytes, version: str) -> None:
        self.same("save_snapshot", name, seq, version, data)
        self.same("load_snapshot", name, "v1")

    @rule(tenant=st.sampled_from(TENANTS), words=st.sampled_from(["", "al", "beta gam", "ray LARGE", "none", "-"]))
    def search(self, tenant: str, words: str) -> None:
        for limit in (1, 50):
            self.same("conversations", ConversationQuery(tenant=tenant, words=words, limit=limit))

    @rule()
    def open_again(self) -> None:
        for leases in self.leases:
            self.run(self.memory.release(leases[self.memory]))
        self.leases.clear()
        self.run(self.disk.close())
        self.disk = self.run(SqliteStore.open(self.folder))

    @invariant()
    def both_hold_the_same(self) -> None:
        for name in NAMES:
            self.same("load", name)
            self.same("info", name)
        for tenant in TENANTS:
            for data in DATA:
                self.same("read_blob", tenant, ref_of(data))
        self.same("open_turns")
        self.same("verify")


StoresAgree.TestCase.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
TestStoresAgree = StoresAgree.TestCase
