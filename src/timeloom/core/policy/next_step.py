"""Chooses the next step of a turn from its recorded progress and the model's last reply."""

from typing import Final, assert_never

import msgspec

from timeloom.core.blocks import EndReason
from timeloom.core.blocks.tool_traits import NO_CUSTOM_TRAITS, CustomTraits, resolve_traits
from timeloom.core.policy.answer.check import check_answer
from timeloom.core.policy.fanout import FanoutMode, find_fanout_faults
from timeloom.core.policy.model_retry import RETRIED_ERRORS
from timeloom.core.policy.read_reply import ParsedReply, ReplyIssue, plain_answer, read_reply
from timeloom.core.stream.decision import CallToolDecision, CompleteDecision, Decision, ExitDecision
from timeloom.core.view.context.compactions import CompactionRequest
from timeloom.core.view.progress import STEERED_ERROR, GatedStep, ProgressView
from timeloom.core.view.repeated_calls import RepeatedCallsView, call_key

DEFAULT_MAX_ITERATIONS: Final = 15


BUDGET_POLICY: Final = "budget"
"""The policy name that `Gate` blocks record when a budget is used up."""

WARN_SAME_RESULTS: Final = 3
"""Identical results of the same call in one turn after which the notice `repeated_call` is added."""

MAX_SAME_RESULTS: Final = 4
"""Identical results of the same call in one turn after which it is not run again."""

INTERRUPTED_POLICY: Final = "interrupted"
"""The policy name for a call that may or may not have run; a person decides about it."""

NO_REASON: Final = "the model ended the turn without an answer or a reason; ask again, or give more details"
"""Text of a turn that the model ended without any text."""


class TurnLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one turn."""

    max_iterations: int = DEFAULT_MAX_ITERATIONS
    fanout: FanoutMode = "off"
    max_rejected_replies: int = 2
    """How many unusable replies in a row are answered with another request."""
    max_failed_requests: int = 4
    """How many failed requests in a row are sent again."""
    max_lost_requests: int = 20
    """How many requests of one round may be lost in crashes and sent again. Each of them may have been paid for."""
    finalize_rounds: int = 2
    """How many rounds remain after the user steers the turn."""


class StartRound(msgspec.Struct, frozen=True):
    """Start the next round."""

    round: int


class AskModel(msgspec.Struct, frozen=True):
    """Ask the model for a decision.

    In the last round (`last`) the decision must be an answer. `smaller` requests a shorter prompt than before. With
    `approved`, a person has approved the request, and policies do not ask about it again.
    """

    round: int
    attempt: int
    last: bool
    smaller: bool = False
    approved: bool = False


class CompactContext(msgspec.Struct, frozen=True):
    """Carry out a requested compaction."""

    request: CompactionRequest


class RejectReply(msgspec.Struct, frozen=True):
    """Reject the model's reply and tell the model why it cannot be executed."""

    remarks: tuple[ReplyIssue, ...]


class ExecuteAction(msgspec.Struct, frozen=True):
    """Execute one action of the reply."""

    index: int
    decision: Decision


class SettleCall(msgspec.Struct, frozen=True):
    """Settle the open call, which has a recorded intent but no receipt.

    The call runs once more where `again` is set. It does not run again after the turn was ended or the user steered,
    because a steer would have stopped it.
    """

    again: bool = True


class RunCall(msgspec.Struct, frozen=True):
    """Run the open call, which a person has approved."""


class DropCall(msgspec.Struct, frozen=True):
    """Close the open call without running it; its receipt records the reason."""

    code: str
    text: str


class WaitForApproval(msgspec.Struct, frozen=True):
    """Wait for a person's decision, for an unlimited time."""


class EndTurn(msgspec.Struct, frozen=True):
    """End the turn."""

    reason: EndReason
    text: str = ""


class Idle(msgspec.Struct, frozen=True):
    """Nothing to do until the next message arrives."""


Action = (
    StartRound | AskModel | CompactContext | RejectReply | ExecuteAction | SettleCall | RunCall | DropCall | EndTurn
)
"""A step that changes the timeline."""

Step = Action | WaitForApproval | Idle


