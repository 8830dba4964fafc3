"""Workflows at the edges: interrupts while the agent works, crashes before the end, broken classes, typed answers."""

import asyncio
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from tests.harness.bundle_folder import write_package
from tests.harness.turn import run
from tests.harness.workflow import WorkflowHarness
from timeloom import BaseWorkflow, Payload, ToolModule, ToolsDescriptor
from timeloom.agent.answer import Answer
from timeloom.core.blocks import Completion, ModelCalled, ResultStatus, ToolCall, UserPrompt
from timeloom.core.policy.gates import ask_before
from timeloom.runtime.hub.state import IncomingMessage
from timeloom.testing import call, says


class Counting(BaseWorkflow):
    """Counts the calls of `run`, which runs the agent."""

    causes: ClassVar[list[str]]
    reasons: ClassVar[list[str]]

    async def run(self, payload: Payload) -> Answer[str] | str:
        self.causes.append(payload.cause)
        react = await self.build_react()
        answer = await react.run(payload)
        self.reasons.append(answer.reason)
        return answer


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Counting.causes, Counting.reasons = [], []


def test_a_steer_while_the_agent_works_is_handled_by_the_agent(tmp_path: Path) -> None:
    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Counting, call("t.wait"), says("In French."))
        async with stage.hub() as hub:
            receipt = await hub.start_conversation(stage.header, "hello")
            await stage.waiting.wait()
            await hub.send_event(receipt.conversation_id, IncomingMessage(kind="steer", text="in French"))
            await stage.settle(hub, receipt.conversation_id)
        assert await stage.answers(receipt.conversation_id) == ["In French."]
        assert "in French" in stage.recorder.prompts[-1]
        assert (Counting.causes, Counting.reasons) == (["opened"], ["completed"])

    run(check)


@pytest.mark.parametrize(("kind", "reason"), [("cancel", "cancelled"), ("steer", "stopped")])
def test_a_stop_while_the_agent_works_ends_the_turn(tmp_path: Path, kind: str, reason: str) -> None:
    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Counting, call("t.wait"), says("I stopped."))
        async with stage.hub() as hub:
            receipt = await hub.start_conversation(stage.header, "hello")
            await stage.waiting.wait()
            await hub.send_event(receipt.conversation_id, IncomingMessage(kind=kind, by="ann"))
            await stage.settle(hub, receipt.conversation_id)
        name = receipt.conversation_id
        assert (await stage.end(name)).reason == reason
        assert len(Counting.causes) == 1
        assert not stage.faults
        open_calls = {one.tool_call_id for one in await stage.blocks(name) if isinstance(one, ToolCall)}
        closed = {one.tool_call_id for one in await stage.blocks(name) if isinstance(one, ResultStatus)}
        assert open_calls <= closed

    run(check)


def test_a_crash_before_the_workflows_own_text_records_it_once(tmp_path: Path) -> None:
    class Signs(Counting):
        stuck: ClassVar[asyncio.Event]
        crashes: ClassVar[bool] = True

        async def run(self, payload: Payload) -> str:
            answer = await super().run(payload)
            if self.crashes:
                self.stuck.set()
                await asyncio.Event().wait()
            assert isinstance(answer, Answer)
            return f"{answer.text} — signed"

    async def check() -> None:
        Signs.stuck, Signs.crashes = asyncio.Event(), True
        stage = WorkflowHarness(tmp_path, Signs, says("Done."))
        turns = await stage.open()
        await turns.open_turn(UserPrompt(text="hello"))
        task = asyncio.create_task(turns.resume())
        await Signs.stuck.wait()
        task.cancel()
        await asyncio.wait({task})
        Signs.crashes = False
        again = await stage.reopen(turns.session)
        assert await again.resume() == "completed"
        blocks = await stage.blocks(again.session.conversation)
        assert [str(one.text) for one in blocks if isinstance(one, Completion)] == ["Done.", "Done. — signed"]
        assert len([one for one in blocks if isinstance(one, ModelCalled)]) == 1
        assert Signs.causes == ["opened", "resumed"]

    run(check)


class Careful(BaseWorkflow):
    """Runs an agent with the tools of a descriptor."""

    async def run(self, payload: Payload) -> Answer[str]:
        descriptor = ToolsDescriptor(modules=(ToolModule(module="careful_pkg.tools", alias="orders"),))
        react = await self.build_react(tools_module=descriptor)
        return await react.run(payload)


