"""Makes a model call outside the ReAct loop, such as one for a title or a summary."""

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
    """A request outside the ReAct loop with its bounds; `key` is its reservation key in the ledger."""

    purpose: CallPurpose
    what: str
    """The name of the expected result for error messages, such as "title"."""
    turn: TurnId
    key: str
    system: str
    tail: str
    max_output_tokens: int
    max_reply_chars: int
    """Maximum characters kept of a reply, so that a model that does not stop cannot fill the memory."""
    deadline_s: float
    given_up: str
    """The text of the ruling if an interrupt comes before the call."""


class SideReply(msgspec.Struct, frozen=True):
    """The received text, how the reply ended, and the outcome, which is not on the timeline yet."""

    text: str
    ending: Ending
    outcome: ModelAnswered


async def side_call(
    session: Session, governor: Governor, model: Model, asked: SideCall, interrupt: asyncio.Event
) -> SideReply | Ruling:
    """Append and make the call; return its reply, or the ruling that prevented it.

    A side call never requests a person's approval, because its caller can do without the result.
    """
    call = ModelCalled(
        # A side call belongs to no round; it is recorded under the last one.
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
    """Keeps the first `max_chars` characters of a reply."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self.text = ""

    def take(self, text: str) -> None:
        self.text += text[: self._max_chars - len(self.text)]

    def think(self, text: str) -> None:
        pass
