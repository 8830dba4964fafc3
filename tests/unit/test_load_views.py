"""Views load from a snapshot and the entries after it, and are the same without one."""

import asyncio

import pytest

from timeloom.core.blocks import ConversationStarted, ResultContent, SourcesAdded, UserPrompt
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.runtime import load_views as module
from timeloom.runtime.export import export_sources, export_timeline
from timeloom.runtime.load_views import load_views
from timeloom.stores.memory import MemoryStore
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
