"""How programs use an agent: several runs at once, threads, cancellations and errors of the caller."""

import asyncio
from pathlib import Path

import pytest

import timeloom
from timeloom import Agent, Approval, tool
from timeloom.core.blocks import ApprovalRequested
from timeloom.core.codes import CodedError
from timeloom.testing import ScriptedModel, call, says

PROMISED = frozenset(
    """
    Agent Answer Run Approval ToolContext tool Budgets Allowance ask_before only_tools refuse open_model open_store
    register_provider Model Store Policy Tool Approver Settings Entry DEFAULT_POLICIES BaseWorkflow Bundle
    """.split()  # noqa: SIM905 - one list of names to compare with
)


class Gate:
    """A tool that waits until the test lets it go on."""

    def __init__(self) -> None:
        self.entered, self.released = asyncio.Event(), asyncio.Event()

    @tool("gate.wait", effect="pure")
    async def wait(self) -> str:
        """Wait at the gate."""
        self.entered.set()
        await self.released.wait()
        return "through"


def gate_model(answers: int = 1) -> ScriptedModel:
    return ScriptedModel([call("gate.wait"), *(says(f"Answer {n}.") for n in range(1, answers + 1))])


def test_the_promised_names_are_public() -> None:
    assert set(timeloom.__all__) >= PROMISED
    assert len(set(timeloom.__all__)) == len(timeloom.__all__)


def test_two_runs_at_once_have_conversations_and_answers_of_their_own() -> None:
    async def main() -> None:
        async with Agent(ScriptedModel([says("Hi.")])) as agent:
            first, second = await asyncio.gather(agent.run("one"), agent.run("two", user="ann"))
        assert first.conversation != second.conversation
        assert (first.text, second.text) == ("Hi.", "Hi.")

    asyncio.run(main())


def test_a_second_message_to_a_running_turn_joins_it_and_gets_its_answer() -> None:
    async def main() -> None:
        gate = Gate()
        async with Agent(gate_model(), tools=[gate.wait]) as agent, agent.stream("wait") as run:
            await gate.entered.wait()
            second = asyncio.create_task(agent.run("and hurry", conversation=run.conversation))
            await asyncio.sleep(0)
            gate.released.set()
            first = await run.finish()
            assert (await second).turn == first.turn

    asyncio.run(main())


def test_a_cancelled_caller_leaves_the_turn_running_while_the_agent_is_open() -> None:
    async def main() -> None:
        gate = Gate()
        async with Agent(gate_model(2), tools=[gate.wait]) as agent, agent.stream("wait") as run:
            await gate.entered.wait()
            waiting = asyncio.create_task(run.finish())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            gate.released.set()
            answer = await agent.run("what now?", conversation=run.conversation)
            assert answer.reason == "completed"

    asyncio.run(main())


def test_an_error_inside_a_stream_reaches_the_caller_and_the_turn_goes_on() -> None:
    async def main() -> None:
        gate = Gate()
        async with Agent(gate_model(2), tools=[gate.wait]) as agent:
            conversation = ""
            with pytest.raises(ZeroDivisionError):
                async with agent.stream("wait") as run:
                    conversation = run.conversation
                    await gate.entered.wait()
                    raise ZeroDivisionError
            gate.released.set()
            assert (await agent.run("and?", conversation=conversation)).reason == "completed"

    asyncio.run(main())


def test_an_approver_that_raises_fails_the_run_and_leaves_the_call_waiting() -> None:
    @tool("orders.refund")
    def refund() -> str:
        """Refund."""
        return "refunded"

    def approve(_: Approval) -> bool:
        raise ZeroDivisionError

    async def main() -> None:
        model = ScriptedModel([call("orders.refund"), says("Done.")])
        async with Agent(model, tools=[refund]) as agent, agent.stream("refund", approve=approve) as run:
            with pytest.raises(ZeroDivisionError):
                await run.finish()
            entries = [entry async for entry in agent.timeline(run.conversation)]
            [asked] = [entry.block for entry in entries if isinstance(entry.block, ApprovalRequested)]
            assert (await agent.decide(run.conversation, asked.tool_call_id, True, by="ann")).text == "Done."

    asyncio.run(main())


def test_run_sync_inside_an_event_loop_names_the_other_call() -> None:
    async def main() -> None:
        with pytest.raises(CodedError, match=r"use `await agent\.run") as refused:
            Agent(ScriptedModel([])).run_sync("hello")
        assert refused.value.code == "event_loop_running"

    asyncio.run(main())


def test_run_sync_in_a_thread_uses_the_agent_that_is_open() -> None:
    async def main() -> None:
        async with Agent(ScriptedModel([says("Hi.")])) as agent:
            answer = await asyncio.to_thread(agent.run_sync, "hello")
            assert answer.text == "Hi."
            assert [entry async for entry in agent.timeline(answer.conversation)]

    asyncio.run(main())


def test_an_agent_can_be_opened_again_after_it_was_closed(tmp_path: Path) -> None:
    async def main() -> None:
        agent = Agent(ScriptedModel([says("One."), says("Two.")]), store=tmp_path)
        async with agent:
            first = await agent.run("hello")
        async with agent:
            assert (await agent.run("again", conversation=first.conversation)).text == "Two."

    asyncio.run(main())


def test_an_unknown_conversation_or_call_is_named() -> None:
    async def main() -> None:
        async with Agent(ScriptedModel([says("Hi.")])) as agent:
            with pytest.raises(CodedError) as unknown:
                await agent.run("hello", conversation="conv_1_x")
            assert unknown.value.code == "conversation_unknown"
            answer = await agent.run("hello")
            with pytest.raises(CodedError) as refused:
                await agent.decide(answer.conversation, "abcdefabcdef", True, by="ann")
            assert refused.value.code == "approval_unknown"

    asyncio.run(main())
