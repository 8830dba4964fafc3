"""Compactions on request through the hub: at once, during a turn, with a message meanwhile, and after a restart."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness.context import LOOK_WORDS, assert_replays, turn_replies
from tests.harness.hub import DelayedStore, HubHarness, wait_until_idle
from tests.harness.replies import answers
from tests.harness.turn import HEADER, Step, calls, run
from timeloom.core.blocks import CompactionEnded, CompactionRequested, ModelCalled, RangeSummary, TurnEnded
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, MessageId
from timeloom.core.timeline import Draft, Entry
from timeloom.core.view.progress import CANCEL_EVENT
from timeloom.ports.leases import Lease
from timeloom.ports.model import Model
from timeloom.ports.store import StoreError
from timeloom.runtime.hub.events import ChatBlock, ConvStatus
from timeloom.runtime.hub.hub import Hub, HubSettings
from timeloom.runtime.hub.state import COMPACT_EVENT, IncomingMessage, SendStatus
from timeloom.runtime.session.session import Session
from timeloom.testing import ScriptedModel

PROSE: Step = {"reply": "The user looks at things.", "when": "compaction", "repeat": True}
SLOW: Step = {"reply": "never", "chunk": 1, "delay_ms": 60_000, "when": "compaction"}
REQUEST = MessageId("r1")


def make_harness(tmp_path: Path, *steps: str | Step, prose: Step = PROSE) -> HubHarness:
    harness = HubHarness(tmp_path, *turn_replies(LOOK_WORDS) * 3, *steps)
    harness.summary_model = summary_model(prose)
    return harness


def summary_model(prose: Step) -> Model:
    return ScriptedModel.from_text(str([prose]).replace("True", "true"))


async def start(hub: Hub, harness: HubHarness) -> ConversationId:
    name = (await hub.start_conversation(HEADER, "ask 1")).conversation_id
    await wait_until_idle(hub, harness, name)
    for n in (2, 3):
        await hub.send_message(name, f"ask {n}")
        await wait_until_idle(hub, harness, name)
    return name


async def request(hub: Hub, name: ConversationId, request_id: MessageId = REQUEST) -> SendStatus:
    sent = IncomingMessage(kind=COMPACT_EVENT, text="the prices", request_id=request_id)
    return (await hub.send_event(name, sent)).status


def when_stored(session: Session, kind: type) -> asyncio.Event:
    stored = asyncio.Event()
    session.listen(lambda entry: stored.set() if isinstance(entry.block, kind) else None)
    return stored


async def count(harness: HubHarness, name: ConversationId, kind: type) -> int:
    return sum(isinstance(block, kind) for block in await harness.blocks(name))


def test_a_conversation_without_a_turn_is_compacted_at_once(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, *turn_replies(9))
        async with harness.hub() as hub:
            name = await start(hub, harness)
            ended = await hub.compact(name, focus="the prices")
            assert (ended.outcome, ended.turns) == ("completed", 2)
            ended = await hub.compact(name)
            assert ended.outcome == "skipped"
            await hub.send_message(name, "ask 4")
            await wait_until_idle(hub, harness, name)
            assert await count(harness, name, RangeSummary) == 1
            await assert_replays(harness, harness.opened[-1])

    run(check)


def test_a_request_that_is_sent_again_is_answered_with_its_outcome(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path)
        async with harness.hub() as hub:
            name = await start(hub, harness)
            assert await request(hub, name) == "compacting"
            first = await hub.compact(name, request_id=REQUEST)
            assert await request(hub, name) == "compacted"
            assert await hub.compact(name, request_id=REQUEST) == first
            assert await count(harness, name, CompactionRequested) == 1

    run(check)


def test_a_request_while_a_turn_runs_is_queued_for_its_next_round(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, calls("t.wait"), answers("done"))
        async with harness.hub() as hub:
            name = await start(hub, harness)
            await hub.send_message(name, "ask 4")
            await harness.waiting.wait()
            assert await request(hub, name) == "queued"
            waiting = asyncio.create_task(hub.compact(name, request_id=REQUEST))
            await hub.send_event(name, IncomingMessage(kind="steer", text="go on"))
            assert (await waiting).outcome == "completed"
            await wait_until_idle(hub, harness, name)
            kinds = [type(one) for one in await harness.blocks(name) if isinstance(one, RangeSummary | TurnEnded)]
            assert kinds[-2:] == [RangeSummary, TurnEnded]

    run(check)


def test_a_message_during_a_compaction_does_not_wait_for_the_summary(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, answers("done"), prose=SLOW)
        async with harness.hub() as hub:
            name = await start(hub, harness)
            assert await request(hub, name) == "compacting"
            receipt = await hub.send_message(name, "ask 4")
            assert receipt.status == "started"
            assert await count(harness, name, CompactionEnded) == 0
            # A steer interrupts the summary, and the same task takes up the turn.
            await hub.send_event(name, IncomingMessage(kind="steer", text="quickly"))
            await wait_until_idle(hub, harness, name)
            assert await count(harness, name, CompactionEnded) == 1
            assert (await count(harness, name, TurnEnded), await count(harness, name, RangeSummary)) == (4, 1)
            await assert_replays(harness, harness.opened[-1])

    run(check)


def test_a_request_that_a_stopped_hub_left_is_carried_out_with_the_next_message(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, answers("done"), prose=SLOW)
        async with harness.hub() as hub:
            name = await start(hub, harness)
            assert await request(hub, name) == "compacting"
        assert await count(harness, name, CompactionEnded) == 0
        harness.summary_model = summary_model(PROSE)
        async with harness.hub() as hub:
            await hub.send_message(name, "ask 4")
            await wait_until_idle(hub, harness, name)
            assert await request(hub, name) == "compacted"
        assert await count(harness, name, RangeSummary) == 1

    run(check)


def test_a_request_that_a_stopped_hub_left_is_carried_out_when_the_conversation_is_read(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, prose=SLOW)
        async with harness.hub() as hub:
            name = await start(hub, harness)
            assert await request(hub, name) == "compacting"
        harness.summary_model = summary_model(PROSE)
        info = await harness.store.info(name)
        async with harness.hub() as hub:
            async with hub.stream(info, info.tail) as (_, events):
                async for event in events:
                    if isinstance(event, ChatBlock) and b"react.compact.end" in bytes(event.block):
                        break
            assert await request(hub, name) == "compacted"
        assert await count(harness, name, RangeSummary) == 1

    run(check)


def test_a_request_that_a_stopped_hub_left_is_carried_out_at_the_next_start(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, prose=SLOW)
        async with harness.hub() as hub:
            name = await start(hub, harness)
            assert await request(hub, name) == "compacting"
        assert await harness.store.open_turns() == [name]
        harness.summary_model = summary_model(PROSE)
        async with harness.hub() as hub:
            assert (await hub.status(name)).state == "interrupted"
            await hub.resume_open_turns()
            assert (await hub.status(name)).state == "idle"
        assert await count(harness, name, RangeSummary) == 1
        assert await harness.store.open_turns() == []

    run(check)


def test_the_status_is_running_until_a_requested_compaction_has_its_outcome(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, prose=SLOW)
        async with harness.hub() as hub:
            name = await start(hub, harness)
            assert await request(hub, name) == "compacting"
            assert (await hub.status(name)).state == "running"
            await hub.send_event(name, IncomingMessage(kind="steer"))
            await wait_until_idle(hub, harness, name)
            assert await count(harness, name, CompactionEnded) == 1

    run(check)


def test_a_reader_leaves_a_request_to_the_process_that_holds_the_conversation(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, prose=SLOW)
        async with harness.hub() as hub, harness.hub() as other:
            name = await start(hub, harness)
            assert await request(hub, name) == "compacting"
            async with other.stream(await harness.store.info(name), 0) as (_, events):
                assert isinstance(await anext(events), ConvStatus)
            assert await count(harness, name, CompactionEnded) == 0
            assert len(harness.opened) == 1

    run(check)


class ReadOnlyStore(DelayedStore):
    """A store that grants no lease once its disk is read-only."""

    is_read_only = False

    async def acquire(self, conversation: ConversationId, holder: str) -> Lease:
        if self.is_read_only:
            raise StoreError("store_unwritable", "the disk is read-only")
        return await super().acquire(conversation, holder)


def test_a_conversation_can_be_read_although_its_open_request_cannot_be_carried_out(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, prose=SLOW)
        harness.store = store = ReadOnlyStore()
        async with harness.hub() as hub:
            name = await start(hub, harness)
            assert await request(hub, name) == "compacting"
        store.is_read_only = True
        async with harness.hub() as hub, hub.stream(await store.info(name), 0) as (_, events):
            status = await anext(events)
            assert isinstance(status, ConvStatus)
            assert status.state == "interrupted"
            assert isinstance(await anext(events), ChatBlock)

    run(check)


def test_a_stop_interrupts_the_summary_of_a_compaction_without_a_turn(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, prose=SLOW)
        async with harness.hub() as hub:
            name = await start(hub, harness)
            waiting = asyncio.create_task(hub.compact(name, request_id=REQUEST))
            await when_stored(harness.opened[-1].session, ModelCalled).wait()
            with pytest.raises(CodedError, match="a turn or a compaction is running"):
                async with hub.release_temporarily(name):
                    pass
            with pytest.raises(CodedError, match="no turn of"):
                await hub.send_event(name, IncomingMessage(kind=CANCEL_EVENT, text="why"))
            assert (await hub.send_event(name, IncomingMessage(kind="steer"))).status == "steered"
            ended = await waiting
            assert (ended.outcome, ended.text) == (
                "completed",
                "no model wrote the summary: the user changed course",
            )
            await wait_until_idle(hub, harness, name)
            with pytest.raises(CodedError, match="no turn of"):
                await hub.send_event(name, IncomingMessage(kind="steer"))

    run(check)


class PausedStore(DelayedStore):
    """A store whose reads are held up after the end of a turn."""

    def __init__(self) -> None:
        super().__init__()
        self.is_paused = False
        self.is_read, self.may_read = asyncio.Event(), asyncio.Event()

    async def append(
        self, conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], lease: Lease | None = None
    ) -> tuple[Entry, ...]:
        self.is_paused = any(isinstance(draft.block, TurnEnded) for draft in drafts)
        return await super().append(conversation, expected_tail, drafts, lease)

    async def load(self, conversation: ConversationId, after: int = 0, limit: int | None = None) -> list[Entry]:
        if self.is_paused:
            self.is_read.set()
            await self.may_read.wait()
        return await super().load(conversation, after, limit)


def test_a_request_that_comes_while_a_turn_gets_its_title_is_carried_out(tmp_path: Path) -> None:
    async def check() -> None:
        harness = HubHarness(tmp_path, answers("Nothing was asked."))
        harness.store = store = PausedStore()
        async with harness.hub() as hub:
            # A title is made of the answer, which is read from the store, because the message has no words.
            receipt = await hub.start_conversation(HEADER, "?")
            await store.is_read.wait()
            ended = when_stored(harness.opened[-1].session, CompactionEnded)
            assert await request(hub, receipt.conversation_id) == "compacting"
            store.may_read.set()
            await ended.wait()

    run(check)


def test_waiting_for_a_compaction_ends_with_the_hub(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, prose=SLOW)
        hub = harness.hub(HubSettings(grace_s=0.0))
        name = await start(hub, harness)
        waiting = asyncio.create_task(hub.compact(name, request_id=REQUEST))
        await when_stored(harness.opened[-1].session, ModelCalled).wait()
        await hub.close()
        with pytest.raises(CodedError) as ended:
            await waiting
        assert ended.value.code == "server_closing"

    run(check)
