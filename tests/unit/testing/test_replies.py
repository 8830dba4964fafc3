"""Replies of scripted models: what an agent does with each."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from timeloom import Agent, Settings, open_store, tool
from timeloom.config.settings import ModelsSettings, ReactSettings
from timeloom.core.blocks import AnyBlock, Notes, Thinking, ToolCode
from timeloom.core.codes import CodedError
from timeloom.core.policy.read_reply import read_reply
from timeloom.core.stream.channels import ChannelParser
from timeloom.ports.model import Model
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing import (
    NativeScriptedModel,
    ScriptedModel,
    Step,
    call,
    cut,
    fails,
    malformed,
    recorded_replies,
    says,
    several,
)

EXEC = "exec_tools.execute_code_python"


@tool(effect="pure")
def weather(city: str) -> str:
    """Return the current weather."""
    return f"rain in {city}"


@dataclass
class Place:
    city: str


async def blocks_of(agent: Agent[str], conversation: str) -> list[AnyBlock]:
    return [entry.block async for entry in agent.timeline(conversation)]


def run(model: Model, *, settings: Settings | None = None) -> tuple[str, list[AnyBlock]]:
    """Run one turn and return its answer and the blocks of the conversation."""

    async def main() -> tuple[str, list[AnyBlock]]:
        async with Agent(model, tools=[weather], settings=settings) as agent:
            answer = await agent.run("weather?")
            return answer.output, await blocks_of(agent, answer.conversation)

    return asyncio.run(main())


def test_a_reply_carries_thoughts_notes_and_a_program() -> None:
    reply = call(EXEC, contract=[]).with_code("print(1 < 2)").with_notes("I compute.").with_thinking("Hm.")
    parsed = read_reply(str(reply), edition=2)
    assert (parsed.faults, parsed.code, parsed.thinking) == ((), "print(1 < 2)", "Hm.")
    assert [decision.notes for decision in parsed.decisions] == ["I compute."]


def test_notes_and_thoughts_are_on_the_timeline() -> None:
    look = call("tools.weather", city="Oslo").with_notes("I look.").with_thinking("It may rain.")
    _, blocks = run(ScriptedModel([look, says("Rain.")]))
    assert [block.text for block in blocks if isinstance(block, Notes)] == ["I look."]
    assert next(block.text for block in blocks if isinstance(block, Thinking)) == "It may rain."
    assert not any(isinstance(block, ToolCode) for block in blocks)


def test_a_summary_and_followups_accompany_an_answer() -> None:
    parsed = read_reply(str(says("Rain.", followups=("And Rome?",)).with_summary("Asked about rain.")), edition=2)
    assert (parsed.faults, parsed.summary) == ((), "Asked about rain.")


@pytest.mark.parametrize("value", [Place("Oslo"), {"city": "Oslo"}, msgspec.Raw(b'{"city":"Oslo"}')])
def test_an_answer_may_be_a_value_of_the_output_type(value: object) -> None:
    answer = Agent(ScriptedModel([says(value)]), output=Place).run_sync("where?")
    assert answer.output == Place("Oslo")


def test_a_value_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="of type object cannot be written as JSON"):
        says(object())


def test_several_actions_share_a_reply() -> None:
    reply = several(call("tools.weather", city="Oslo").with_thinking("Both."), call("tools.weather", city="Rome"))
    events = ChannelParser().feed(str(reply))
    assert [event.channel for event in events if type(event).__name__ == "ChannelOpened"] == [
        "thinking",
        "ReactDecisionOutV2",
        "ReactDecisionOutV2",
    ]
    settings = Settings(react=ReactSettings(multi_action="safe_fanout"))
    assert run(ScriptedModel([reply, says("Rain.")]), settings=settings)[0] == "Rain."


def test_a_cut_reply_and_failed_calls_are_repeated() -> None:
    steps: list[Step | str] = [cut(says("A long answer.")), malformed(), fails("overloaded"), says("Rain.")]
    assert run(ScriptedModel(steps))[0] == "Rain."
    assert cut("<channel:x>", after=3).reply == "<ch"
    assert fails("timeout", times=2).repeat == 2


def test_the_same_replies_serve_native_tool_calling() -> None:
    settings = Settings(models=ModelsSettings(protocol="native"))
    model = NativeScriptedModel([call("tools.weather", city="Oslo").with_notes("I look."), says("Rain.")])
    answer, blocks = run(model, settings=settings)
    assert answer == "Rain."
    assert [block.text for block in blocks if isinstance(block, Notes)] == ["I look."]


def test_a_recorded_conversation_is_replayed(tmp_path: Path) -> None:
    steps: list[Step | str] = [malformed(), cut(says("x")), call("tools.weather", city="Oslo"), says("Rain. " * 9000)]
    recorded = Agent(ScriptedModel(steps), tools=[weather], store=tmp_path).run_sync("weather?")

    async def replies() -> list[Step]:
        store = await open_store(tmp_path)
        try:
            return await recorded_replies(store, recorded.conversation)
        finally:
            await store.close()

    again = Agent(ScriptedModel(asyncio.run(replies())), tools=[weather]).run_sync("weather?")
    assert (again.text, again.calls, again.usage) == (recorded.text, recorded.calls, recorded.usage)


def test_native_calls_cannot_be_replayed_as_a_script() -> None:
    store = MemoryStore()
    model = NativeScriptedModel([call("tools.weather", city="Oslo"), says("Rain.")])
    settings = Settings(models=ModelsSettings(protocol="native"))
    answer = Agent(model, tools=[weather], store=store, settings=settings).run_sync("weather?")
    with pytest.raises(CodedError, match="the reply of script in round 1 has native tool calls"):
        asyncio.run(recorded_replies(store, answer.conversation))
