"""Chooses the next step of a turn from its recorded progress and the model's last reply."""

from typing import Final, assert_never

import msgspec

from timeloom.core.blocks import EndReason
from timeloom.core.policy.fanout import FanoutMode, fanout_faults
from timeloom.core.policy.read_reply import Remark, Reply, read_reply
from timeloom.core.stream.decision import CallTool, Complete, Decision, Exit
from timeloom.core.view.progress import STEERED, ProgressView, Question

DEFAULT_MAX_ITERATIONS: Final = 15

RETRIED: Final = frozenset({"overloaded", "rate_limited", "unreachable", "timeout", "cut"})
"""Provider errors after which the same request is sent again."""


BUDGET: Final = "budget"
"""The policy name that `Gate` blocks record when a budget is used up."""

INTERRUPTED: Final = "interrupted"
"""The policy name for a call that may or may not have run; a person decides about it."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one turn."""

    max_iterations: int = DEFAULT_MAX_ITERATIONS
    fanout: FanoutMode = "off"
    refusals: int = 2
    """How many unusable replies in a row are answered with another request."""
    failures: int = 4
    """How many failed requests in a row are sent again."""
    lost: int = 20
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


class Tell(msgspec.Struct, frozen=True):
    """Reject the model's reply and tell the model why it cannot be executed."""

    remarks: tuple[Remark, ...]


class Act(msgspec.Struct, frozen=True):
    """Execute one action of the reply."""

    index: int
    decision: Decision


class FinishCall(msgspec.Struct, frozen=True):
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


class Wait(msgspec.Struct, frozen=True):
    """Wait for a person's decision, for an unlimited time."""


class EndTurn(msgspec.Struct, frozen=True):
    """End the turn."""

    reason: EndReason
    text: str = ""


class Rest(msgspec.Struct, frozen=True):
    """Nothing to do until the next message arrives."""


Deed = StartRound | AskModel | Tell | Act | FinishCall | RunCall | DropCall | EndTurn
"""A step that changes the timeline."""

Step = Deed | Wait | Rest


def next_step(progress: ProgressView, reply: Reply | None, limits: Limits) -> Step:
    """Return the next step of the turn.

    `reply` is the parsed reply of the current round, or None if there is none.
    """
    if not progress.running:
        return Rest()
    if progress.open_call:
        return _open_call(progress, progress.open_call)
    if progress.cancelled:
        return EndTurn("cancelled", progress.cancelled)
    if progress.stopped:
        return EndTurn("stopped", "the user stopped the turn")
    if progress.gate:
        policy, text = progress.gate
        return EndTurn("budget_exhausted" if policy == BUDGET else "refused", text)
    if progress.model_call and progress.model_call.leave == "refused":
        return EndTurn("refused", f"the model was not asked: refused by {progress.model_call.said}")
    if progress.model_call and progress.model_call.leave == "asked":
        return Wait()
    return _going_on(progress, reply, limits)


def _going_on(progress: ProgressView, reply: Reply | None, limits: Limits) -> Step:
    match progress.asked:
        case "no":
            return _ask(progress, limits) if progress.round else StartRound(1)
        case "asked":
            # The process that sent this request died, and its answer is lost.
            if progress.lost >= limits.lost:
                return EndTurn(
                    "runtime_error", f"the program stopped {progress.lost + 1} times while the model was asked"
                )
            return _ask(progress, limits)
        case "failed":
            return _after_failure(progress, limits)
        case "answered":
            return _after_answer(progress, reply or read_reply(""), limits)
        case _:
            assert_never(progress.asked)


def _open_call(progress: ProgressView, call: Question) -> Step:
    if call.leave == "started":
        return FinishCall(again=not (progress.is_called_off or call.withdrawn))
    if progress.is_called_off:
        return _dropped(call, "the turn was ended before anybody decided")
    match call.leave:
        case "asked":
            return _dropped(call, "the user changed course before anybody decided") if call.withdrawn else Wait()
        case "approved":
            return RunCall()
        case "refused":
            return _dropped(call, f"refused by {call.said}")
        case _:
            assert_never(call.leave)


def _dropped(call: Question, why: str) -> DropCall:
    if call.policy == INTERRUPTED:
        lost = "nobody knows whether this call was carried out, because the program stopped while it ran"
        return DropCall("tool_interrupted", f"{lost}; it was not run again: {why}")
    return DropCall("call_not_approved", f"the call was not run: {why}")


def is_last_round(progress: ProgressView, limits: Limits) -> bool:
    """Whether the current round is the last one that the turn may have."""
    last = limits.max_iterations + progress.credits
    if progress.steered_round is not None:
        last = min(last, progress.steered_round + limits.finalize_rounds)
    return progress.round >= last


def _ask(progress: ProgressView, limits: Limits, *, smaller: bool = False) -> AskModel:
    approved = progress.model_call is not None and progress.model_call.leave == "approved"
    return AskModel(progress.round, progress.attempts + 1, is_last_round(progress, limits), smaller, approved)


def _after_failure(progress: ProgressView, limits: Limits) -> Step:
    if progress.error == STEERED:
        return _ask(progress, limits)
    again = progress.failures <= limits.failures
    if again and progress.error in RETRIED:
        return _ask(progress, limits)
    if again and progress.error == "context_too_long":
        return _ask(progress, limits, smaller=True)
    detail = f": {progress.detail}" if progress.detail else ""
    return EndTurn("provider_error", f"the model did not answer ({progress.error}){detail}")


def _after_answer(progress: ProgressView, reply: Reply, limits: Limits) -> Step:
    faults = _faults(progress, reply, limits)
    if faults:
        return _after_fault(progress, faults, limits)
    if progress.acted < len(reply.decisions):
        decision = reply.decisions[progress.acted]
        if isinstance(decision, Exit) and not decision.final_answer:
            return EndTurn("exited", decision.notes)
        return Act(progress.acted, decision)
    last = reply.decisions[-1]
    if not isinstance(last, CallTool) and not progress.unseen:
        return EndTurn("completed" if isinstance(last, Complete) else "exited", last.notes)
    if is_last_round(progress, limits):
        return EndTurn("max_iterations", f"the turn had its {progress.round} rounds and did not come to an answer")
    return StartRound(progress.round + 1)


def _faults(progress: ProgressView, reply: Reply, limits: Limits) -> tuple[Remark, ...]:
    """Return the reasons why the reply cannot be executed; a reply whose execution has begun was checked before."""
    if progress.acted:
        return ()
    if reply.faults:
        return reply.faults
    if is_last_round(progress, limits) and isinstance(reply.decisions[-1], CallTool):
        return (Remark("protocol_violation.last_round", "this is the last round: complete or exit, no tool is called"),)
    return fanout_faults(reply.decisions, limits.fanout)


def _after_fault(progress: ProgressView, faults: tuple[Remark, ...], limits: Limits) -> Step:
    if not progress.told:
        return Tell(faults)
    if progress.refusals <= limits.refusals:
        return _ask(progress, limits)
    reason: EndReason = "max_iterations" if faults[0].code == "protocol_violation.last_round" else "protocol_failure"
    return EndTurn(reason, f"the model's answers could not be carried out: {faults[0].text}")
