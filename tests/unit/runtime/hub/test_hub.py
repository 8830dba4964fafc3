"""The hub opens conversations on demand, runs one turn at a time, and releases them when idle."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.harness.hub import HubHarness, wait_until_idle
from tests.harness.replies import answers
from tests.harness.turn import HEADER, calls, run
from timeloom.app import open_session
from timeloom.core.blocks import ResultStatus, Titled, TurnEnded, TurnStarted, Usage, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import NO_TURN
from timeloom.ports.leases import ConversationHeldError
from timeloom.ports.store import StoreError
from timeloom.providers.script import ScriptedModel
from timeloom.runtime.hub.events import ChatBlock, ChatComplete, ChatError, ConvStatus, Event
from timeloom.runtime.hub.hub import HubSettings, SubscriptionContext
from timeloom.runtime.hub.state import IncomingMessage, SendReceipt


async def first_error(events: AsyncGenerator[Event]) -> ChatError:
    async for event in events:
        if isinstance(event, ChatError):
            return event
    raise AssertionError("no error was told")


def test_a_conversation_that_rests_is_let_go_of_and_opened_again(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, answers("One."), answers("Two."))
        async with stage.hub(HubSettings(rest_s=0.01)) as hub:
            first = await hub.start_conversation(HEADER, "go")
            await wait_until_idle(hub, stage, first.conversation_id)
            while True:
                try:
                    # Held by the hub until it rests.
                    async with await open_session(stage.store, first.conversation_id, HEADER):
                        break
                except ConversationHeldError:
                    await asyncio.sleep(0.005)
            await hub.send_message(first.conversation_id, "on")
            await wait_until_idle(hub, stage, first.conversation_id)
            assert len(stage.opened) >= 2
            ends = [block for block in await stage.blocks(first.conversation_id) if isinstance(block, TurnEnded)]
            assert [end.reason for end in ends] == ["completed", "completed"]

    run(check)


def test_a_message_at_the_very_end_of_a_turn_opens_the_next(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, answers("One."), answers("Two."))
        async with stage.hub() as hub:
            name = (await hub.start_conversation(HEADER, "go")).conversation_id
            async with hub.stream(await stage.store.info(name), 0) as (_, events):
                async for event in events:
                    if isinstance(event, ChatComplete):
                        break
            # The task of the first turn may still be at the title.
            async with asyncio.timeout(30):
                assert (await hub.send_message(name, "on")).status == "started"
                await wait_until_idle(hub, stage, name)

    run(check)


def test_a_turn_that_breaks_off_is_told_and_can_be_spoken_to_again(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, calls("t.wait"), answers("Done."))
        async with stage.hub() as hub:
            name = (await hub.start_conversation(HEADER, "go")).conversation_id
            await stage.waiting.wait()
            async with hub.stream(await stage.store.info(name), 0) as (_, events):
                (turns,) = stage.opened
                # The conversation is taken away, and the next append finds out.
                await turns.session.close()
                turns.inbox.interrupt.set()
                assert (await first_error(events)).code == "lease_lost"
            assert (await hub.status(name)).state == "interrupted"
            said = await hub.send_event(name, IncomingMessage(kind="cancel", by="ann"))
            assert said.status == "cancelled"
            await wait_until_idle(hub, stage, name)
            (end,) = [block for block in await stage.blocks(name) if isinstance(block, TurnEnded)]
            assert (end.reason, len(stage.opened)) == ("cancelled", 2)

    run(check)


def test_closing_leaves_a_running_turn_open_and_the_next_hub_goes_on_with_it(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, calls("t.wait"), answers("Done."))
        async with stage.hub() as hub:
            name = (await hub.start_conversation(HEADER, "go")).conversation_id
            await stage.waiting.wait()
        assert await stage.store.open_turns() == [name]
        with pytest.raises(CodedError, match="shutting down"):
            await hub.send_message(name, "too late")
        stage.waiting.clear()
        async with stage.hub() as hub:
            recovering = hub.resume_open_turns()
            await stage.waiting.wait()
            await hub.send_event(name, IncomingMessage(kind="steer", text="come to an end"))
            await recovering
            assert (await hub.status(name)).state == "idle"
        assert await stage.store.open_turns() == []

    run(check)


@pytest.mark.parametrize(("text", "reason"), [("the other way", "completed"), ("", "stopped")])
def test_a_steer_that_opens_a_conversation_again_does_not_run_its_open_call(
    tmp_path: Path, text: str, reason: str
) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, calls("t.wait"), answers("Done."))
        async with stage.hub() as hub:
            name = (await hub.start_conversation(HEADER, "go")).conversation_id
            await stage.waiting.wait()
        # The call would wait until its deadline, a minute; nothing runs the turn before the steer does.
        async with stage.hub() as hub, asyncio.timeout(50):
            await hub.send_event(name, IncomingMessage(kind="steer", text=text))
            await wait_until_idle(hub, stage, name)
        blocks = await stage.blocks(name)
        (receipt,) = [block for block in blocks if isinstance(block, ResultStatus)]
        assert receipt.error is not None
        assert (receipt.error.code, len(stage.effects)) == ("tool_interrupted", 1)
        (end,) = [block for block in blocks if isinstance(block, TurnEnded)]
        assert end.reason == reason

    run(check)


def test_a_turn_that_somebody_else_holds_is_left_to_them(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, answers("Done."))
        session = await open_session(stage.store, None, HEADER)
        await session.append([TurnStarted(n=1), UserPrompt(text="go")], session.new_turn_id())
        async with stage.hub() as hub:
            await hub.resume_open_turns()
            assert (await hub.status(session.conversation)).state == "running"
            with pytest.raises(ConversationHeldError):
                await hub.send_message(session.conversation, "on")
            await session.close()
            await hub.resume_open_turns()
            assert (await hub.status(session.conversation)).state == "idle"

    run(check)


def test_readers_hear_of_an_append_elsewhere_before_and_after_the_hub_had_it(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, answers("Done."))
        async with stage.hub(HubSettings(rest_s=0.01)) as hub:
            name = (await hub.start_conversation(HEADER, "go")).conversation_id
            await wait_until_idle(hub, stage, name)

            async def listen() -> list[int]:
                seqs: list[int] = []
                titles = 0
                async with hub.stream(await stage.store.info(name), 0) as (_, events):
                    async for event in events:
                        if isinstance(event, ChatBlock):
                            seqs.append(event.seq)
                            titles += b"Elsewhere" in bytes(event.block)
                        if titles == 3:
                            break
                return seqs

            listening = asyncio.create_task(listen())
            titled = 0
            while titled < 3:
                try:
                    async with await open_session(stage.store, name, HEADER) as session:
                        await session.append([Titled(text="Elsewhere")], NO_TURN)
                        titled += 1
                except ConversationHeldError:
                    await asyncio.sleep(0.005)
            assert await listening == list(range(1, (await stage.store.info(name)).tail + 1))

    run(check)


def test_an_unknown_conversation_is_unknown_and_leaves_no_seat(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path)
        async with stage.hub() as hub:
            with pytest.raises(CodedError, match="no conversation"):
                await hub.send_message(ConversationId("conv_none"), "go")
            assert hub.conversations == ()

    run(check)


def test_a_conversation_that_cannot_be_stored_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, answers("One."))
        async with stage.hub() as hub:
            stage.store.is_full = True
            with pytest.raises(StoreError):
                await hub.start_and_stream(HEADER, "go")
            assert hub.conversations == () and hub.readers == 0
            stage.store.is_full = False
            assert await stage.store.conversation_ids() == []
            name = (await hub.start_conversation(HEADER, "go")).conversation_id
            await wait_until_idle(hub, stage, name)
            assert [block.text for block in await stage.blocks(name) if isinstance(block, UserPrompt)] == ["go"]

    run(check)


def test_a_message_that_cannot_be_stored_is_refused_and_sent_again_is_there_once(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, answers("One."), answers("Two."))
        async with stage.hub() as hub:
            name = (await hub.start_conversation(HEADER, "go")).conversation_id
            await wait_until_idle(hub, stage, name)
            stage.store.is_full = True
            for _ in range(2):
                with pytest.raises(StoreError):
                    await hub.send_message(name, "on")
            stage.store.is_full = False
            await hub.send_message(name, "on")
            await wait_until_idle(hub, stage, name)
            assert [block.text for block in await stage.blocks(name) if isinstance(block, UserPrompt)] == ["go", "on"]

    run(check)


class Priceless(ScriptedModel):
    """A model with an unknown price."""

    def price_nano_usd(self, usage: Usage) -> int | None:
        raise RuntimeError("no table")


def test_a_message_whose_turn_stops_before_it_stores_anything_is_stored_all_the_same(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, answers("One."))
        able, stage.model = stage.model, Priceless.from_text("[]")
        async with stage.hub() as hub:
            name = (await hub.start_conversation(HEADER, "go")).conversation_id
            assert [block.text for block in await stage.blocks(name) if isinstance(block, UserPrompt)] == ["go"]
            assert (await hub.status(name)).state == "interrupted"
            stage.model = able
            assert (await hub.send_message(name, "on")).status == "followup"
            await wait_until_idle(hub, stage, name)

    run(check)


def test_the_status_of_a_turn_that_stopped_follows_its_error(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, calls("t.look"))
        stage.model = Priceless.from_text("[]")
        async with stage.hub() as hub:
            _, stream = await hub.start_and_stream(HEADER, "go")
            async with stream as (_, events), asyncio.timeout(30):
                await first_error(events)
                status = await anext(events)
            assert isinstance(status, ConvStatus)
            assert status.state == "interrupted"

    run(check)


def test_the_tail_of_a_status_is_stored(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, calls("t.look"), answers("Done."))
        async with stage.hub() as hub:
            receipt, stream = await hub.start_and_stream(HEADER, "go")
            async with stream as (_, events), asyncio.timeout(30):
                async for event in events:
                    if isinstance(event, ConvStatus):
                        assert event.tail <= (await stage.store.info(receipt.conversation_id)).tail
                        if event.state == "idle":
                            break

    run(check)


def test_whoever_speaks_hears_all_that_comes_of_it_and_nothing_from_before(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, answers("One."), answers("Two."))
        async with stage.hub() as hub:
            first, opened = await hub.start_and_stream(HEADER, "go")
            assert await seqs(opened) == list(range(1, await tail_of_turn(stage, first) + 1))
            await wait_until_idle(hub, stage, first.conversation_id)
            info = await stage.store.info(first.conversation_id)
            second, opened = await hub.send_message_and_stream(info, "on")
            assert await seqs(opened) == list(range(info.tail + 1, await tail_of_turn(stage, second) + 1))

    run(check)


async def seqs(opened: SubscriptionContext) -> list[int]:
    """Return the blocks that are sent up to the end of the turn."""
    found: list[int] = []
    async with opened as (_, events):
        async for event in events:
            if isinstance(event, ChatBlock):
                found.append(event.seq)
            if isinstance(event, ChatComplete):
                return found
    raise AssertionError("the turn did not end")


async def tail_of_turn(stage: HubHarness, accepted: SendReceipt) -> int:
    entries = await stage.store.load(accepted.conversation_id, after=accepted.seq)
    return next(entry.seq for entry in entries if isinstance(entry.block, TurnEnded))
