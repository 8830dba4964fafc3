"""Views load from a snapshot and the entries after it, and are the same without one."""

import asyncio

import pytest

from timeloom.core.blocks import ConversationStarted, Erased, ResultContent, SourcesAdded, UserPrompt
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.core.view.views import fold
from timeloom.runtime.read.export import export_sources, export_timeline
from timeloom.runtime.session import load_views as module
from timeloom.runtime.session.load_views import load_views, load_views_at
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.wire.snapshot import SNAPSHOT_VERSION, encode_views

TS = "2026-02-09T02:14:32.676425Z"
CONVERSATION = ConversationId("conv_1")
HEADER = Draft(NO_TURN, TS, ConversationStarted(tenant="t", project="p", user="u"))
PROMPT = Draft(TurnId("turn_1"), TS, UserPrompt(text="hello"))


async def stored(entries: int) -> MemoryStore:
    store = MemoryStore()
    await store.append(CONVERSATION, 0, [HEADER, *[PROMPT] * (entries - 1)])
    return store


def test_a_long_conversation_leaves_a_snapshot_and_goes_on_from_it() -> None:
    async def check() -> None:
        store = await stored(module.SNAPSHOT_AFTER + 5)
        first = await load_views(store, CONVERSATION)
        assert await store.load_snapshot(CONVERSATION, SNAPSHOT_VERSION)
        await store.append(CONVERSATION, first.tail, [PROMPT])
        second = await load_views(store, CONVERSATION)
        await store.drop_snapshots()
        assert encode_views(second) == encode_views(await load_views(store, CONVERSATION))

    asyncio.run(check())


@pytest.mark.parametrize("seq", [1, 1_999, 2_000, 2_001, 4_500, 4_999, 5_003])
def test_views_of_a_past_place_are_the_fold_up_to_there_and_are_kept_near_it(seq: int) -> None:
    async def check() -> None:
        store = await stored(5_003)
        past = fold(await store.load(CONVERSATION, limit=seq))
        assert encode_views(await load_views_at(store, CONVERSATION, seq)) == encode_views(past)
        mark = seq - seq % module.SNAPSHOT_AFTER
        kept = await store.load_snapshot(CONVERSATION, f"{SNAPSHOT_VERSION}@{mark}")
        assert (kept[0] if kept else 0) == mark
        assert encode_views(await load_views_at(store, CONVERSATION, seq)) == encode_views(past)

    asyncio.run(check())


def test_a_past_place_begins_at_an_earlier_mark_or_at_the_newest_snapshot() -> None:
    async def check() -> None:
        store = await stored(4_500)
        await load_views_at(store, CONVERSATION, 2_500)
        past = await load_views_at(store, CONVERSATION, 4_400)
        await store.drop_snapshots()
        await load_views(store, CONVERSATION)
        assert (await load_views_at(store, CONVERSATION, 4_500)).tail == 4_500
        assert encode_views(await load_views_at(store, CONVERSATION, 4_400)) == encode_views(past)
        assert await store.drop_snapshots() == 2

    asyncio.run(check())


def test_marks_are_few_however_long_the_way_is() -> None:
    spacing = module._snapshot_spacing  # pyright: ignore[reportPrivateUsage]
    assert [spacing(seq) for seq in (1, 16_000, 16_001, 100_000)] == [2_000, 2_000, 4_000, 16_000]


class Erasing(MemoryStore):
    """A store in which something is erased while its views are folded."""

    async def save_snapshot(self, conversation: ConversationId, seq: int, version: str, data: bytes) -> None:
        await super().save_snapshot(conversation, seq, version, data)
        tail = (await self.info(conversation)).tail
        await self.append(conversation, tail, [Draft(NO_TURN, TS, Erased(by="somebody"))])


def test_nothing_is_kept_of_a_past_place_while_something_is_erased() -> None:
    async def check() -> None:
        store = Erasing()
        await store.append(CONVERSATION, 0, [HEADER, *[PROMPT] * 2_500])
        assert (await load_views_at(store, CONVERSATION, 2_100)).tail == 2_100
        assert await store.drop_snapshots() == 0

    asyncio.run(check())


@pytest.mark.parametrize("data", [b"damaged", None])
def test_a_snapshot_that_is_not_what_it_says_is_folded_anew(data: bytes | None) -> None:
    async def check() -> None:
        store = await stored(3)
        views = await load_views(store, CONVERSATION)
        assert await store.load_snapshot(CONVERSATION, SNAPSHOT_VERSION) is None
        await store.save_snapshot(CONVERSATION, 2, SNAPSHOT_VERSION, data or encode_views(views))
        assert encode_views(await load_views(store, CONVERSATION)) == encode_views(views)

    asyncio.run(check())


def test_an_export_has_its_payloads_in_place() -> None:
    async def check() -> None:
        store = await stored(1)
        row = SourceRow(sid=1, source_type="web", url="https://a.example/", content="body " * 5000)
        content = ResultContent(
            tool_call_id=CallId("c1"), artifact_path="fi:turn_1.files/a.png", mime="image/png", data=b"\x89PNG"
        )
        blocks = [SourcesAdded(rows=(row,)), content]
        await store.append(CONVERSATION, 1, [Draft(TurnId("turn_1"), TS, block) for block in blocks])
        timeline = b"".join([piece async for piece in export_timeline(store, CONVERSATION)])
        pool = b"".join([piece async for piece in export_sources(store, CONVERSATION)])
        assert b'"base64":"iVBORw=="' in timeline
        assert b"blobs" not in timeline
        assert pool.count(b"body ") == 5000

    asyncio.run(check())