def next_step(
    progress: ProgressView,
    reply: ParsedReply | None,
    limits: TurnLimits,
    custom: CustomTraits = NO_CUSTOM_TRAITS,
    repeated: RepeatedCallsView | None = None,
    compaction: CompactionRequest | None = None,
    output: str = "",
) -> Step:
    """Return the next step of the turn.

    `reply` is the parsed reply of the current round, or None if there is none. `custom` holds the traits of the
    conversation's tools that differ from the built-in ones. `repeated` holds the results of this turn's calls.
    `compaction` is a requested compaction; it is carried out between two rounds, or at once while no turn runs.
    `output` is the JSON schema of the turn's answer; empty for plain text.
    """
    if not progress.running:
        return CompactContext(compaction) if compaction else Idle()
    if progress.open_call:
        return _step_for_open_call(progress, progress.open_call)
    if progress.cancelled:
        return EndTurn("cancelled", progress.cancelled)
    if progress.stopped:
        return EndTurn("stopped", "the user stopped the turn")
    if progress.gate:
        policy, text = progress.gate
        return EndTurn("budget_exhausted" if policy == BUDGET_POLICY else "refused", text)
    if progress.model_call and progress.model_call.leave == "refused":
        return EndTurn("refused", f"the model was not asked: refused by {progress.model_call.said}")
    if progress.model_call and progress.model_call.leave == "asked":
        return WaitForApproval()
    if compaction and progress.round and progress.asked == "no":
        return CompactContext(compaction)
    step = _continue_turn(progress, reply, limits, custom, output)
    return _stop_repetition(step, repeated, custom) if repeated and isinstance(step, ExecuteAction) else step


def _stop_repetition(step: ExecuteAction, repeated: RepeatedCallsView, custom: CustomTraits) -> Step:
    """Return the step, or the end of the turn if the step repeats a call whose result never changes."""
    match step.decision:
        case CallToolDecision(tool_id=tool_id, params=params) if not is_polled(tool_id, custom):
            times = repeated.times(call_key(tool_id, params))
            if times >= MAX_SAME_RESULTS:
                return EndTurn("no_progress", f"the model called {tool_id} {times} times with the same result")
        case _:
            pass
    return step


def is_polled(tool_id: str, custom: CustomTraits) -> bool:
    """Whether the tool is meant to be called again until its result changes."""
    return resolve_traits(tool_id, custom.get(tool_id)).polled


def _continue_turn(
    progress: ProgressView, reply: ParsedReply | None, limits: TurnLimits, custom: CustomTraits, output: str
) -> Step:
    match progress.asked:
        case "no":
            return _ask_model(progress, limits) if progress.round else StartRound(1)
        case "asked":
            # The process that sent this request died, and its answer is lost.
            if progress.lost >= limits.max_lost_requests:
                return EndTurn(
                    "runtime_error", f"the program stopped {progress.lost + 1} times while the model was asked"
                )
            return _ask_model(progress, limits)
        case "failed":
            return _step_after_failure(progress, limits)
        case "answered":
            step = _step_after_answer(progress, reply or read_reply(""), limits, custom, output)
            return _with_strict_json(step, output) if output and isinstance(step, ExecuteAction) else step
        case _:
            assert_never(progress.asked)


def _step_for_open_call(progress: ProgressView, call: GatedStep) -> Step:
    if call.leave == "started":
        return SettleCall(again=not (progress.is_called_off or call.withdrawn))
    if progress.is_called_off:
        return _drop_call(call, "the turn was ended before anybody decided")
    match call.leave:
        case "asked":
            return (
                _drop_call(call, "the user changed course before anybody decided")
                if call.withdrawn
                else WaitForApproval()
            )
        case "approved":
            return RunCall()
        case "refused":
            return _drop_call(call, f"refused by {call.said}")
        case _:
            assert_never(call.leave)


def _drop_call(call: GatedStep, why: str) -> DropCall:
    if call.policy == INTERRUPTED_POLICY:
        lost = "nobody knows whether this call was carried out, because the program stopped while it ran"
        return DropCall("tool_interrupted", f"{lost}; it was not run again: {why}")
    return DropCall("call_not_approved", f"the call was not run: {why}")


def is_last_round(progress: ProgressView, limits: TurnLimits) -> bool:
    """Whether the current round is the last one that the turn may have."""
    last = limits.max_iterations + progress.credits
    if progress.steered_round is not None:
        last = min(last, progress.steered_round + limits.finalize_rounds)
    return progress.round >= last


def _ask_model(progress: ProgressView, limits: TurnLimits, *, smaller: bool = False) -> AskModel:
    approved = progress.model_call is not None and progress.model_call.leave == "approved"
    return AskModel(progress.round, progress.attempts + 1, is_last_round(progress, limits), smaller, approved)


