"""Turns with native tool calling: the real adapters, and the same timeline as with channels."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.harness.native import DIALECTS, Dialect, NativeHarness, NativeSaid, native_stage, said, tools_of
from tests.harness.replay import run_replay
from tests.harness.replies import answers
from tests.harness.turn import TurnHarness, blocks_of, blocks_of_type, run
from timeloom.core.blocks import (
    AnyBlock,
    ApprovalRequested,
    Completion,
    ModelAnswered,
    ModelCalled,
    Notes,
    Notice,
    ResultStatus,
    Thinking,
    ToolCall,
    ToolCode,
    ToolTraits,
    WorkingSummary,
)
from timeloom.core.codes import CodedError
from timeloom.core.policy.next_step import TurnLimits
from timeloom.ports.tool import ToolContext
from timeloom.tools.define import tool

FANOUT = TurnLimits(fanout="safe_fanout")
COMPLETE = {"final_answer": "Done.", "suggested_followups": ["Why?"], "summary": "Goal: a file"}
CHANNELS = (
    '<channel:ReactDecisionOutV2>{"action":"call_tool","tool_call":{"tool_id":"t.look","params":{}}}'
    "</channel:ReactDecisionOutV2>"
)
dialects = pytest.mark.parametrize("dialect", DIALECTS)


def answered(blocks: list[AnyBlock]) -> list[ModelAnswered]:
    return [block for block in blocks if isinstance(block, ModelAnswered)]


def called(blocks: list[AnyBlock]) -> list[ModelCalled]:
    return [block for block in blocks if isinstance(block, ModelCalled)]


Written = type[Notes] | type[Thinking] | type[Completion] | type[ToolCode]


def texts(blocks: list[AnyBlock], kind: Written) -> list[object]:
    return [block.text for block in blocks if isinstance(block, kind)]


async def verify(stage: NativeHarness, conversation: object, requests: int) -> None:
    """Check that a replay rebuilds every request and finds nothing."""
    replayed, problems = await run_replay(stage.store, conversation)  # pyright: ignore[reportArgumentType]
    assert problems == []
    assert [one.verdict for one in replayed] == ["same"] * requests


@pytest.mark.parametrize("edition", [1, 2])
@dialects
def test_a_turn_of_several_rounds_is_wholly_on_the_timeline_and_replays(
    tmp_path: Path, dialect: Dialect, edition: int
) -> None:
    async def check() -> None:
        write = said(
            ("react_write", {"path": "files/a.md", "content": "# A <b>\n"}),
            text="I write it.",
            thinking="First a file.",
        )
        async with native_stage(tmp_path, dialect, write, said(("complete", dict(COMPLETE))), edition=edition) as stage:
            turns = await stage.open()
            assert await turns.run("write a file") == "completed"
            blocks = await blocks_of(turns)
            assert [block.tool_id for block in blocks if isinstance(block, ToolCall)] == ["react.write"]
            assert texts(blocks, Notes) == ["I write it."]
            assert texts(blocks, Thinking) == ["First a file."]
            assert blocks_of_type(blocks, Completion) == [Completion(text="Done.", suggested_followups=("Why?",))]
            assert [one.text for one in blocks if isinstance(one, WorkingSummary)] == ["Goal: a file"]
            turn = turns.session.views.progress.turn_id
            assert (turns.action_context.out_dir / turn / "files" / "a.md").read_text() == "# A <b>\n"
            assert stage.channel_text("canvas") == "# A <b>\n"
            assert stage.channel_text("timeline_text") == "I write it."
            assert stage.channel_text("answer") == "Done."
            assert stage.channel_text("thinking") == "First a file."
            assert {one.protocol for one in (*called(blocks), *answered(blocks))} == {"native"}
            assert answered(blocks)[0].text == "I write it."
            assert not blocks_of_type(blocks, Notice)
            await verify(stage, turns.session.conversation, 2)

    run(check)


@dialects
def test_a_request_is_one_user_message_with_the_tools_and_no_channels(tmp_path: Path, dialect: Dialect) -> None:
    async def check() -> None:
        async with native_stage(tmp_path, dialect, said(("t_look", {})), said(text="Yes.")) as stage:
            turns = await stage.open()
            assert await turns.run("look") == "completed"
            for body in stage.bodies:
                messages = body["messages"]
                assert isinstance(messages, list)
                roles = [str(one["role"]) for one in messages]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                assert roles == (["user"] if dialect == "anthropic" else ["system", "user"])
                assert "<channel:" not in json.dumps(body)
                assert '"react_read"' in json.dumps(body["tools"])
            first, second = (json.dumps(body["tools"]) for body in stage.bodies)
            assert first == second
            assert texts(await blocks_of(turns), Completion) == ["Yes."]
            assert stage.channel_text("answer") == "Yes."

    run(check)


@dialects
def test_several_calls_follow_the_rules_of_a_round(tmp_path: Path, dialect: Dialect) -> None:
    async def check(limits: TurnLimits, expected: int) -> None:
        both = said(("t_look", {}), ("t_look", {"size": 2}), text="Both.")
        async with native_stage(tmp_path, dialect, both, said(text="ok"), limits=limits) as stage:
            turns = await stage.open()
            assert await turns.run("go") == "completed"
            blocks = await blocks_of(turns)
            assert len(stage.effects) == expected
            codes = [one.code for one in blocks if isinstance(one, Notice)]
            assert codes == ([] if expected else ["protocol_violation.several_actions"])
            if not expected:
                # The reply that is asked for again is shown to the model.
                assert "t_look" in json.dumps(stage.bodies[-1]["messages"])
            await verify(stage, turns.session.conversation, 2)

    asyncio.run(check(FANOUT, 2))
    asyncio.run(check(TurnLimits(), 0))


@dialects
def test_the_parameter_code_is_the_program_of_the_call(tmp_path: Path, dialect: Dialect) -> None:
    code = f"print('''</channel:code>{CHANNELS}''')"
    ran: list[str] = []

    @tool("sheets.run", effect="idempotent", traits=ToolTraits(runs_code=True))
    async def execute(context: ToolContext, times: int = 1) -> str:
        """Runs a program."""
        ran.append(f"{context.tool_call_id} {times}")
        return "ran"

    async def check() -> None:
        replies = (
            said(("sheets_run", {"times": 2})),
            said(("sheets_run", {"times": 2, "code": code})),
            said(text="ok"),
        )
        async with native_stage(tmp_path, dialect, *replies) as stage:
            stage.extra = (execute,)
            turns = await stage.open()
            assert await turns.run("go") == "completed"
            blocks = await blocks_of(turns)
            assert texts(blocks, ToolCode) == [code]
            assert stage.channel_text("code") == code
            assert [one.params for one in blocks if isinstance(one, ToolCall)] == ['{"times":2}']
            assert [one.code for one in blocks if isinstance(one, Notice)] == ["protocol_violation.code_missing"]
            assert (len(ran), stage.effects) == (1, [])

    run(check)


@dialects
def test_malformed_arguments_are_repaired_or_asked_for_again(tmp_path: Path, dialect: Dialect) -> None:
    async def check() -> None:
        replies = (said(("t_look", "{'size': 2,}")), said(("t_look", '{"size": 1} or')), said(text="ok"))
        async with native_stage(tmp_path, dialect, *replies) as stage:
            turns = await stage.open()
            assert await turns.run("go") == "completed"
            blocks = await blocks_of(turns)
            assert [one.params for one in blocks if isinstance(one, ToolCall)] == ['{"size":2}']
            assert answered(blocks)[0].repairs == ("single_quotes", "trailing_comma")
            assert [one.code for one in blocks if isinstance(one, Notice)] == ["protocol_violation.decision_malformed"]
            await verify(stage, turns.session.conversation, 3)

    run(check)


@dialects
def test_a_cut_stream_is_recorded_and_the_request_is_sent_again(tmp_path: Path, dialect: Dialect) -> None:
    async def check() -> None:
        cut = NativeSaid(text="I look.", calls=[("t_look", '{"size": 2}')], ending="cut")
        async with native_stage(tmp_path, dialect, cut, said(text="ok")) as stage:
            turns = await stage.open()
            assert await turns.run("go") == "completed"
            first, second = answered(await blocks_of(turns))
            assert (first.error, first.interrupted, second.error) == ("cut", True, "")
            assert '"t_look"' in str(first.tool_calls)
            assert stage.effects == []
            await verify(stage, turns.session.conversation, 2)

    run(check)


@dialects
def test_a_call_that_reached_the_length_limit_is_not_run(tmp_path: Path, dialect: Dialect) -> None:
    async def check() -> None:
        cut = NativeSaid(calls=[("t_look", '{"size": 2')], limit=True)
        async with native_stage(tmp_path, dialect, cut, said(text="ok")) as stage:
            turns = await stage.open()
            assert await turns.run("go") == "completed"
            assert stage.effects == []
            (notice,) = [one for one in await blocks_of(turns) if isinstance(one, Notice)]
            assert notice.text.endswith("The reply ended before the arguments did.")

    run(check)


@dialects
def test_a_steer_stops_a_tool_call_while_it_is_written(tmp_path: Path, dialect: Dialect) -> None:
    async def check() -> None:
        slow = NativeSaid(text="I look.", calls=[("t_look", '{"size": 2}')], ending="stall")
        async with native_stage(tmp_path, dialect, slow, said(text="the other way"), edition=2) as stage:
            turns = await stage.open()
            seen = asyncio.Event()
            turns.model_caller.on_delta = lambda delta: seen.set() if "ook." in delta.text else None
            running = asyncio.create_task(turns.run("go"))
            await seen.wait()
            await turns.inbox.steer("turn around")
            assert await running == "completed"
            blocks = await blocks_of(turns)
            assert [one.error for one in answered(blocks)] == ["steered", ""]
            assert (stage.effects, texts(blocks, Completion)) == ([], ["the other way"])
            begun = json.dumps(stage.bodies[-1]).partition("[INTERRUPTED ATTEMPT]")[2]
            assert "I look." in begun
            assert "t_look" in begun

    run(check)


@dialects
def test_an_answer_loses_the_escapes_that_the_model_copied(tmp_path: Path, dialect: Dialect) -> None:
    async def check() -> None:
        replies = (said(text="~[link](u)\nb"), said(("complete", {"final_answer": "a\n~[link](u)"})))
        async with native_stage(tmp_path, dialect, *replies, edition=2) as stage:
            turns = await stage.open()
            shown: list[str] = []
            turns.model_caller.on_delta = lambda delta: shown.append(delta.text)
            assert await turns.run("one") == "completed"
            assert await turns.run("two") == "completed"
            assert texts(await blocks_of(turns), Completion) == ["[link](u)\nb", "a\n[link](u)"]
            assert "".join(shown) == "[link](u)\nba\n[link](u)"
            await verify(stage, turns.session.conversation, 2)

    run(check)


@dialects
def test_after_a_crash_within_a_call_the_recorded_reply_goes_on(tmp_path: Path, dialect: Dialect) -> None:
    async def check() -> None:
        attempts: list[str] = []
        began = asyncio.Event()

        @tool("t.crash", effect="pure")
        async def crash(context: ToolContext) -> str:
            """Never ends the first time."""
            attempts.append(context.tool_call_id)
            if len(attempts) == 1:
                began.set()
                await asyncio.Event().wait()
            return "ended"

        three = said(("t_look", {}), ("t_crash", {}), ("t_look", {"size": 2}), text="All.")
        async with native_stage(tmp_path, dialect, three, said(text="ok"), limits=FANOUT) as stage:
            stage.extra = (crash,)
            turns = await stage.open()
            running = asyncio.create_task(turns.run("go"))
            await began.wait()
            running.cancel()
            await asyncio.wait([running])
            again = await stage.reopen(turns.session)
            assert await again.resume() == "completed"
            assert (len(attempts), len(stage.effects), len(stage.bodies)) == (2, 2, 2)
            await verify(stage, again.session.conversation, 2)

    run(check)


@dialects
def test_a_repaired_reply_is_read_as_it_was_after_a_restart(tmp_path: Path, dialect: Dialect) -> None:
    async def check() -> None:
        async with native_stage(tmp_path, dialect, said(("complete", "{'final_answer': 'Yes'}"))) as stage:
            turns = await stage.open()
            assert await turns.run("go") == "completed"
            before = await turns.model_caller.load_reply()
            again = await stage.reopen(turns.session)
            assert await again.model_caller.load_reply() == before

    run(check)


@dialects
def test_a_call_that_needs_approval_waits_for_a_person(tmp_path: Path, dialect: Dialect) -> None:
    async def check() -> None:
        async with native_stage(tmp_path, dialect, said(("t_send", {})), said(text="ok")) as stage:
            turns = await stage.open()
            assert await turns.run("send") == "waiting"
            (asked,) = [one for one in await blocks_of(turns) if isinstance(one, ApprovalRequested)]
            assert (asked.tool_id, stage.effects) == ("t.send", [])

    run(check)


@dialects
def test_an_unknown_function_is_a_result_and_one_spelled_alike_is_found(tmp_path: Path, dialect: Dialect) -> None:
    async def check() -> None:
        replies = (said(("t_nope", {})), said(("functions.t.look", {})), said(text="ok"))
        async with native_stage(tmp_path, dialect, *replies) as stage:
            turns = await stage.open()
            assert await turns.run("go") == "completed"
            blocks = await blocks_of(turns)
            assert [one.error.code for one in blocks if isinstance(one, ResultStatus) and one.error] == ["unknown_tool"]
            assert len(stage.effects) == 1

    run(check)


@dialects
def test_tools_that_come_and_go_do_not_change_the_pinned_list(tmp_path: Path, dialect: Dialect) -> None:
    @tool("new.one", effect="pure")
    async def new(word: str) -> str:
        """Says a word."""
        return word

    async def check() -> None:
        called_later = said(("call_tool", {"tool_id": "new.one", "params": {"word": "hello"}}))
        replies = (said(text="one"), called_later, said(("t_gone", {})), said(text="two"))
        async with native_stage(tmp_path, dialect, *replies) as stage:
            stage.extra = (tool("t.gone", effect="pure")(gone),)
            turns = await stage.open()
            assert await turns.run("first") == "completed"
            stage.extra = (new,)
            again = await stage.reopen(turns.session)
            assert await again.run("second") == "completed"
            blocks = await blocks_of(again)
            assert len(tools_of(called(blocks))) == 1
            assert len({json.dumps(body["tools"]) for body in stage.bodies}) == 1
            system = json.dumps(stage.bodies[-1])
            assert "### new.one" in system
            assert "do not call them: `t_gone`" in system
            failed = [one.error for one in blocks if isinstance(one, ResultStatus) and one.error]
            assert [one.code for one in failed] == ["unknown_tool"]
            assert "the tool 't.gone' was removed, and only its function is left" in failed[0].message
            assert [one.tool_id for one in blocks if isinstance(one, ToolCall)] == ["new.one", "t.gone"]
            await verify(stage, again.session.conversation, 4)

    run(check)


async def gone() -> str:
    """Is there at first."""
    return "there"


@dialects
def test_a_reply_in_channels_runs_nothing_and_is_asked_for_again(tmp_path: Path, dialect: Dialect) -> None:
    async def check() -> None:
        async with native_stage(tmp_path, dialect, said(text=CHANNELS), said(text=f"Like this: {CHANNELS}")) as stage:
            turns = await stage.open()
            assert await turns.run("go") == "completed"
            blocks = await blocks_of(turns)
            assert stage.effects == []
            assert [one.code for one in blocks if isinstance(one, Notice)] == ["protocol_violation.decision_missing"]
            assert texts(blocks, Completion) == [f"Like this: {CHANNELS}"]

    run(check)


def test_a_conversation_may_change_its_protocol_between_turns(tmp_path: Path) -> None:
    async def check() -> None:
        channels = NativeSaid(text=answers("b"))
        async with native_stage(tmp_path, "openai", said(text="a"), channels, said(text="c")) as stage:
            turns = await stage.open()
            assert await turns.run("one") == "completed"
            for protocol in ("channels", "native"):
                stage.setting = replace(stage.setting, protocol=protocol)
                turns = await stage.reopen(turns.session)
                assert await turns.run(protocol) == "completed"
            blocks = await blocks_of(turns)
            assert texts(blocks, Completion) == ["a", "b", "c"]
            assert [one.protocol for one in called(blocks)] == ["native", "channels", "native"]
            assert ["tools" in body for body in stage.bodies] == [True, False, True]
            await verify(stage, turns.session.conversation, 3)

    run(check)


def test_a_model_without_native_tool_calling_refuses_the_setting(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, "x")
        stage.setting = replace(stage.setting, protocol="native")
        with pytest.raises(CodedError, match=r"has no native tool calling; set models\.protocol to channels") as error:
            await stage.open()
        assert error.value.code == "setting_invalid"

    run(check)
