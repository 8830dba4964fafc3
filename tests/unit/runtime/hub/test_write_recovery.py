"""A full disk: turns that it stopped are resumed once a write succeeds, a bounded number of times."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.harness.full_disk import FullDisk, store_on_full_disk
from tests.harness.hub import HubHarness
from tests.harness.replay import run_replay
from tests.harness.replies import answers
from tests.harness.turn import HEADER, Step, calls, run
from timeloom.core.blocks import ConversationStarted, Followup, TurnEnded
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.leases import ConversationHeldError
from timeloom.ports.tool import ToolContext
from timeloom.runtime.hub.events import ChatError, ConvStatus
from timeloom.runtime.hub.hub import Hub, HubSettings
from timeloom.runtime.hub.state import IncomingMessage
from timeloom.runtime.hub.write_recovery import MAX_RESUMES, WriteRecovery
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.sqlite import SqliteStore
from timeloom.tools.define import tool

QUICK = (0.01,) * 10_000


class DiskHarness(HubHarness):
    """A hub harness whose store is in a folder on a disk that can be full; the tool `t.fill` fills it."""

    def __init__(self, tmp_path: Path, store: SqliteStore, disk: FullDisk, *steps: str | Step) -> None:
        super().__init__(tmp_path, *steps)
        self.disk_store = store

        async def fill(context: ToolContext) -> str:
            """Fills the disk."""
            disk.is_full = not self.effects
            self.effects.append(context.tool_call_id)
            return "full"

        async def large(context: ToolContext) -> str:
            """Returns a large text."""
            self.effects.append(context.tool_call_id)
            return "large " * 20_000

        self.is_reopening, self.can_reopen = asyncio.Event(), asyncio.Event()
        """A test clears the second to stop a reopening that has taken the lease, and waits for the first."""
        self.can_reopen.set()
        self.extra = (tool("t.fill", effect="pure")(fill), tool("t.large", effect="pure")(large))

    def hub(self, settings: HubSettings | None = None) -> Hub:
        return Hub(self.disk_store, self._open_stored, SystemClock(), RandomIds(), settings)

    async def _open_stored(
        self, conversation: ConversationId, header: ConversationStarted | None, hear: Callable[[LiveDelta], None]
    ) -> TurnRunner:
        clock, ids = SystemClock(), RandomIds()
        if header:
            return await self.open(await Session.start_deferred(self.disk_store, conversation, header, clock, ids))
        turns = await self.open(await Session.resume(self.disk_store, conversation, clock, ids))
        self.is_reopening.set()
        await self.can_reopen.wait()
        return turns


@asynccontextmanager
async def on_disk(tmp_path: Path, *steps: str | Step) -> AsyncGenerator[tuple[DiskHarness, FullDisk]]:
    async with store_on_full_disk(tmp_path / "data") as (store, disk):
        yield DiskHarness(tmp_path, store, disk, *steps), disk


async def wait_for(hub: Hub, stage: DiskHarness, name: ConversationId, wanted: str) -> list[ChatError]:
    """Read the conversation until it is in that state, and return the errors meanwhile."""
    errors: list[ChatError] = []
    async with asyncio.timeout(60), hub.stream(await stage.disk_store.info(name), 0) as (_, events):
        async for event in events:
            if isinstance(event, ChatError):
                errors.append(event)
            if isinstance(event, ConvStatus) and event.state == wanted:
                return errors
    raise AssertionError(f"the stream ended: {errors}")


@pytest.mark.parametrize("rest_s", [60.0, 0.0], ids=["open", "released"])
def test_a_turn_that_a_full_disk_interrupted_resumes_by_itself(tmp_path: Path, rest_s: float) -> None:
    async def check() -> None:
        async with (
            on_disk(tmp_path, calls("t.fill"), answers("Done.")) as (stage, disk),
            stage.hub(HubSettings(grace_s=0, rest_s=rest_s, write_retry_delays_s=QUICK)) as hub,
        ):
            name = (await hub.start_conversation(HEADER, "go")).conversation_id
            await wait_for(hub, stage, name, "interrupted")
            assert hub.last_write_failed
            with pytest.raises(CodedError, match="full"):
                await hub.send_message(name, "are you there?")
            assert (await hub.status(name)).state == "interrupted"
            disk.is_full = False
            await wait_for(hub, stage, name, "idle")
            assert not hub.last_write_failed
            blocks = [entry.block for entry in await stage.disk_store.load(name)]
            assert [one.reason for one in blocks if isinstance(one, TurnEnded)] == ["completed"]
            assert not [one for one in blocks if isinstance(one, Followup)]
            replayed, findings = await run_replay(stage.disk_store, name)
            assert {one.verdict for one in replayed} == {"same"}
            assert findings == []

    run(check)


def test_turns_wait_for_the_next_entry_that_is_stored_after_the_last_attempt(tmp_path: Path) -> None:
    async def check() -> None:
        settings = HubSettings(grace_s=0, write_retry_delays_s=(0.001, 0.001))
        async with (
            on_disk(tmp_path, calls("t.fill"), answers("Done."), answers("Hello.")) as (stage, disk),
            stage.hub(settings) as hub,
        ):
            name = (await hub.start_conversation(HEADER, "go")).conversation_id
            await wait_for(hub, stage, name, "interrupted")
            disk.is_full = False
            other = await hub.start_conversation(HEADER, "hello")
            await wait_for(hub, stage, name, "idle")
            await wait_for(hub, stage, other.conversation_id, "idle")

    run(check)


def test_a_failed_turn_is_shown_as_interrupted_while_its_conversation_is_reopened(tmp_path: Path) -> None:
    async def check() -> None:
        async with (
            on_disk(tmp_path, calls("t.fill"), answers("Done.")) as (stage, disk),
            stage.hub(HubSettings(grace_s=0, write_retry_delays_s=())) as hub,
        ):
            name = (await hub.start_conversation(HEADER, "go")).conversation_id
            await wait_for(hub, stage, name, "interrupted")
            disk.is_full = False
            stage.can_reopen.clear()
            sent = asyncio.create_task(hub.send_message(name, "are you there?"))
            await stage.is_reopening.wait()
            seen = await stage.disk_store.is_held(name), (await hub.status(name)).state
            stage.can_reopen.set()
            await sent
            assert seen == (True, "interrupted")
            await wait_for(hub, stage, name, "idle")

    run(check)


def test_a_disk_without_room_for_a_result_does_not_repeat_the_turn_without_end(tmp_path: Path) -> None:
    async def check() -> None:
        steps = [calls("t.large")] * 20
        async with (
            on_disk(tmp_path, *steps) as (stage, disk),
            stage.hub(HubSettings(grace_s=0, write_retry_delays_s=QUICK)) as hub,
        ):
            disk.max_bytes = 100_000
            receipt, stream = await hub.start_and_stream(HEADER, "go")
            name, stops = receipt.conversation_id, 0
            async with asyncio.timeout(60), stream as (_, events):
                while stops <= MAX_RESUMES:
                    event = await anext(events)
                    stops += isinstance(event, ConvStatus) and event.state == "interrupted"
            # Entries of other conversations do not make it begin again.
            await hub.create_empty(HEADER)
            assert (await hub.status(name)).state == "interrupted"
            assert len(stage.effects) == MAX_RESUMES + 1
            disk.max_bytes = None
            await hub.send_event(name, IncomingMessage(kind="steer"))
            await wait_for(hub, stage, name, "idle")

    run(check)


def test_a_turn_that_a_full_disk_keeps_from_being_resumed_at_the_start_is_resumed_later(tmp_path: Path) -> None:
    async def check() -> None:
        async with on_disk(tmp_path, calls("t.wait"), answers("Done.")) as (stage, disk):
            async with stage.hub(HubSettings(grace_s=0)) as hub:
                name = (await hub.start_conversation(HEADER, "go")).conversation_id
                await stage.waiting.wait()
            stage.extra = (tool("t.wait", effect="pure")(_look),)
            disk.is_full = True
            async with stage.hub(HubSettings(grace_s=0, write_retry_delays_s=QUICK)) as hub:
                await hub.resume_open_turns()
                assert (await hub.status(name)).state == "interrupted"
                disk.is_full = False
                await wait_for(hub, stage, name, "idle")

    run(check)


async def _look() -> str:
    """Looks."""
    return "seen"


def test_a_lease_that_ended_on_a_full_disk_can_be_had_again_and_by_others_after_the_next_write(tmp_path: Path) -> None:
    async def check() -> None:
        async with on_disk(tmp_path) as (stage, disk), await SqliteStore.open(tmp_path / "data") as other:
            store = stage.disk_store
            one = await Session.start(store, ConversationId("conv_1"), HEADER, SystemClock(), RandomIds())
            two = await Session.start(store, ConversationId("conv_2"), HEADER, SystemClock(), RandomIds())
            disk.is_full = True
            await one.close()
            await two.close()
            assert not await store.is_held(one.conversation)
            with pytest.raises(ConversationHeldError):
                await other.acquire(one.conversation, "another")
            disk.is_full = False
            again = await Session.resume(store, one.conversation, SystemClock(), RandomIds())
            await other.release(await other.acquire(two.conversation, "another"))
            with pytest.raises(ConversationHeldError):
                await other.acquire(again.conversation, "another")
            await again.close()

    run(check)


def test_a_turn_that_another_process_took_over_is_not_resumed_here() -> None:
    async def check() -> None:
        tried: asyncio.Queue[ConversationId] = asyncio.Queue()

        async def resume(conversation: ConversationId) -> None:
            tried.put_nowait(conversation)
            raise ConversationHeldError(conversation, "another", "now")

        recovery = WriteRecovery(resume, (0.001,))
        recovery.on_write_failed(ConversationId("conv_1"))
        assert await tried.get() == "conv_1"
        await asyncio.sleep(0)
        assert recovery.waiting == ()
        recovery.on_stored()
        await recovery.close()
        recovery.on_write_failed(ConversationId("conv_2"))
        await asyncio.sleep(0)
        assert tried.empty()

    run(check)
