"""A workflow is called again after crashes, decisions and restarts; its hooks and loads are bounded and named."""

import asyncio
import contextlib
from pathlib import Path
from typing import ClassVar

import pytest

from tests.harness.turn import run
from tests.harness.workflow import WorkflowHarness
from timeloom.agent.answer import Answer
from timeloom.agent.workflow import BaseWorkflow, Payload
from timeloom.core.blocks import Completion, ModelCalled, ResultStatus, ToolCall, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.policy.gates import ask_before
from timeloom.runtime.turn.resume_open_turns import OpenTurnEnded, resume_open_turns
from timeloom.testing import call, says


class Journal(BaseWorkflow):
    """Notes its calls and runs the agent."""

    seen: ClassVar[list[str]]

    async def pre_run_hook(self, payload: Payload) -> None:
        self.seen.append(f"before {payload.cause}")

    async def run(self, payload: Payload) -> Answer[str]:
        react = await self.build_react()
        answer = await react.run(payload)
        self.seen.append(f"{answer.reason} {answer.text}".strip())
        return answer

    async def post_run_hook(self, payload: Payload, answer: Answer[str]) -> None:
        self.seen.append(f"after {answer.reason}")


def test_a_crash_calls_the_workflow_again_and_the_agent_continues_the_open_turn(tmp_path: Path) -> None:
    async def check() -> None:
        Journal.seen = []
        stage = WorkflowHarness(tmp_path, Journal, call("t.look"), call("t.wait"), says("Done."))
        turns = await stage.open()
        await turns.open_turn(UserPrompt(text="hello"))
        task = asyncio.create_task(turns.resume())
        await stage.waiting.wait()
        # The process dies while a tool runs: the turn stays open.
        task.cancel()
        await asyncio.wait({task})
        stage.extra = (stage.finishing_tool("t.wait"),)
        again = await stage.reopen(turns.session)
        assert await again.resume() == "completed"
        blocks = await stage.blocks(again.session.conversation)
        assert [one.tool_id for one in blocks if isinstance(one, ToolCall)] == ["t.look", "t.wait"]
        assert len([one for one in blocks if isinstance(one, ModelCalled)]) == 3
        assert Journal.seen == ["before opened", "before resumed", "completed Done.", "after completed"]

    run(check)


def test_a_crash_after_the_answer_asks_no_model_again(tmp_path: Path) -> None:
    class Reports(Journal):
        stuck: ClassVar[asyncio.Event]
        crashes: ClassVar[bool] = True

        async def run(self, payload: Payload) -> Answer[str]:
            answer = await super().run(payload)
            if self.crashes:
                self.stuck.set()
                await asyncio.Event().wait()
            return answer

    async def check() -> None:
        Reports.seen, Reports.stuck, Reports.crashes = [], asyncio.Event(), True
        stage = WorkflowHarness(tmp_path, Reports, says("Done."))
        turns = await stage.open()
        await turns.open_turn(UserPrompt(text="hello"))
        task = asyncio.create_task(turns.resume())
        await Reports.stuck.wait()
        task.cancel()
        await asyncio.wait({task})
        Reports.crashes = False
        again = await stage.reopen(turns.session)
        assert await again.resume() == "completed"
        blocks = await stage.blocks(again.session.conversation)
        assert len([one for one in blocks if isinstance(one, ModelCalled)]) == 1
        assert len([one for one in blocks if isinstance(one, Completion)]) == 1
        assert Reports.seen[-3:] == ["before resumed", "completed Done.", "after completed"]

    run(check)


def test_a_decision_calls_the_workflow_again(tmp_path: Path) -> None:
    async def check() -> None:
        Journal.seen = []
        stage = WorkflowHarness(tmp_path, Journal, call("t.send"), says("Sent."))
        stage.allow_with(ask_before(["t.send"]))
        async with stage.hub() as hub:
            name = await stage.say(hub)
            (pending,) = (await hub.status(name)).approvals
            assert Journal.seen == ["before opened", "waiting", "after waiting"]
            await hub.decide(name, pending.tool_call_id, True, "bob")
            await stage.settle(hub, name)
        assert await stage.answers(name) == ["Sent."]
        assert Journal.seen[3:] == ["before resumed", "completed Sent.", "after completed"]
        assert len(stage.effects) == 1

    run(check)


def test_an_answer_instead_of_a_decision_closes_the_call(tmp_path: Path) -> None:
    class Impatient(BaseWorkflow):
        async def run(self, payload: Payload) -> Answer[str] | str:
            if payload.resumed:
                return "I did not wait."
            react = await self.build_react()
            return await react.run(payload)

    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Impatient, call("t.send"))
        stage.allow_with(ask_before(["t.send"]))
        async with stage.hub() as hub:
            name = await stage.say(hub)
            (pending,) = (await hub.status(name)).approvals
            await hub.decide(name, pending.tool_call_id, True, "bob")
            await stage.settle(hub, name)
        assert await stage.answers(name) == ["I did not wait."]
        (receipt,) = [one for one in await stage.blocks(name) if isinstance(one, ResultStatus)]
        assert receipt.error is not None
        assert receipt.error.code == "tool_interrupted"
        assert stage.effects == []

    run(check)