def _step_after_failure(progress: ProgressView, limits: TurnLimits) -> Step:
    if progress.error == STEERED_ERROR:
        return _ask_model(progress, limits)
    again = progress.failures <= limits.max_failed_requests
    if again and progress.error in RETRIED_ERRORS:
        return _ask_model(progress, limits)
    if again and progress.error == "context_too_long":
        return _ask_model(progress, limits, smaller=True)
    detail = f": {progress.detail}" if progress.detail else ""
    return EndTurn("provider_error", f"the model did not answer ({progress.error}){detail}")


def _with_strict_json(step: ExecuteAction, output: str) -> ExecuteAction:
    """Return the step with the strict JSON of its answer, which was found to fit."""
    match step.decision:
        case CompleteDecision(final_answer=text) as decision:
            json = check_answer(text, output).json
            return ExecuteAction(step.index, msgspec.structs.replace(decision, final_answer=json))
        case _:
            return step


def _step_after_answer(
    progress: ProgressView, reply: ParsedReply, limits: TurnLimits, custom: CustomTraits, output: str
) -> Step:
    faults = _find_faults(progress, reply, limits, custom) or _find_answer_faults(progress, reply, output)
    if faults:
        answer = plain_answer(reply)
        if output and answer:
            # A plain text that fits the schema can only be the answer; another one never is.
            if not check_answer(answer, output).problem:
                return ExecuteAction(0, CompleteDecision(answer))
            answer = ""
        return _step_after_fault(progress, faults, limits, answer)
    if progress.acted < len(reply.decisions):
        decision = reply.decisions[progress.acted]
        if not isinstance(decision, ExitDecision) or decision.final_answer.strip():
            return ExecuteAction(progress.acted, decision)
        if not progress.unseen or is_last_round(progress, limits):
            return EndTurn("exited", decision.notes.strip() or NO_REASON)
        return StartRound(progress.round + 1)
    if not reply.decisions:
        return _step_after_plain_answer(progress, limits)
    last = reply.decisions[-1]
    if not isinstance(last, CallToolDecision) and not progress.unseen:
        return EndTurn("completed" if isinstance(last, CompleteDecision) else "exited", last.notes)
    if is_last_round(progress, limits):
        return EndTurn("max_iterations", f"the turn had its {progress.round} rounds and did not come to an answer")
    return StartRound(progress.round + 1)


def _step_after_plain_answer(progress: ProgressView, limits: TurnLimits) -> Step:
    if progress.unseen and not is_last_round(progress, limits):
        return StartRound(progress.round + 1)
    return EndTurn("completed", "the model answered in plain text, without a decision")


def _find_faults(
    progress: ProgressView, reply: ParsedReply, limits: TurnLimits, custom: CustomTraits
) -> tuple[ReplyIssue, ...]:
    """Return the reasons why the reply cannot be executed; a reply whose execution has begun was checked before."""
    if progress.acted:
        return ()
    if reply.faults:
        return reply.faults
    if is_last_round(progress, limits) and isinstance(reply.decisions[-1], CallToolDecision):
        return (
            ReplyIssue("protocol_violation.last_round", "this is the last round: complete or exit, no tool is called"),
        )
    return find_fanout_faults(reply.decisions, limits.fanout, custom)


def _find_answer_faults(progress: ProgressView, reply: ParsedReply, output: str) -> tuple[ReplyIssue, ...]:
    """Return why the answer does not fit the output schema; a model that gives up with `exit` answers in words."""
    last = reply.decisions[-1] if reply.decisions else None
    if not output or progress.acted or not isinstance(last, CompleteDecision):
        return ()
    problem = check_answer(last.final_answer, output).problem
    return (ReplyIssue("answer_invalid", problem),) if problem else ()


def _step_after_fault(progress: ProgressView, faults: tuple[ReplyIssue, ...], limits: TurnLimits, answer: str) -> Step:
    if not progress.told:
        return RejectReply(faults)
    if progress.refusals <= limits.max_rejected_replies:
        return _ask_model(progress, limits)
    if answer:
        return ExecuteAction(0, CompleteDecision(answer))
    reason: EndReason = "max_iterations" if faults[0].code == "protocol_violation.last_round" else "protocol_failure"
    return EndTurn(reason, f"the model's answers could not be carried out: {faults[0].text}")
