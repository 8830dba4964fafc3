"""Open turns resume independently, and the outcome of each is reported."""

import asyncio
from pathlib import Path

import pytest

from tests.harness.replies import answers
from tests.harness.turn import HEADER, TurnHarness, blocks_of, blocks_of_type, calls, run
from timeloom.app import open_session
from timeloom.core.blocks import Completion, Titled, TurnStarted, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.runtime.turn.resume_open_turns import (
    OpenTurnEnded,
    OpenTurnFailed,
    OpenTurnHeld,
    OpenTurnRunner,
    OpenTurnWaiting,
    ResumeResult,
    resume_open_turns,
)


async def left_open(stage: TurnHarness, count: int) -> list[ConversationId]:
    """Conversations whose process ended after it had stored the user's prompt."""
    names: list[ConversationId] = []
    for _ in range(count):
        async with await open_session(stage.store, None, HEADER) as session:
            await session.append([TurnStarted(n=1), UserPrompt(text="go")], session.new_turn_id())
            names.append(session.conversation)
    return sorted(names)


def opening(stage: TurnHarness) -> OpenTurnRunner:
    async def opened(conversation: ConversationId) -> TurnRunner:
        return await stage.open(await open_session(stage.store, conversation, HEADER))

    return opened


def test_open_turns_are_gone_on_with_to_their_ends(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, calls("t.look"), answers("Done."))
        names = await left_open(stage, 3)
        heard: list[ResumeResult] = []
        outcomes = await resume_open_turns(stage.store, opening(stage), on_result=heard.append)
        assert sorted(outcomes, key=lambda one: one.conversation) == [
            OpenTurnEnded(name, "completed") for name in names
        ]
        assert heard == outcomes
        assert len(stage.effects) == 3
        assert await stage.store.open_turns() == []
        assert await resume_open_turns(stage.store, opening(stage)) == []
        # Each is free again, and has its title.
        async with await open_session(stage.store, names[0], HEADER) as session:
            blocks = await blocks_of(await stage.open(session))
            assert blocks_of_type(blocks, Completion) == [Completion(text="Done.")]
            assert len(blocks_of_type(blocks, Titled)) == 1

    run(check)


def test_a_turn_that_waits_for_a_person_waits_on_until_it_is_decided(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, calls("t.send"), answers("Done."))
        (name,) = await left_open(stage, 1)
        for _ in range(2):
            assert await resume_open_turns(stage.store, opening(stage)) == [OpenTurnWaiting(name)]
        async with await open_session(stage.store, name, HEADER) as session:
            turns = await stage.open(session)
            assert session.views.progress.open_call is not None
            await turns.inbox.decide(session.views.progress.open_call.call_id, approved=True, by="ann")
        assert stage.effects == []
        assert await resume_open_turns(stage.store, opening(stage)) == [OpenTurnEnded(name, "completed")]
        assert len(stage.effects) == 1

    run(check)


def test_a_conversation_that_somebody_holds_is_left_to_them(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("Done."))
        held, free = await left_open(stage, 2)
        async with await open_session(stage.store, held, HEADER, holder="ann's terminal"):
            outcomes = await resume_open_turns(stage.store, opening(stage))
        (kept,) = [outcome for outcome in outcomes if isinstance(outcome, OpenTurnHeld)]
        assert kept.conversation == held
        assert kept.by.startswith("ann's terminal") and not kept.by.endswith(",")
        assert OpenTurnEnded(free, "completed") in outcomes

    run(check)


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (CodedError("store_damaged", "it is damaged"), "it is damaged", "store_damaged"),
        (ZeroDivisionError("secret"), "unexpected ZeroDivisionError; see the log for details", ""),
    ],
)
def test_one_that_fails_keeps_none_of_the_others(tmp_path: Path, error: Exception, message: str, code: str) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("Done."))
        names = await left_open(stage, 4)

        async def opened(conversation: ConversationId) -> TurnRunner:
            if conversation == names[1]:
                raise error
            return await opening(stage)(conversation)

        outcomes = await resume_open_turns(stage.store, opened, concurrency=1)
        assert outcomes.pop(1) == OpenTurnFailed(names[1], message, code)
        assert outcomes == [OpenTurnEnded(name, "completed") for name in names if name != names[1]]
        assert await stage.store.open_turns() == [names[1]]

    run(check)


def test_one_that_was_deleted_meanwhile_is_not_spoken_of(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("Done."))
        gone, left = await left_open(stage, 2)

        async def opened(conversation: ConversationId) -> TurnRunner:
            if conversation == gone:
                await stage.store.delete(gone)
            return await opening(stage)(conversation)

        assert await resume_open_turns(stage.store, opened) == [OpenTurnEnded(left, "completed")]

    run(check)


def test_no_more_turns_run_at_once_than_may(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("Done."))
        await left_open(stage, 7)
        running = most = 0

        async def opened(conversation: ConversationId) -> TurnRunner:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            return await opening(stage)(conversation)

        assert len(await resume_open_turns(stage.store, opened, concurrency=3)) == 7
        assert most == 3

    run(check)


def test_giving_up_closes_what_was_opened(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, calls("t.wait"), answers("Done."))
        names = await left_open(stage, 2)
        recovering = asyncio.create_task(resume_open_turns(stage.store, opening(stage)))
        await stage.waiting.wait()
        recovering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await recovering
        assert await stage.store.open_turns() == names
        for name in names:
            async with await open_session(stage.store, name, HEADER):
                pass

    run(check)
