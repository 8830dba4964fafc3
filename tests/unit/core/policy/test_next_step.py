"""The policy of a turn chooses the next step from its progress, and always terminates."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import (
    AnyBlock,
    ApprovalDecided,
    ApprovalRequested,
    Completion,
    ExternalEvent,
    Followup,
    ModelAnswered,
    ModelCalled,
    Notice,
    ResultStatus,
    RoundStarted,
    Steer,
    ToolCall,
    ToolTraits,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.policy.fanout import MAX_ACTIONS, find_fanout_faults
from timeloom.core.policy.next_step import (
    NO_REASON,
    AskModel,
    CompactContext,
    DropCall,
    EndTurn,
    ExecuteAction,
    Idle,
    RejectReply,
    RunCall,
    SettleCall,
    StartRound,
    Step,
    TurnLimits,
    WaitForApproval,
    next_step,
)
from timeloom.core.policy.read_reply import ParsedReply, read_reply
from timeloom.core.stream.decision import CallToolDecision, CompleteDecision, Decision, ExitDecision
from timeloom.core.timeline import NO_TURN, Draft, to_entry
from timeloom.core.view.context.compactions import CompactionRequest
from timeloom.core.view.progress import ProgressView

TS = "2026-02-09T02:14:32.676425Z"
TURN = TurnId("turn_1")
SEQS = itertools.count(1)
LIMITS = TurnLimits(max_iterations=3)
CALL = CallToolDecision("x.y", "{}")
ANSWER = CompleteDecision("done")
HEARD = Followup(message_id=MessageId("m"), text="and this")


def decided(*decisions: Decision, code: str | None = None) -> ParsedReply:
    return ParsedReply(decisions=decisions, code=code)


def written(value: dict[str, object]) -> str:
    return f"<channel:ReactDecisionOutV2>{json.dumps(value)}</channel:ReactDecisionOutV2>"


def asked(number: int = 1) -> list[AnyBlock]:
    return [RoundStarted(round=number), ModelCalled(round=number, model="m", request_sha256="x")]


def answered(error: str = "") -> ModelAnswered:
    return ModelAnswered(round=1, model="m", stop_reason="end", error=error)


def called(call: str = "c1") -> list[AnyBlock]:
    return [ToolCall(tool_id="x.y", tool_call_id=CallId(call)), ResultStatus(tool_call_id=CallId(call), text="ok")]


def cancel(text: str = "shutting\ndown", by: str = "the server") -> ExternalEvent:
    return ExternalEvent(kind="cancel", message_id=MessageId("x"), text=text, author=by)


def steer() -> Steer:
    return Steer(message_id=MessageId("m"), text="the other way")


def after(*blocks: AnyBlock, view: ProgressView | None = None) -> ProgressView:
    view = view or after(TurnStarted(n=1), UserPrompt(text="hi"), view=ProgressView())
    for block in blocks:
        view.add(to_entry(Draft(TURN, TS, block), next(SEQS)))
    return view


@pytest.mark.parametrize(
    ("blocks", "reply", "step"),
    [
        ([], None, StartRound(1)),
        ([RoundStarted(round=1)], None, AskModel(1, 1, last=False)),
        (asked(), None, AskModel(1, 2, last=False)),
        ([*asked(), answered()], decided(CALL), ExecuteAction(0, CALL)),
        ([*asked(), answered(), called()[0]], decided(CALL), SettleCall()),
        ([*asked(), answered(), *called()], decided(CALL), StartRound(2)),
        ([*asked(), answered()], decided(ANSWER), ExecuteAction(0, ANSWER)),
        ([*asked(), answered(), Completion(text="done")], decided(ANSWER), EndTurn("completed")),
        ([*asked(), answered()], decided(ExitDecision(notes="no")), EndTurn("exited", "no")),
        ([*asked(), answered()], decided(ExitDecision(" \n", notes=" ")), EndTurn("exited", NO_REASON)),
        ([*asked(), HEARD, answered()], decided(ExitDecision()), StartRound(2)),
        ([*asked(), answered(), Completion(text="x")], decided(ExitDecision("x")), EndTurn("exited")),
        ([*asked(), answered("overloaded")], None, AskModel(1, 2, last=False)),
        ([*asked(), answered("context_too_long")], None, AskModel(1, 2, last=False, smaller=True)),
        ([*asked(), answered("steered")], None, AskModel(1, 2, last=False)),
        ([*asked(), answered("refused")], None, EndTurn("provider_error", "the model did not answer (refused)")),
        ([*asked(3)], None, AskModel(3, 2, last=True)),
        ([TurnEnded(reason="completed")], None, Idle()),
        ([Steer(message_id=MessageId("m"))], None, EndTurn("stopped", "the user stopped the turn")),
        ([cancel()], None, EndTurn("cancelled", "cancelled by the server: shutting down")),
        ([cancel(""), Steer(message_id=MessageId("m"))], None, EndTurn("cancelled", "cancelled by the server")),
        ([*asked(), answered(), called()[0], cancel()], decided(CALL), SettleCall(again=False)),
        ([*asked(), answered(), called()[0], Steer(message_id=MessageId("m"))], None, SettleCall(again=False)),
        ([*asked(), answered(), called()[0], steer()], decided(CALL), SettleCall(again=False)),
        ([*asked(), answered(), steer(), called()[0]], decided(CALL), SettleCall(again=False)),
        ([*asked(), steer(), *asked(2), answered(), called()[0]], decided(CALL), SettleCall()),
        ([*asked(), answered(), cancel("", by="")], decided(CALL), EndTurn("cancelled", "cancelled by somebody")),
    ],
)
def test_what_follows_from_where_the_turn_stands(blocks: list[AnyBlock], reply: ParsedReply | None, step: Step) -> None:
    assert next_step(after(*blocks), reply, LIMITS) == step


def test_an_answer_that_nobody_can_read_is_a_fault() -> None:
    assert isinstance(next_step(after(*asked(3), answered()), None, LIMITS), RejectReply)


def test_a_follow_up_after_the_answer_goes_on_and_earns_a_round() -> None:
    follow = Followup(message_id=MessageId("m"), text="and?")
    progress = after(*asked(3), answered(), Completion(text="done"), follow)
    assert next_step(progress, decided(ANSWER), LIMITS) == StartRound(4)


def test_a_cancellation_is_no_input_that_is_to_be_answered() -> None:
    progress = after(*asked(), cancel())
    assert (progress.unseen, progress.credits) == ([], 0)
    assert after(TurnStarted(n=2), view=progress).cancelled == ""


def test_a_new_course_leaves_a_few_rounds() -> None:
    progress = after(*asked(1), Steer(message_id=MessageId("m"), text="stop searching"), RoundStarted(round=3))
    assert next_step(progress, None, TurnLimits(max_iterations=9)) == AskModel(3, 1, last=True)


def test_a_fault_is_told_then_asked_again_then_given_up() -> None:
    reply = read_reply("<channel:thinking>no decision</channel:thinking>")
    progress = after(*asked(), answered())
    step = next_step(progress, reply, LIMITS)
    assert isinstance(step, RejectReply)
    assert step.remarks[0].code == "protocol_violation.decision_missing"
    for _ in range(LIMITS.max_rejected_replies):
        after(Notice(code="x", text="y"), view=progress)
        assert isinstance(next_step(progress, reply, LIMITS), AskModel)
        after(asked()[1], answered(), view=progress)
    after(Notice(code="x", text="y"), view=progress)
    end = next_step(progress, reply, LIMITS)
    assert isinstance(end, EndTurn)
    assert end.reason == "protocol_failure"


def test_the_last_round_must_answer() -> None:
    progress = after(*asked(3), answered())
    assert isinstance(next_step(progress, decided(CALL), LIMITS), RejectReply)
    for _ in range(LIMITS.max_rejected_replies):
        after(Notice(code="x", text="y"), asked()[1], answered(), view=progress)
    after(Notice(code="x", text="y"), view=progress)
    end = next_step(progress, decided(CALL), LIMITS)
    assert isinstance(end, EndTurn)
    assert end.reason == "max_iterations"


def test_an_answer_that_new_input_overtook_in_the_last_round_ends_the_turn() -> None:
    event = Steer(message_id=MessageId("m"), text="hm")
    progress = after(*asked(3), answered(), Completion(text="done"), event)
    end = next_step(progress, decided(ANSWER), LIMITS)
    assert isinstance(end, EndTurn)
    assert end.reason == "max_iterations"


def test_too_many_failures_end_the_turn() -> None:
    progress = after(*asked())
    for _ in range(LIMITS.max_failed_requests + 1):
        after(answered("overloaded"), view=progress)
    assert isinstance(next_step(progress, None, LIMITS), EndTurn)


def test_what_belongs_to_other_turns_changes_nothing() -> None:
    progress = after(*asked())
    other = Draft(TurnId("turn_9"), TS, answered())
    progress.add(to_entry(other, 1))
    progress.add(to_entry(Draft(NO_TURN, TS, answered()), 1))
    assert progress.asked == "asked"
    after(ExternalEvent(kind="form", message_id=MessageId("m")), Notice(code="x", text="y"), view=progress)
    assert (progress.credits, progress.told) == (1, False)


@pytest.mark.parametrize(
    ("actions", "word"),
    [
        ([CALL] * (MAX_ACTIONS + 1), "at most"),
        ([ANSWER, ANSWER], "one final action"),
        ([CALL, ANSWER], "does not need"),
        ([ANSWER, CallToolDecision("react.plan", "{}")], "last action"),
        ([CallToolDecision("exec_tools.run", "{}")] * 2, "one program"),
        (
            [CallToolDecision("react.write", '{"path":"a"}'), CallToolDecision("react.patch", '{"path":"a"}')],
            "same file",
        ),
        ([CallToolDecision("react.write", '{"path":"a"}'), CallToolDecision("x.y", '{"p":"ref:a"}')], "later round"),
    ],
)
def test_actions_that_may_not_share_a_round(actions: list[Decision], word: str) -> None:
    faults = find_fanout_faults(actions, "safe_fanout")
    assert any(word in fault.text for fault in faults)
    assert find_fanout_faults(actions, "off")[0].code == "protocol_violation.several_actions"


@pytest.mark.parametrize(
    "actions",
    [
        [CALL, CALL],
        [CallToolDecision("react.plan", "{}"), ANSWER],
        [CallToolDecision("react.write", "[]"), CallToolDecision("react.write", '{"path":"b"}')],
    ],
)
def test_actions_that_may_share_a_round(actions: list[Decision]) -> None:
    assert find_fanout_faults(actions, "safe_fanout") == ()


OWN_TOOLS = {
    "notes.save": ToolTraits(path_param="to", content_param="text", allows_answer=True),
    "sheets.run": ToolTraits(runs_code=True),
}


def test_an_own_tool_whose_result_is_not_needed_may_share_a_round_with_an_answer() -> None:
    actions = [CallToolDecision("notes.save", '{"to":"a","text":"b"}'), ANSWER]
    assert find_fanout_faults(actions, "safe_fanout", OWN_TOOLS) == ()
    assert "does not need" in find_fanout_faults(actions, "safe_fanout")[0].text


@pytest.mark.parametrize(
    ("others", "word"),
    [
        ([CallToolDecision("react.write", '{"path":"a"}')], "same file"),
        ([CallToolDecision("x.y", '{"p":"ref:a"}')], "later round"),
        ([CallToolDecision("sheets.run", "{}"), CallToolDecision("exec_tools.run", "{}")], "one program"),
    ],
)
def test_files_and_programs_of_own_tools_count_in_a_round(others: list[Decision], word: str) -> None:
    actions = [CallToolDecision("notes.save", '{"to":"a","text":"b"}'), *others]
    assert [word in fault.text for fault in find_fanout_faults(actions, "safe_fanout", OWN_TOOLS)] == [True]
    assert find_fanout_faults(actions, "safe_fanout") == ()


@pytest.mark.parametrize("params", ["{}", '{"to":7}', "[]"])
def test_an_own_tool_without_a_usable_path_writes_no_file_twice(params: str) -> None:
    actions = [CallToolDecision("notes.save", params)] * 2
    assert find_fanout_faults(actions, "safe_fanout", OWN_TOOLS) == ()


def test_the_next_step_knows_the_traits_of_own_tools() -> None:
    limits = TurnLimits(fanout="safe_fanout")
    reply = decided(CallToolDecision("notes.save", '{"to":"a","text":"b"}'), ANSWER)
    progress = after(*asked(), answered())
    assert next_step(progress, reply, limits, OWN_TOOLS) == ExecuteAction(0, reply.decisions[0])
    assert isinstance(next_step(progress, reply, limits), RejectReply)


def test_code_belongs_to_an_own_tool_that_runs_it() -> None:
    call = written({"action": "call_tool", "tool_call": {"tool_id": "sheets.run"}})
    code = "<channel:code>1</channel:code>"
    assert (read_reply(call + code, OWN_TOOLS).code, read_reply(call + code, OWN_TOOLS).faults) == ("1", ())
    assert [fault.code for fault in read_reply(call, OWN_TOOLS).faults] == ["protocol_violation.code_missing"]


def test_a_reply_is_read_in_its_parts() -> None:
    text = "<channel:thinking>\nhm\n</channel:thinking>" + written({"action": "complete", "final_answer": "yes"})
    reply = read_reply(text + "<channel:summary>Goal: x</channel:summary>")
    assert (reply.thinking, reply.summary, reply.code, reply.faults) == ("hm", "Goal: x", None, ())
    assert reply.decisions == (CompleteDecision("yes"),)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<channel:ReactDecisionOutV2>{", "protocol_violation.decision_malformed"),
        (
            written({"action": "call_tool", "tool_call": {"tool_id": "exec_tools.run"}}),
            "protocol_violation.code_missing",
        ),
        (
            written({"action": "complete", "final_answer": "x"}) + "<channel:code>1</channel:code>",
            "protocol_violation.code_without_exec",
        ),
    ],
)
def test_a_reply_that_cannot_be_carried_out_says_why(text: str, code: str) -> None:
    assert [fault.code for fault in read_reply(text).faults] == [code]


def test_code_belongs_to_the_call_that_runs_it() -> None:
    text = (
        written({"action": "call_tool", "tool_call": {"tool_id": "exec_tools.run"}})
        + "<channel:code>\n1\n</channel:code>"
    )
    assert (read_reply(text).code, read_reply(text).faults) == ("1", ())


replies = st.sampled_from(
    [
        decided(CALL),
        decided(ANSWER),
        decided(CALL, CALL),
        decided(ExitDecision()),
        ParsedReply(faults=read_reply("").faults),
        None,
    ]
)


@given(st.lists(replies, min_size=1, max_size=60), st.sampled_from(["off", "safe_fanout"]))
def test_every_turn_ends_whatever_the_model_says(said: list[ParsedReply | None], mode: str) -> None:
    limits = TurnLimits(max_iterations=4, fanout="safe_fanout" if mode == "safe_fanout" else "off")
    progress, reply, number = after(), None, 0
    for _ in range(400):
        match step := next_step(progress, reply, limits):
            case StartRound(round=n):
                after(RoundStarted(round=n), view=progress)
            case AskModel():
                reply = said[number % len(said)]
                number += 1
                after(asked()[1], answered("" if reply else "overloaded"), view=progress)
            case RejectReply():
                after(Notice(code="x", text="y"), view=progress)
            case ExecuteAction(decision=CallToolDecision()):
                after(*called(f"c{number}"), view=progress)
            case ExecuteAction():
                after(Completion(text="x"), view=progress)
            case EndTurn():
                return
            case _:
                raise AssertionError(step)
    raise AssertionError("the turn did not end")


def test_what_was_decided_once_stays_decided() -> None:
    call_id = CallId("c1")
    question = ApprovalRequested(tool_call_id=call_id, tool_id="x.y", text="run it?")
    yes = ApprovalDecided(tool_call_id=call_id, approved=True, by="ann")
    no = ApprovalDecided(tool_call_id=call_id, approved=False, by="ben")
    begun = [*asked(), answered(), ToolCall(tool_id="x.y", tool_call_id=call_id), question]
    assert next_step(after(*begun), decided(CALL), LIMITS) == WaitForApproval()
    assert next_step(after(*begun, yes, no), decided(CALL), LIMITS) == RunCall()
    dropped = next_step(after(*begun, no, yes), decided(CALL), LIMITS)
    assert dropped == DropCall("call_not_approved", "the call was not run: refused by ben")


def test_a_request_that_crashes_cut_off_again_and_again_ends_the_turn() -> None:
    limits = TurnLimits(max_lost_requests=3)
    called = asked()[1:]
    assert isinstance(next_step(after(RoundStarted(round=1), *called * 3), None, limits), AskModel)
    end = next_step(after(RoundStarted(round=1), *called * 4), None, limits)
    assert end == EndTurn("runtime_error", "the program stopped 4 times while the model was asked")


REQUEST = CompactionRequest(9, MessageId("r1"))


def test_a_requested_compaction_is_carried_out_between_two_rounds() -> None:
    begun = after(RoundStarted(round=1))
    assert next_step(begun, None, LIMITS, compaction=REQUEST) == CompactContext(REQUEST)
    asking = after(*asked())
    assert isinstance(next_step(asking, None, LIMITS, compaction=REQUEST), AskModel)
    assert next_step(after(), None, LIMITS, compaction=REQUEST) == StartRound(1)
    stopped = after(RoundStarted(round=1), Steer(message_id=MessageId("m"), text=""))
    assert isinstance(next_step(stopped, None, LIMITS, compaction=REQUEST), EndTurn)


def test_a_requested_compaction_is_carried_out_at_once_while_no_turn_runs() -> None:
    ended = after(TurnEnded(reason="completed"))
    assert next_step(ended, None, LIMITS, compaction=REQUEST) == CompactContext(REQUEST)
    assert next_step(ended, None, LIMITS) == Idle()