@pytest.mark.parametrize("approved", [True, False])
def test_a_call_of_a_descriptors_tool_waits_and_resumes_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, approved: bool
) -> None:
    async def check() -> None:
        write_package(tmp_path, "careful_pkg", {}, monkeypatch)
        stage = WorkflowHarness(tmp_path, Careful, call("orders.close"), says("Over."))
        stage.allow_with(ask_before(["orders.close"]))
        async with stage.hub() as hub:
            name = await stage.say(hub)
            (pending,) = (await hub.status(name)).approvals
            assert pending.tool_id == "orders.close"
        async with stage.hub() as other:
            await other.decide(name, pending.tool_call_id, approved, "bob")
            await stage.settle(other, name)
        blocks = await stage.blocks(name)
        assert await stage.answers(name) == ["Over."]
        assert len([one for one in blocks if isinstance(one, ToolCall)]) == 1
        codes = [one.error.code for one in blocks if isinstance(one, ResultStatus) and one.error]
        assert codes == ([] if approved else ["call_not_approved"])

    run(check)


def test_a_message_while_a_person_has_to_decide_reaches_the_turn(tmp_path: Path) -> None:
    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Counting, call("t.send"), says("Not sent."))
        stage.allow_with(ask_before(["t.send"]))
        async with stage.hub() as hub:
            name = await stage.say(hub)
            (pending,) = (await hub.status(name)).approvals
            await hub.send_message(name, "wait, do not send it")
            await hub.decide(name, pending.tool_call_id, False, "bob")
            await stage.settle(hub, name)
            assert (await hub.status(name)).state == "idle"
        assert await stage.answers(name) == ["Not sent."]
        assert "wait, do not send it" in stage.recorder.prompts[-1]
        assert stage.effects == []

    run(check)


def test_a_class_that_cannot_be_made_ends_the_turn(tmp_path: Path) -> None:
    class NeedsMore(BaseWorkflow):
        def __init__(self, client: object) -> None:
            self.client = client

    class Raises(BaseWorkflow):
        def __init__(self) -> None:
            raise OSError("no client")

    async def check(workflow: type[BaseWorkflow], reason: str) -> None:
        stage = WorkflowHarness(tmp_path, workflow)
        async with stage.hub() as hub:
            name = await stage.say(hub)
        end = await stage.end(name)
        assert end.reason == "runtime_error"
        assert f"__init__ of the bundle shop failed at {Path(__file__).name}, line" in end.text
        assert reason in end.text

    async def check_both() -> None:
        await check(NeedsMore, "missing 1 required positional argument: 'client'")
        await check(Raises, "OSError: no client")

    run(check_both)


def test_functions_that_are_not_async_end_the_turn(tmp_path: Path) -> None:
    class Plain(BaseWorkflow):
        def run(self, payload: Payload) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
            raise ValueError(payload.message)

    class PlainHook(BaseWorkflow):
        def pre_run_hook(self, payload: Payload) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            del payload

    async def check(workflow: type[BaseWorkflow], reason: str) -> None:
        stage = WorkflowHarness(tmp_path, workflow)
        async with stage.hub() as hub:
            name = await stage.say(hub, "bad message")
        end = await stage.end(name)
        assert end.reason == "runtime_error"
        assert reason in end.text

    async def check_both() -> None:
        await check(Plain, "ValueError: bad message")
        await check(PlainHook, "pre_run_hook must be async; write `async def pre_run_hook`")

    run(check_both)


class Verdict(msgspec.Struct):
    ok: bool


def test_a_typed_answer_is_corrected_inside_the_agents_run(tmp_path: Path) -> None:
    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Counting, says("hi"), says("yes"), says('{"ok": true}'))
        schema = msgspec.json.encode(msgspec.json.schema(Verdict)["$defs"]["Verdict"]).decode()
        async with stage.hub() as hub:
            name = await stage.say(hub, "hello")
            await hub.send_message(name, "typed", output=schema)
            await stage.settle(hub, name)
        assert (await stage.answers(name))[-1] == '{"ok": true}'
        assert Counting.reasons == ["completed", "completed"]

    run(check)
