"""A resumed workflow passes its finished phases: each agent continues its own work only."""

import asyncio
from pathlib import Path
from typing import ClassVar

import pytest

from tests.harness.bundle_folder import write_package
from tests.harness.turn import run
from tests.harness.workflow import WorkflowHarness
from timeloom import BaseWorkflow, Payload, ToolModule, ToolsDescriptor
from timeloom.agent.answer import Answer
from timeloom.agent.workflow.phases import PhaseNote, find_end, find_notes
from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ExternalEvent,
    Followup,
    ModelCalled,
    ResultStatus,
    RoundStarted,
    Steer,
    ToolCall,
    UserPrompt,
)
from timeloom.core.ids import MessageId, TurnId
from timeloom.core.policy.gates import ask_before
from timeloom.core.timeline import Entry
from timeloom.testing import call, says


class Desk(BaseWorkflow):
    """A triage hands over to a specialist."""

    triaged: ClassVar[list[str]]

    async def run(self, payload: Payload) -> Answer[str]:
        triage = await self.build_react(tools_module=ToolsDescriptor(allowed=("react.read",)))
        first = await triage.run(payload)
        self.triaged.append(first.text)
        tools = (ToolModule(module="desk_pkg.tools", alias="desk"),)
        specialist = await self.build_react(tools_module=ToolsDescriptor(modules=tools))
        return await specialist.run(payload, note=f"Handle: {first.text}")


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Desk.triaged = []
    write_package(tmp_path, "desk_pkg", {}, monkeypatch)


def test_a_decision_in_the_second_phase_goes_to_its_agent(tmp_path: Path) -> None:
    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Desk, says("complaint"), call("desk.close"), says("Closed."))
        stage.allow_with(ask_before(["desk.close"]))
        async with stage.hub() as hub:
            name = await stage.say(hub)
            (pending,) = (await hub.status(name)).approvals
            await hub.decide(name, pending.tool_call_id, True, "bob")
            await stage.settle(hub, name)
        blocks = await stage.blocks(name)
        assert await stage.answers(name) == ["complaint", "Closed."]
        assert Desk.triaged == ["complaint", "complaint"]
        assert len([one for one in blocks if isinstance(one, ToolCall)]) == 1
        assert not [one for one in blocks if isinstance(one, ResultStatus) and one.error]

    run(check)


def test_a_crash_in_the_second_phase_asks_the_first_agent_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Desk, says("complaint"), call("t.wait"), says("Done."))
        turns = await stage.open()
        await turns.open_turn(UserPrompt(text="hello"))
        task = asyncio.create_task(turns.resume())
        await stage.waiting.wait()
        task.cancel()
        await asyncio.wait({task})
        stage.extra = (stage.finishing_tool("t.wait"),)
        again = await stage.reopen(turns.session)
        assert await again.resume() == "completed"
        blocks = await stage.blocks(again.session.conversation)
        assert [str(one.text) for one in blocks if isinstance(one, Completion)] == ["complaint", "Done."]
        assert len([one for one in blocks if isinstance(one, ModelCalled)]) == 3
        assert len([one for one in blocks if isinstance(one, ExternalEvent)]) == 1
        assert Desk.triaged == ["complaint", "complaint"]
        assert "desk.close" in stage.recorder.prompts[-1]

    run(check)


def test_a_later_message_begins_with_the_first_agent_again(tmp_path: Path) -> None:
    class Slow(Desk):
        begun: ClassVar[asyncio.Event]
        gate: ClassVar[asyncio.Event]

        async def run(self, payload: Payload) -> Answer[str]:
            answer = await super().run(payload)
            self.begun.set()
            await self.gate.wait()
            return answer

    async def check() -> None:
        Slow.begun, Slow.gate = asyncio.Event(), asyncio.Event()
        steps = [says(text) for text in ("complaint", "One.", "complaint", "Two.")]
        stage = WorkflowHarness(tmp_path, Slow, *steps)
        async with stage.hub() as hub:
            receipt = await hub.start_conversation(stage.header, "hello")
            await Slow.begun.wait()
            await hub.send_message(receipt.conversation_id, "and again?")
            Slow.gate.set()
            await stage.settle(hub, receipt.conversation_id)
        assert await stage.answers(receipt.conversation_id) == ["complaint", "One.", "complaint", "Two."]

    run(check)


TURN = TurnId("turn_1")
ID = MessageId("m1")
NOTE = ExternalEvent(kind="workflow", message_id=ID, text="note")
ROUND = RoundStarted(round=1)
DONE = Completion(text="done", n=1)
FOLLOWUP = Followup(message_id=ID, text="more")


def notes(*blocks: AnyBlock) -> list[int]:
    entries = [
        Entry(seq=seq, turn_id=TURN, ts="2026-02-09T02:14:32.676425Z", block=block)
        for seq, block in enumerate(blocks, 1)
    ]
    return [note.seq for note in find_notes(entries)]


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ((UserPrompt(text="hello"), ROUND, DONE, NOTE, ROUND), [4]),
        ((UserPrompt(text="hello"), ROUND, DONE, NOTE, ROUND, FOLLOWUP), [4]),
        ((UserPrompt(text="hello"), ROUND, DONE, NOTE, ROUND, DONE, FOLLOWUP), []),
        ((UserPrompt(text="hello"), ROUND, DONE, NOTE, ROUND, DONE, NOTE, FOLLOWUP, ROUND), [4, 7]),
        ((UserPrompt(text="hello"), ROUND, DONE, FOLLOWUP, NOTE, ROUND), [5]),
        ((UserPrompt(text="hello"), ROUND, DONE, NOTE, ROUND, DONE, Steer(message_id=ID, text="stop")), []),
        ((UserPrompt(text="hello"), DONE, ExternalEvent(kind="form", message_id=ID, text="{}"), NOTE), [4]),
        ((UserPrompt(text="hello"), NOTE, DONE, ExternalEvent(kind="cancel", message_id=ID, text="")), [2]),
    ],
)
def test_notes_count_since_the_message_that_found_the_agent_at_rest(
    blocks: tuple[AnyBlock, ...], expected: list[int]
) -> None:
    assert notes(*blocks) == expected


def test_a_phase_ends_before_the_next_note() -> None:
    known = [PhaseNote(4, "a"), PhaseNote(9, "b")]
    assert [find_end(known, phase) for phase in (0, 4, 9)] == [4, 9, None]