def test_a_worker_resumes_open_turns_through_the_workflow(tmp_path: Path) -> None:
    async def check() -> None:
        Journal.seen = []
        stage = WorkflowHarness(tmp_path, Journal, says("Done."))
        turns = await stage.open()
        await turns.open_turn(UserPrompt(text="hello"))
        await turns.session.flush()
        await turns.session.close()
        (outcome,) = await resume_open_turns(stage.store, stage.reopen_by_name)
        assert outcome == OpenTurnEnded(turns.session.conversation, "completed")
        assert Journal.seen[0] == "before resumed"

    run(check)


class BadHooks(BaseWorkflow):
    """Hooks that raise or hang, by name."""

    bad: ClassVar[str] = ""
    hangs: ClassVar[bool] = False

    async def misbehave(self, name: str) -> None:
        if self.bad == name:
            if self.hangs:
                await asyncio.Event().wait()
            raise RuntimeError("out of order")

    async def on_bundle_load(self) -> None:
        await self.misbehave("on_bundle_load")

    async def pre_run_hook(self, payload: Payload) -> None:
        await self.misbehave("pre_run_hook")

    async def post_run_hook(self, payload: Payload, answer: Answer[str]) -> None:
        await self.misbehave("post_run_hook")


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("hook", ["on_bundle_load", "pre_run_hook", "post_run_hook"])
def test_a_hook_that_raises_or_hangs_is_named_with_file_and_line(tmp_path: Path, hook: str, hangs: bool) -> None:
    async def check() -> None:
        BadHooks.bad, BadHooks.hangs = hook, hangs
        stage = WorkflowHarness(tmp_path, BadHooks, says("Done."), hook_s=0.01 if hangs else 30)
        async with stage.hub() as hub:
            name = await stage.say(hub)
        (fault,) = stage.faults
        line = BadHooks.misbehave.__code__.co_firstlineno + (3 if hangs else 4)
        assert (fault.code, fault.where, fault.file, fault.line) == ("hook_failed", hook, Path(__file__).name, line)
        assert ("ran longer" if hangs else "RuntimeError: out of order") in fault.reason
        end = await stage.end(name)
        if hook == "post_run_hook":
            assert (end.reason, await stage.answers(name)) == ("completed", ["Done."])
        else:
            assert (end.reason, await stage.answers(name)) == ("runtime_error", [])
            assert hook in end.text

    run(check)


def test_a_bundle_is_loaded_once_for_all_conversations(tmp_path: Path) -> None:
    class Loads(BaseWorkflow):
        times: ClassVar[int] = 0

        async def on_bundle_load(self) -> None:
            type(self).times += 1
            (self.folder / "index.txt").write_text(self.bundle.name)
            with pytest.raises(CodedError, match="runs no turn"):
                self.emit("timeline_text", "nobody listens")

        async def run(self, payload: Payload) -> str:
            return (self.folder / "index.txt").read_text()

    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Loads)
        async with stage.hub() as hub:
            names = await asyncio.gather(*(stage.say(hub) for _ in range(3)))
        assert [await stage.answers(name) for name in names] == [["shop"]] * 3
        assert Loads.times == 1

    run(check)


def test_a_failed_load_ends_every_turn_and_is_not_repeated(tmp_path: Path) -> None:
    class NeverLoads(BaseWorkflow):
        times: ClassVar[int] = 0

        async def on_bundle_load(self) -> None:
            type(self).times += 1
            raise OSError("no space")

    async def check() -> None:
        stage = WorkflowHarness(tmp_path, NeverLoads)
        async with stage.hub() as hub:
            for _ in range(2):
                name = await stage.say(hub)
                assert "hook_failed: on_bundle_load" in (await stage.end(name)).text
        assert NeverLoads.times == 1

    run(check)


def test_an_error_of_the_store_is_no_fault_of_the_workflow(tmp_path: Path) -> None:
    class Swallows(BaseWorkflow):
        async def run(self, payload: Payload) -> str:
            react = await self.build_react()
            with contextlib.suppress(CodedError):
                await react.run(payload)
            return "all is well"

    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Swallows, call("t.look"), says("Done."))
        turns = await stage.open()
        await turns.open_turn(UserPrompt(text="hello"))
        await turns.session.flush()
        stage.delayed_store.is_full = True
        with pytest.raises(CodedError, match="the disk is full"):
            await turns.resume()
        assert not stage.faults

    run(check)
