"""Makes a model call outside the ReAct loop, such as one for a title or a summary."""

import asyncio

import msgspec

from timeloom.core.blocks import ModelAnswered, ModelCalled
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.ids import TurnId
from timeloom.core.policy.gates import ModelStep, PolicyResult
from timeloom.core.tokens import estimate_tokens
from timeloom.platform.tasks import run_until_interrupted
from timeloom.ports.ledger import Amounts
from timeloom.ports.model import Model, ModelError, ModelRequest, TextSegment, ToolCallPiece
from timeloom.runtime.governance.costs import (
    cut_call_cost,
    has_known_cost,
    max_model_cost,
    model_cost,
    with_estimated_usage,
)
from timeloom.runtime.governance.governor import Admission, Governor
from timeloom.runtime.model_calls.stream_reply import ReplyEnd, build_outcome, stream_reply
from timeloom.runtime.prompt.hashing import request_sha256
from timeloom.runtime.session.session import Session


class SideCall(msgspec.Struct, frozen=True, kw_only=True):
    """A request outside the ReAct loop with its bounds; `key` is its reservation key in the ledger."""

    purpose: CallPurpose
    result_name: str
    """The name of the expected result for error messages, such as "title"."""
    turn: TurnId
    key: str
    system: str
    tail: str
    max_output_tokens: int
    max_reply_chars: int
    """Maximum characters kept of a reply, so that a model that does not stop cannot fill the memory."""
    deadline_s: float
    interrupted_reason: str
    """The text of the ruling if an interrupt comes before the call."""


class SideReply(msgspec.Struct, frozen=True):
    """The received text, how the reply ended, and the outcome, which is not on the timeline yet."""

    text: str
    ending: ReplyEnd
    outcome: ModelAnswered


async def make_side_call(
    session: Session, governor: Governor, model: Model, side: SideCall, interrupt: asyncio.Event
) -> SideReply | PolicyResult:
    """Append and make the call; return its reply, or the ruling that prevented it.

    A side call never requests a person's approval, because its caller can do without the result.
    """
    call = ModelCalled(
        # A side call belongs to no round; it is recorded under the last one.
        round=max(1, session.views.progress.round),
        model=model.name,
        request_sha256=request_sha256(side.system, "", side.tail),
        purpose=side.purpose,
        system=side.system,
        tail=side.tail,
        estimated_tokens=estimate_tokens(side.system) + estimate_tokens(side.tail),
    )
    admission = await _admit(governor, model, side, call, interrupt)
    if admission.ruling.verdict != "allow":
        return admission.ruling
    request = ModelRequest(
        system=side.system,
        segments=(TextSegment(side.tail),),
        purpose=side.purpose,
        max_output_tokens=side.max_output_tokens,
        system_cache_point=False,
        number=session.views.spend.outcomes.get(side.purpose, 0),
        opening=session.first_user_message,
    )
    reply = _ReplyHead(side.max_reply_chars)
    async with governor.charge_on_exit(admission) as charge:
        # Until the call is stored, nothing is sent.
        charge.cut_cost = lambda _: Amounts()
        await session.append([call], side.turn)
        charge.cut_cost = lambda most: cut_call_cost(most, call.estimated_tokens, reply.text, model)
        ending = await _stream_within_deadline(model, request, reply, side, interrupt)
        outcome = with_estimated_usage(build_outcome(call, reply.text, ending), call, model)
        charge.cost = model_cost(outcome.usage, rounds=0)
    return SideReply(reply.text, ending, outcome)


async def _admit(
    governor: Governor, model: Model, side: SideCall, call: ModelCalled, interrupt: asyncio.Event
) -> Admission:
    tokens = call.estimated_tokens
    most = max_model_cost(model, tokens, side.max_output_tokens, rounds=0)
    step = ModelStep(model=model.name, round=call.round, prompt_tokens=tokens, priced=has_known_cost(model, most))
    try:
        async with asyncio.timeout(side.deadline_s):
            admission = await run_until_interrupted(interrupt, governor.admit(step, side.key, most))
    except TimeoutError:
        return Admission(PolicyResult("refuse", "others were using up a budget", policy=side.purpose))
    return admission or Admission(PolicyResult("refuse", side.interrupted_reason, policy=side.purpose))


async def _stream_within_deadline(
    model: Model, request: ModelRequest, reply: "_ReplyHead", side: SideCall, interrupt: asyncio.Event
) -> ReplyEnd:
    try:
        async with asyncio.timeout(side.deadline_s):
            return await stream_reply(model, request, reply, interrupt)
    except TimeoutError:
        return ModelError("timeout", f"there was no {side.result_name} within {side.deadline_s:g} s")


class _ReplyHead:
    """Keeps the first `max_chars` characters of a reply."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self.text = ""

    def on_text(self, text: str) -> None:
        self.text += text[: self._max_chars - len(self.text)]

    def on_thinking(self, text: str) -> None:
        pass

    def on_tool_call(self, piece: ToolCallPiece) -> None:
        # The request of a side call has no tools.
        pass
