"""The public agent: a script's messages run through the same hub, session and gates as the server's."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import msgspec
import pydantic
import pytest

import timeloom
from timeloom import DEFAULT_POLICIES, Agent, Allowance, Answer, Approval, Budgets, Entry, ask_before, tool
from timeloom.core.blocks import UserPrompt
from timeloom.core.codes import CodedError
from timeloom.runtime.hub.events import ChatComplete
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing import ScriptedModel, call, malformed, says, several


@tool(effect="pure")
def weather(city: str) -> str:
    """Return the current weather."""
    return f"7 degrees and rain in {city}"


@tool("orders.refund")
async def refund(order: str) -> str:
    """Refund the order."""
    return f"refunded {order}"


def weather_model() -> ScriptedModel:
    return ScriptedModel([call("tools.weather", city="Oslo"), says("7 degrees.")])


def refund_model() -> ScriptedModel:
    return ScriptedModel([call("orders.refund", order="A1"), says("Done.")])


def run(work: Awaitable[Answer[str]]) -> Answer[str]:
    async def main() -> Answer[str]:
        return await work

    return asyncio.run(main())


def test_a_script_gets_the_answer_its_calls_and_its_usage() -> None:
    answer = Agent(weather_model(), tools=[weather]).run_sync("weather?")
    assert (answer.reason, answer.text, answer.output) == ("completed", "7 degrees.", "7 degrees.")
    assert answer.calls == [("tools.weather", {"city": "Oslo"})]
    assert answer.usage.output_tokens > 0
    assert answer.cost_usd == 0


def test_a_closed_agent_keeps_its_conversations_in_memory() -> None:
    agent = Agent(ScriptedModel([says("One."), says("Two.")]))
    first = agent.run_sync("hello")
    assert agent.run_sync("again", conversation=first.conversation).text == "Two."


def test_a_stream_yields_the_text_in_pieces_and_then_the_answer() -> None:
    async def main() -> None:
        model = ScriptedModel([says("A long answer in pieces.")])
        async with Agent(model) as agent, agent.stream("hello") as stream:
            with pytest.raises(CodedError, match="still running"):
                _ = stream.answer
            pieces = [piece async for piece in stream.text()]
            assert "".join(pieces) == stream.answer.text == "A long answer in pieces."
            assert stream.answer.conversation == stream.conversation
            assert [event async for event in stream] == []

    asyncio.run(main())


def test_a_run_that_is_finished_early_skips_the_rest_of_its_text_and_blocks() -> None:
    async def main() -> None:
        async with Agent(weather_model(), tools=[weather]) as agent, agent.stream("weather?") as stream:
            first = [event async for event in stream.text()][:1]
            assert first
            assert (await stream.finish()).text == "7 degrees."
        async with Agent(weather_model(), tools=[weather]) as agent, agent.stream("weather?") as stream:
            async for event in stream:
                assert event
                break
            answer = await stream.finish()
            assert (answer.text, answer.calls) == ("7 degrees.", [("tools.weather", {"city": "Oslo"})])

    asyncio.run(main())


def test_events_end_with_the_turn() -> None:
    async def main() -> None:
        async with Agent(weather_model(), tools=[weather]) as agent, agent.stream("hello") as stream:
            events = [event async for event in stream]
        assert isinstance(events[-1], ChatComplete)

    asyncio.run(main())


def test_a_call_waits_for_a_decision_in_another_process(tmp_path: Path) -> None:
    def make_agent() -> Agent[str]:
        return Agent(refund_model(), tools=[refund], store=tmp_path, budgets=Budgets(user=Allowance(usd=1)))

    waiting = make_agent().run_sync("Refund order A1.", user="ann")
    assert waiting.reason == "waiting"
    [approval] = waiting.approvals
    assert (approval.tool_id, approval.params) == ("orders.refund", {"order": "A1"})
    with pytest.raises(CodedError, match="its reason is waiting"):
        _ = waiting.output
    answer = run(make_agent().decide(waiting.conversation, approval.call_id, approved=True, by="bob"))
    assert (answer.reason, answer.text) == ("completed", "Done.")
    assert answer.turn == waiting.turn
    assert answer.calls == [("orders.refund", {"order": "A1"})]


@pytest.mark.parametrize("verdict", [True, False])
def test_an_approver_decides_at_once(verdict: bool) -> None:
    asked: list[Approval] = []

    async def approve(approval: Approval) -> bool:
        asked.append(approval)
        return verdict

    model = ScriptedModel([call("orders.refund", order="A1"), says("Done.")])
    answer = Agent(model, tools=[refund]).run_sync("Refund.", approve=approve)
    assert answer.reason == "completed"
    assert [one.tool_id for one in asked] == ["orders.refund"]


def test_an_approver_may_be_sync_and_policies_replace_the_defaults() -> None:
    policies = [*DEFAULT_POLICIES, ask_before(["tools.weather"])]
    agent = Agent(weather_model(), tools=[weather], policies=policies)
    assert agent.run_sync("weather?", approve=lambda approval: approval.params == {"city": "Oslo"}).text == "7 degrees."


def test_conversations_of_a_data_folder_belong_to_the_local_user(tmp_path: Path) -> None:
    answer = Agent(ScriptedModel([says("Hi.")]), store=str(tmp_path), react=False).run_sync("hello", user="ann")

    async def read() -> tuple[str, str, str]:
        async with await SqliteStore.open(tmp_path) as store:
            info = await store.info(answer.conversation)
            return info.tenant, info.project, info.user

    assert asyncio.run(read()) == ("local", "default", "ann")


def test_a_conversation_of_another_user_is_unknown() -> None:
    agent = Agent(ScriptedModel([says("Hi.")]))
    answer = agent.run_sync("hello", user="ann")
    with pytest.raises(CodedError, match="bob has no conversation"):
        agent.run_sync("hello", conversation=answer.conversation, user="bob")


def test_the_timeline_can_be_read_forked_and_compacted(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("Buy milk.")

    async def main() -> None:
        async with Agent(ScriptedModel([says("One."), says("Two.")])) as agent:
            answer = await agent.run("hello", files=[note])
            entries: list[Entry] = [entry async for entry in agent.timeline(answer.conversation)]
            assert any(isinstance(entry.block, UserPrompt) for entry in entries)
            copy = await agent.fork(answer.conversation)
            assert copy != answer.conversation
            assert (await agent.run("again", conversation=copy)).text == "Two."
            outcome = await agent.compact(answer.conversation)
            assert outcome.message_id

    asyncio.run(main())


def test_a_running_turn_takes_messages_and_can_be_cancelled() -> None:
    started, released = asyncio.Event(), asyncio.Event()

    @tool("slow.work", effect="pure")
    async def work() -> str:
        """Work until released."""
        started.set()
        await released.wait()
        return "done"

    async def main() -> None:
        async with Agent(ScriptedModel([call("slow.work"), says("Late.")]), tools=[work]) as agent:
            async with agent.stream("work") as stream:
                await started.wait()
                await agent.follow_up(stream.conversation, "and hurry")
                await agent.steer(stream.conversation, "stop that")
                await agent.cancel(stream.conversation)
                answer = await stream.finish()
            assert answer.reason == "cancelled"
            with pytest.raises(CodedError, match="no answer, its reason is cancelled"):
                _ = answer.output

    asyncio.run(main())


def test_messages_to_a_closed_agent_are_refused() -> None:
    agent = Agent(ScriptedModel([says("Hi.")]))
    with pytest.raises(CodedError, match="async with agent"):
        asyncio.run(agent.cancel("conv_1_a"))


def test_an_open_agent_cannot_be_opened_again() -> None:
    async def main() -> None:
        async with Agent(ScriptedModel([says("Hi.")])) as agent:
            with pytest.raises(CodedError, match="open already"):
                await agent.__aenter__()

    asyncio.run(main())


def test_react_tools_are_chosen_by_id() -> None:
    model = ScriptedModel([call("react.write", path="a.md", content="text"), says("Written.")])
    answer = Agent(model, react=["react.write"]).run_sync("write")
    assert [file.path.endswith("a.md") for file in answer.files] == [True]
    with pytest.raises(CodedError, match=r"react names react\.sing; the built-in tools are .*react\.read"):
        Agent(model, react=["react.sing"]).run_sync("sing")


def test_wrong_input_is_refused_before_anything_starts(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel([says("Hi.")]))
    with pytest.raises(CodedError, match="must not be empty"):
        agent.run_sync("  ")
    with pytest.raises(CodedError, match=r"gone\.txt cannot be read"):
        agent.run_sync("hello", files=[tmp_path / "gone.txt"])
    with pytest.raises(CodedError, match=r"tools\.weather"):
        Agent("script:none", tools=[weather, weather])


def test_a_malformed_reply_is_asked_again_and_several_actions_are_one_reply() -> None:
    assert Agent(ScriptedModel([malformed("nonsense"), says("Hi.")])).run_sync("hello").text == "Hi."
    reply = several(call("tools.weather", city="Oslo"), call("tools.weather", city="Rome"))
    assert reply.count("<channel:thinking>") == 1
    assert reply.count("<channel:action>") == 2
    assert "Go on?" in says("Hi.", followups=("Go on?",))


def test_every_public_name_can_be_imported() -> None:
    for name in timeloom.__all__:
        assert getattr(timeloom, name) is not None
    assert set(timeloom.__all__) <= set(dir(timeloom))
    with pytest.raises(AttributeError, match="nothing"):
        _ = getattr(timeloom, "nothing")  # noqa: B009 - the type checker knows the name is missing


class Verdict(msgspec.Struct):
    order: str
    amount: float


def test_a_typed_answer_is_validated_in_the_turn_and_asked_again() -> None:
    model = ScriptedModel([says('{"order": "A1"}'), says('{"order": "A1", "amount": 7}')])
    answer = Agent(model, output=Verdict).run_sync("refund?")
    verdict: Verdict = answer.output
    assert verdict == Verdict(order="A1", amount=7)


def test_a_typed_answer_can_be_read_field_by_field() -> None:
    async def main() -> None:
        model = ScriptedModel([says('{"order": "A1", "amount": 7}')])
        async with Agent(model, output=Verdict) as agent, agent.stream("refund?") as stream:
            parts = [part async for part in stream.partial()]
            assert parts[-1] == {"order": "A1", "amount": 7}
            assert stream.answer.output.amount == 7

    asyncio.run(main())


def test_a_pydantic_model_decodes_its_own_answer() -> None:
    class Order(pydantic.BaseModel):
        order: str

    answer = Agent(ScriptedModel([says('{"order": "A1"}')]), output=Order).run_sync("which?")
    assert answer.output.order == "A1"
