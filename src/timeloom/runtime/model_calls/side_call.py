"""Side calls: a model is asked for something beside the turn's own decisions, such as a title or a summary."""

import asyncio

import msgspec

from timeloom.core.blocks import ModelAnswered, ModelCalled
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.ids import TurnId
from timeloom.core.policy.gates import ModelStep, Ruling
from timeloom.core.tokens import estimate
from timeloom.ports.model import Model, ModelError, ModelRequest, TextSegment
from timeloom.runtime.governance.costs import is_priced, model_cost, model_most, with_guess
from timeloom.runtime.governance.governor import Admission, Governor
from timeloom.runtime.model_calls.stream_reply import Ending, hear_reply, outcome_of, unless
from timeloom.runtime.prompt.builder import request_sha256
from timeloom.runtime.session.session import Session


class SideCall(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, and within which bounds; `key` names the call for the ledger."""

    purpose: CallPurpose
    what: str
    """What is wanted, in a word."""
    turn: TurnId
    key: str
    system: str
    tail: str
    max_output_tokens: int
    max_reply_chars: int
    """How much of a reply is taken; a model that does not stop fills no memory."""
    deadline_s: float
    given_up: str
    """What an interrupt before the call means."""


class SideReply(msgspec.Struct, frozen=True):
    """What was heard, how it ended, and the outcome, which is not on the timeline yet."""

    text: str
    ending: Ending
    outcome: ModelAnswered


async def side_call(
    session: Session, governor: Governor, model: Model, asked: SideCall, interrupt: asyncio.Event
) -> SideReply | Ruling:
    """The reply to a call that is on the timeline, or the ruling by which it was not made.

    Nobody is asked about a side call: whoever makes one can do without it.
    """
    call = ModelCalled(
        # It belongs to no round; it follows the last.
        round=max(1, session.views.progress.round),
        model=model.name,
        request_sha256=request_sha256(asked.system, "", asked.tail),
        purpose=asked.purpose,
        system=asked.system,
        tail=asked.tail,
        estimated_tokens=estimate(asked.system) + estimate(asked.tail),
    )
    admission = await _admission(governor, model, asked, call, interrupt)
    if admission.ruling.verdict != "allow":
        return admission.ruling
    request = ModelRequest(
        system=asked.system,
        segments=(TextSegment(asked.tail),),
        purpose=asked.purpose,
        max_output_tokens=asked.max_output_tokens,
        system_cache_point=False,
        number=session.views.spend.outcomes.get(asked.purpose, 0),
        opening=session.opening,
    )
    heard = _Heard(asked.max_reply_chars)
    async with governor.charging(admission) as bill:
        await session.append([call], asked.turn)
        ending = await _ending(model, request, heard, asked, interrupt)
        outcome = with_guess(outcome_of(call, heard.text, ending), call, model)
        bill.cost = model_cost(outcome.usage, rounds=0)
    return SideReply(heard.text, ending, outcome)


async def _admission(
    governor: Governor, model: Model, asked: SideCall, call: ModelCalled, interrupt: asyncio.Event
) -> Admission:
    tokens = call.estimated_tokens
    most = model_most(model, tokens, asked.max_output_tokens, rounds=0)
    step = ModelStep(model=model.name, round=call.round, prompt_tokens=tokens, priced=is_priced(model, most))
    try:
        async with asyncio.timeout(asked.deadline_s):
            admission = await unless(interrupt, governor.admit(step, asked.key, most))
    except TimeoutError:
        return Admission(Ruling("refuse", "others were using up a budget", policy=asked.purpose))
    return admission or Admission(Ruling("refuse", asked.given_up, policy=asked.purpose))


async def _ending(
    model: Model, request: ModelRequest, heard: "_Heard", asked: SideCall, interrupt: asyncio.Event
) -> Ending:
    try:
        async with asyncio.timeout(asked.deadline_s):
            return await hear_reply(model, request, heard, interrupt)
    except TimeoutError:
        return ModelError("timeout", f"there was no {asked.what} within {asked.deadline_s:g} s")


class _Heard:
    """The beginning of a reply."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self.text = ""

    def take(self, text: str) -> None:
        self.text += text[: self._max_chars - len(self.text)]

    def think(self, text: str) -> None:
        pass
