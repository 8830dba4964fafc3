"""Messages to a running turn are stored at once, interrupt the right steps, and are never missed."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.replies import answers
from tests.harness.turn import Step, TurnHarness, blocks_of, blocks_of_type, calls, run
from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ExternalEvent,
    Followup,
    ModelAnswered,
    ModelCalled,
    ResultStatus,
    RoundStarted,
    Steer,
    ToolCall,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import CallId, ConversationId, MessageId, TurnId
from timeloom.core.policy.next_step import AskModel
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.leases import Lease
from timeloom.ports.model import TextSegment
from timeloom.runtime.prompt.request import PromptRequest
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.in_memory.store import MemoryStore

SLOW: Step = {"reply": answers("never"), "chunk": 1, "delay_ms": 200}


def reached(turns: TurnRunner, kind: type[AnyBlock]) -> asyncio.Event:
    """Set once an entry of that kind is on the timeline."""
    seen = asyncio.Event()

    def look(entry: Entry) -> None:
        if isinstance(entry.block, kind):
            seen.set()

    turns.session.listen(look)
    return seen


def test_cancelling_ends_a_turn_while_the_model_answers(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, SLOW).open()
        asked = reached(turns, ModelCalled)
        running = asyncio.create_task(turns.run("go"))
        await asked.wait()
        entry = await turns.inbox.cancel("ann@example", "no longer needed")
        assert entry is not None
        assert await running == "cancelled"
        blocks = await blocks_of(turns)
        (event,) = blocks_of_type(blocks, ExternalEvent)
        assert isinstance(event, ExternalEvent)
        assert (event.kind, event.author, event.text) == ("cancel", "ann@example", "no longer needed")
        (outcome,) = blocks_of_type(blocks, ModelAnswered)
        assert isinstance(outcome, ModelAnswered)
        assert (outcome.error, outcome.usage_reported) == ("steered", False)
        (end,) = blocks_of_type(blocks, TurnEnded)
        assert end == TurnEnded(reason="cancelled", text="cancelled by ann@example: no longer needed")
        assert turns.session.views.spend.total.unknown_costs == 0

    run(check)


def test_cancelling_while_a_tool_runs_leaves_a_receipt(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, calls("t.wait"), answers("never"))
        turns = await stage.open()
        running = asyncio.create_task(turns.run("go"))
        await stage.waiting.wait()
        await turns.inbox.cancel("the server")
        assert await running == "cancelled"
        assert turns.session.views.calls.open == {}
        (receipt,) = blocks_of_type(await blocks_of(turns), ResultStatus)
        assert isinstance(receipt, ResultStatus)
        assert receipt.error is not None
        assert receipt.error.code == "tool_interrupted"

    run(check)


def test_nothing_is_sent_when_a_pause_before_another_try_is_cancelled(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, {"error": "overloaded"}, answers("never")).open()
        turns.model_caller.backoff = (60.0,)
        failed = reached(turns, ModelAnswered)
        running = asyncio.create_task(turns.run("go"))
        await failed.wait()
        await asyncio.sleep(0)
        await turns.inbox.cancel("the server")
        assert await running == "cancelled"
        assert len(blocks_of_type(await blocks_of(turns), ModelCalled)) == 1

    run(check)


def test_a_steer_during_a_pause_ends_it_and_is_in_the_next_prompt(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, {"error": "overloaded"}, answers("other")).open()
        turns.model_caller.backoff = (60.0,)
        failed = reached(turns, ModelAnswered)
        running = asyncio.create_task(turns.run("go"))
        await failed.wait()
        await asyncio.sleep(0)
        await turns.inbox.steer("the other way")
        assert await running == "completed"
        outcomes = [block for block in await blocks_of(turns) if isinstance(block, ModelAnswered)]
        assert [outcome.error for outcome in outcomes] == ["overloaded", ""]

    run(check)


def test_where_no_turn_runs_there_is_nothing_to_cancel(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, answers("x")).open()
        assert await turns.inbox.cancel("ann") is None
        await turns.run("go")
        assert await turns.inbox.cancel("ann") is None
        assert not turns.inbox.interrupt.is_set()

    run(check)


def test_a_turn_after_a_cancelled_one_runs_as_any_other(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, calls("t.wait"), calls("t.look"), answers("done"))
        turns = await stage.open()
        running = asyncio.create_task(turns.run("go"))
        await stage.waiting.wait()
        await turns.inbox.cancel("ann")
        assert await running == "cancelled"
        assert await turns.run("again") == "completed"
        assert len(stage.effects) == 2

    run(check)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (ExternalEvent(kind="cancel", message_id=MessageId("m1"), author="ann"), "cancelled"),
        (Steer(message_id=MessageId("m1")), "stopped"),
    ],
)
@pytest.mark.parametrize("tool_id", ["t.look", "t.send"])
def test_nothing_of_a_cancelled_turn_is_done_again_after_a_restart(
    tmp_path: Path, tool_id: str, said: AnyBlock, reason: str
) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, calls(tool_id), answers("never"))
        session, turn = (await stage.open()).session, TurnId("turn_1")
        reply = ModelAnswered(round=1, model="m", stop_reason="end", text=calls(tool_id))
        begun = [TurnStarted(n=1), UserPrompt(text="go"), RoundStarted(round=1), reply]
        await session.append([*begun, ToolCall(tool_id=tool_id, tool_call_id=CallId("c1")), said], turn)
        again = await stage.reopen(session)
        assert await again.resume() == reason
        assert stage.effects == []
        assert again.session.views.calls.open == {}
        assert blocks_of_type(await blocks_of(again), ModelCalled) == []

    run(check)


@pytest.mark.parametrize("steps", [[SLOW, answers("ok")], [calls("t.wait"), answers("ok")]])
def test_a_task_that_is_cancelled_leaves_its_turn_to_be_gone_on_with(tmp_path: Path, steps: list[str | Step]) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, *steps)
        turns = await stage.open()
        reached_what = reached(turns, ModelCalled if isinstance(steps[0], dict) else ToolCall)
        running = asyncio.create_task(turns.run("go"))
        await reached_what.wait()
        await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert turns.session.views.progress.running
        stage.model = TurnHarness(
            tmp_path, *([answers("ok")] if isinstance(steps[0], dict) else [steps[0], answers("ok")])
        ).model
        again = await stage.reopen(turns.session)
        going = asyncio.create_task(again.resume())
        if not isinstance(steps[0], dict):
            stage.waiting.clear()
            await stage.waiting.wait()
            await again.inbox.steer("stop waiting")
        assert await going == "completed"
        assert again.session.views.calls.open == {}
        assert [block.text for block in await blocks_of(again) if isinstance(block, Completion)] == ["ok"]

    run(check)


class Sneaking:
    """A prompter beside which something is said, right after it has made its first prompt."""

    def __init__(self, turns: TurnRunner, text: str) -> None:
        self._inner = turns.model_caller.prompt_source
        self._inbox = turns.inbox
        self._text = text
        self.made: list[PromptRequest] = []

    async def build_prompt(self, session: Session, step: AskModel) -> PromptRequest:
        prompt = await self._inner.build_prompt(session, step)
        if not self.made:
            await self._inbox.follow_up(self._text)
        self.made.append(prompt)
        return prompt


def test_what_is_said_while_a_prompt_is_made_is_in_the_prompt_that_is_sent(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, answers("both")).open()
        sneaking = Sneaking(turns, "and the fares?")
        turns.model_caller.prompt_source = sneaking
        assert await turns.run("which ferry?") == "completed"
        first, second = sneaking.made
        (call,) = blocks_of_type(await blocks_of(turns), ModelCalled)
        assert isinstance(call, ModelCalled)
        assert call.request_sha256 == second.sha256 != first.sha256
        sent = "".join(one.text for one in second.request.segments if isinstance(one, TextSegment))
        assert "and the fares?" in sent

    run(check)


class Overtaken(MemoryStore):
    """A store beside which something is said while it appends a block of that kind."""

    def __init__(self, kind: type[AnyBlock]) -> None:
        super().__init__()
        self._kind = kind
        self.turns: TurnRunner | None = None
        self.saying: asyncio.Task[Entry | None] | None = None

    async def append(
        self, conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], lease: Lease | None = None
    ) -> tuple[Entry, ...]:
        if self.turns and not self.saying and any(isinstance(draft.block, self._kind) for draft in drafts):
            self.saying = asyncio.create_task(self.turns.inbox.follow_up("and back?"))
            await asyncio.sleep(0)
        return await super().append(conversation, expected_tail, drafts, lease)


@pytest.mark.parametrize("kind", [RoundStarted, ModelCalled, ModelAnswered, Completion, TurnEnded])
def test_what_is_said_is_answered_or_nobody_took_it(tmp_path: Path, kind: type[AnyBlock]) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, answers("yes"), answers("both"))
        stage.store = store = Overtaken(kind)
        store.turns = turns = await stage.open()
        assert await turns.run("which ferry?") == "completed"
        assert store.saying is not None
        taken = await store.saying
        blocks = await blocks_of(turns)
        if taken is None:
            assert blocks_of_type(blocks, Followup) == []
        else:
            asked = [entry.seq for entry in await _entries(turns) if isinstance(entry.block, ModelCalled)]
            assert asked[-1] > taken.seq
        assert len(blocks_of_type(blocks, TurnEnded)) == 1

    run(check)


async def _entries(turns: TurnRunner) -> list[Entry]:
    return await turns.session.entries(range(1, turns.session.views.tail + 1))


class SlowStore(MemoryStore):
    """A store that takes its time, as one with a disk does: before an append and after it."""

    async def append(
        self, conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], lease: Lease | None = None
    ) -> tuple[Entry, ...]:
        await asyncio.sleep(0)
        entries = await super().append(conversation, expected_tail, drafts, lease)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return entries


@pytest.mark.parametrize("moments", range(0, 90, 3))
def test_a_task_may_be_cancelled_at_any_moment(tmp_path: Path, moments: int) -> None:
    async def check() -> None:
        stage = TurnHarness(
            tmp_path, calls("t.look"), calls("react.write", path="files/a.md", content="a"), answers("ok")
        )
        stage.store = SlowStore()
        turns = await stage.open()
        running = asyncio.create_task(turns.run("go"))
        for _ in range(moments):
            await asyncio.sleep(0)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        if turns.session.views.turns.newest:
            assert await turns.resume() == "completed"
            assert turns.session.views.calls.open == {}
            assert len(blocks_of_type(await blocks_of(turns), Completion)) == 1

    run(check)
