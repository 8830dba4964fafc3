"""The rendered prompt is stored, so that a restart renders only what is new."""

import weakref
from collections.abc import Sequence

import pytest

from tests.harness.turn import HEADER, run
from timeloom.app import open_session
from timeloom.core.blocks import (
    AnyBlock,
    Erased,
    Hidden,
    ModelCalled,
    Pruned,
    RoundStarted,
    Thinking,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.blocks.forgetting import Cut
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.policy.next_step import AskModel
from timeloom.core.render.prompt import PromptView
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.core.view.views import fold
from timeloom.ports.model import Segment
from timeloom.runtime.prompt.builder import PromptBuilder, PromptSettings, build_system_text
from timeloom.runtime.prompt.prompt_snapshot import SAVE_AFTER, save_prompt_snapshot
from timeloom.runtime.prompt.request import PromptRequest
from timeloom.runtime.session.session import Session
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.wire.prompt_snapshot import head_version, page_version

HEAD, FIRST_PAGE = head_version(2), page_version(2, 0)

TURN = TurnId("turn_1")
ASK = AskModel(1, 1, last=False)
SYSTEM = build_system_text((), PromptSettings())


class ReadingStore(MemoryStore):
    """Counts the entries and payloads that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []
        self.payloads = 0

    async def load(self, conversation: ConversationId, after: int = 0, limit: int | None = None) -> list[Entry]:
        found = await super().load(conversation, after, limit)
        self.read += [entry.seq for entry in found]
        return found

    async def read_blob(self, tenant: str, ref: BlobRef) -> bytes:
        self.payloads += 1
        return await super().read_blob(tenant, ref)


def rounds(count: int) -> list[AnyBlock]:
    return [
        block
        for n in range(1, count + 1)
        for block in (
            RoundStarted(round=n),
            Thinking(round=n, text=f"thought {n}"),
            ModelCalled(round=n, model="m", request_sha256="x", seen=1),
        )
    ]


async def open_long(store: MemoryStore, *more: AnyBlock) -> Session:
    session = await open_session(store, None, HEADER)
    await session.append([TurnStarted(n=1), UserPrompt(text="hello"), *rounds(SAVE_AFTER // 3), *more], TURN)
    return session


async def build(session: Session) -> PromptRequest:
    builder = PromptBuilder(session, SYSTEM, PromptSettings(model="m"), observers=[])
    return await builder.build_prompt(session, ASK)


def cacheable(prompt: PromptRequest) -> Sequence[Segment]:
    """The segments without the tail, which shows the time."""
    return prompt.request.segments[:-1]


def test_a_restart_reads_only_the_entries_after_the_snapshot() -> None:
    async def check() -> None:
        store = ReadingStore()
        session = await open_long(store)
        first = await build(session)
        stored = session.views.tail
        await session.append([Hidden(target="ar:turn_1.react.thinking.7", replacement="short")], TURN)
        await session.append([Pruned(cuts=(Cut(20, 40, "card"),)), *rounds(3)], TURN)
        store.read.clear()
        after = await build(session)
        assert store.read == list(range(stored + 1, session.views.tail + 1))
        await store.drop_snapshots()
        assert cacheable(first) != cacheable(after) == cacheable(await build(session))

    run(check)


def test_entries_that_are_no_longer_visible_are_not_rendered_again() -> None:
    async def check() -> None:
        store = ReadingStore()
        session = await open_long(store)
        await build(session)
        tail = session.views.tail
        await session.append([UserPrompt(text="long " * 10_000), Pruned(cuts=(Cut(tail + 1, tail + 1),))], TURN)
        store.payloads = 0
        assert "long long" not in str((await build(session)).request.segments)
        assert store.payloads == 0

    run(check)


def test_a_short_conversation_has_no_snapshot_of_its_prompt() -> None:
    async def check() -> None:
        store = MemoryStore()
        session = await open_session(store, None, HEADER)
        await session.append([TurnStarted(n=1), UserPrompt(text="hello")], TURN)
        await build(session)
        assert await session.load_snapshot(HEAD) is None

    run(check)


def test_what_was_mostly_forgotten_is_rendered_from_what_is_left() -> None:
    async def check() -> None:
        store = ReadingStore()
        session = await open_long(store)
        await build(session)
        await session.append([*rounds(400), Pruned(cuts=(Cut(3, 3_000, "card"),))], TURN)
        store.read.clear()
        await build(session)
        assert len(store.read) < 400

    run(check)


@pytest.mark.parametrize("damaged", [HEAD, FIRST_PAGE])
def test_a_damaged_snapshot_is_rendered_again(damaged: str) -> None:
    async def check() -> None:
        store = ReadingStore()
        session = await open_long(store)
        await build(session)
        await session.append(rounds(1), TURN)
        for version in (HEAD, FIRST_PAGE):
            found = await session.load_snapshot(version)
            assert found
            await session.save_snapshot(session.views.tail, version, b"?" if version == damaged else found[1])
        store.read.clear()
        await build(session)
        assert len(store.read) == session.views.tail

    run(check)


def test_pages_of_another_time_are_not_used() -> None:
    async def check() -> None:
        store = ReadingStore()
        session = await open_long(store)
        await build(session)
        found = await session.load_snapshot(FIRST_PAGE)
        assert found
        await session.append(rounds(1), TURN)
        await session.save_snapshot(session.views.tail, FIRST_PAGE, found[1])
        store.read.clear()
        await build(session)
        assert len(store.read) == session.views.tail

    run(check)


def test_a_snapshot_from_before_an_erasure_is_not_used() -> None:
    async def check() -> None:
        store = ReadingStore()
        session = await open_long(store)
        await build(session)
        await session.append([Erased(by="u")], TURN)
        store.read.clear()
        await build(session)
        assert len(store.read) > SAVE_AFTER

    run(check)


def test_a_snapshot_that_is_saved_after_an_erasure_elsewhere_is_dropped() -> None:
    async def check() -> None:
        store = MemoryStore()
        session = await open_long(store)
        tail = session.views.tail
        erased = Draft(TURN, session.now(), Erased(by="u"))
        await session.close()
        await store.append(session.conversation, tail, [erased])
        await session.save_snapshot(tail, "some", b"with erased text")
        assert await session.load_snapshot("some") is None

    run(check)


def test_a_prompt_without_a_utf8_form_is_not_stored() -> None:
    async def check() -> None:
        session = await open_long(MemoryStore())
        entry = to_entry(Draft(TURN, session.now(), Thinking(round=1, text="\ud800")), 1)
        view = PromptView()
        view.add(entry, fold([entry]))
        await save_prompt_snapshot(session, view)
        assert await session.load_snapshot(HEAD) is None

    run(check)


def test_a_session_does_not_keep_a_builder_that_is_no_longer_used() -> None:
    async def check() -> None:
        session = await open_long(MemoryStore())
        builder = PromptBuilder(session, SYSTEM, PromptSettings(model="m"), observers=[])
        view = weakref.ref(await builder.render())
        assert view()
        del builder
        assert view() is None
        await session.append(rounds(1), TURN)

    run(check)
