"""Sends the model request of a round: records the call, streams the reply and records its outcome."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    ApprovalRequested,
    Gate,
    ModelAnswered,
    ModelCalled,
    Notice,
    Thinking,
)
from timeloom.core.blocks.caching import CacheForecast
from timeloom.core.payload import Text
from timeloom.core.policy.gates import ModelStep, Ruling
from timeloom.core.policy.next_step import AskModel
from timeloom.core.policy.read_reply import Reply, read_reply
from timeloom.core.render.prompt import RENDERING
from timeloom.core.stream.live_reply import LiveDelta, LiveReply
from timeloom.core.timeline import Entry
from timeloom.core.view.progress import MODEL
from timeloom.ports.blobs import BlobError
from timeloom.ports.model import Finished, Model, ModelError, ModelRequest
from timeloom.runtime.governance.costs import is_priced, model_cost, model_key, model_most, with_guess
from timeloom.runtime.governance.governor import Admission, Governor
from timeloom.runtime.model_calls.stream_reply import hear_reply, outcome_of, unless
from timeloom.runtime.session.session import Session

BACKOFF_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds to wait before each retry if the provider does not name a delay."""


class Prompt(msgspec.Struct, frozen=True):
    """A model request with the parts that are recorded so that it can be rebuilt."""

    request: ModelRequest
    sha256: str
    system: str
    tail: str
    seq: int
    """The last entry that the prompt contains."""
    estimated_tokens: int = 0
    """The estimated tokens of the whole request."""
    cache: CacheForecast | None = None
    """The cache points, and the expected use of the provider's cache."""


class Prompter(Protocol):
    """Builds the prompt of a round from the conversation."""

    async def prompt(self, session: Session, step: AskModel) -> Prompt:
        """Return the prompt at the current tail."""
        ...


@dataclass(slots=True, kw_only=True)
class Asking:
    """The model, its prompt source and settings, and the reply of the current round."""

    session: Session
    model: Model
    prompter: Prompter
    on_delta: Callable[[LiveDelta], None]
    governor: Governor
    backoff: tuple[float, ...] = BACKOFF_S
    retry_after_s: float | None = None
    """Seconds that the provider asked to wait before the next request."""
    systems: dict[str, tuple[str, Text]] = field(default_factory=dict[str, tuple[str, Text]])
    """By tenant, the system text of the last call and its stored form; conversations may share it."""
    _read: tuple[int, Reply] = field(default=(0, Reply()))

    async def reply(self) -> Reply | None:
        """Return the parsed reply of the current round; after a restart it is read from the timeline."""
        progress = self.session.views.progress
        if progress.asked != "answered":
            return None
        if self._read[0] != progress.answer_seq:
            (entry,) = await self.session.entries([progress.answer_seq])
            assert isinstance(entry.block, ModelAnswered)
            self.remember(progress.answer_seq, read_reply(await self.session.text(entry.block.text)))
        return self._read[1]

    def remember(self, seq: int, reply: Reply) -> None:
        """Cache the parsed reply of the entry at that seq."""
        self._read = (seq, reply)

    def stored_system(self, text: str) -> Text:
        """Return the stored form of the system text if the last call had the same text, else the text itself."""
        known, stored = self.systems.get(self.session.caller.tenant, ("", ""))
        return stored if known == text else text

    def note_system(self, text: str, call: AnyBlock) -> None:
        """Cache the stored form of the system text from the appended call."""
        if isinstance(call, ModelCalled):
            self.systems[self.session.caller.tenant] = (text, call.system)

    def backoff_s(self, failures: int) -> float:
        """Return the seconds to wait before the next request after that many consecutive failures."""
        if not failures:
            return 0.0
        return self.retry_after_s or self.backoff[min(failures, len(self.backoff)) - 1]


async def ask_model(asking: Asking, step: AskModel, interrupt: asyncio.Event) -> None:
    """Send the request of the round and append its outcome; an interrupt cancels the request."""
    session = asking.session
    progress = session.views.progress
    turn = progress.turn_id
    if wait_s := asking.backoff_s(progress.failures):
        await session.flush()
        await unless(interrupt, asyncio.sleep(wait_s))
        # Messages that arrived during the pause are in the prompt that is built now.
        interrupt.clear()
    asked = await _asked(asking, step, interrupt)
    if asked is None:
        return
    prompt, call, admission = asked
    heard = _Heard(asking.on_delta)
    async with asking.governor.charging(admission) as bill:
        ending = await hear_reply(asking.model, prompt.request, heard, interrupt)
        # Lets the last deltas reach the readers before the reply is processed.
        await asyncio.sleep(0)
        outcome = with_guess(outcome_of(call, heard.text, ending), call, asking.model)
        bill.cost = model_cost(outcome.usage, rounds=_rounds(step))
        asking.retry_after_s = ending.retry_after_s if isinstance(ending, ModelError) else None
        if isinstance(ending, Finished):
            reply = read_reply(heard.text)
            for entry in await session.append_deferred(_answer(outcome, reply, "".join(heard.thinking)), turn):
                if isinstance(entry.block, ModelAnswered):
                    asking.remember(entry.seq, reply)
        else:
            await session.append([outcome], turn)


async def _asked(
    asking: Asking, step: AskModel, interrupt: asyncio.Event
) -> tuple[Prompt, ModelCalled, Admission] | None:
    """Build the prompt and append its call; None if the call is refused, needs approval or was interrupted."""
    session = asking.session
    progress = session.views.progress
    while not progress.is_called_off:
        prompt = await asking.prompter.prompt(session, step)
        admission = await _admission(asking, step, prompt, interrupt)
        if admission is None:
            return None
        if admission.ruling.verdict != "allow":
            if await session.append(_held_back(session, admission.ruling), progress.turn_id, after=prompt.seq):
                return None
            continue
        call = ModelCalled(
            round=step.round,
            model=asking.model.name,
            request_sha256=prompt.sha256,
            attempt=step.attempt,
            system=asking.stored_system(prompt.system),
            tail=prompt.tail,
            estimated_tokens=prompt.estimated_tokens,
            rendering=RENDERING,
            cache=prompt.cache,
        )
        # If a message arrived in between, the append fails and a prompt that contains the message is built.
        if stored := await _called(asking, call, prompt):
            asking.note_system(prompt.system, stored[-1].block)
            return prompt, call, admission
        await asking.governor.release(admission)
    return None


async def _called(asking: Asking, call: ModelCalled, prompt: Prompt) -> tuple[Entry, ...]:
    session = asking.session
    turn = session.views.progress.turn_id
    try:
        return await session.append([call], turn, after=prompt.seq)
    except BlobError:
        if call.system == prompt.system:
            raise
        # Another conversation had stored the system text and was deleted.
        return await session.append([replace(call, system=prompt.system)], turn, after=prompt.seq)


async def _admission(asking: Asking, step: AskModel, prompt: Prompt, interrupt: asyncio.Event) -> Admission | None:
    """Check the call against policies and budgets; None if an interrupt came first."""
    if interrupt.is_set():
        return None
    turn, model = asking.session.views.progress.turn_id, asking.model
    request, prompt_tokens = prompt.request, asking.session.views.reported.tokens(model.name, prompt.estimated_tokens)
    most = model_most(model, prompt_tokens, request.max_output_tokens, _rounds(step))
    asked = ModelStep(model=model.name, round=step.round, prompt_tokens=prompt_tokens, priced=is_priced(model, most))
    admitted = asking.governor.admit(asked, model_key(turn, step.round, step.attempt), most, begun=step.approved)
    # Only budgets shared with other conversations can make this wait, so only then an interrupt matters.
    return await (unless(interrupt, admitted) if asking.governor.is_shared else admitted)


def _held_back(session: Session, ruling: Ruling) -> list[AnyBlock]:
    gate = Gate(policy=ruling.policy, verdict=ruling.verdict, text=ruling.text)
    if ruling.verdict == "refuse":
        return [gate]
    call_id = session.new_call_id()
    question = ApprovalRequested(tool_call_id=call_id, tool_id=MODEL, text=ruling.text, policy=ruling.policy)
    return [replace(gate, tool_call_id=call_id), question]


def _rounds(step: AskModel) -> int:
    return 1 if step.attempt == 1 else 0


class _Heard:
    """Collects a reply while it streams and forwards it to clients."""

    def __init__(self, on_delta: Callable[[LiveDelta], None]) -> None:
        self._on_delta = on_delta
        self._live = LiveReply()
        self._pieces: list[str] = []
        self.thinking: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def take(self, text: str) -> None:
        self._pieces.append(text)
        for delta in self._live.feed(text):
            self._on_delta(delta)

    def think(self, text: str) -> None:
        self.thinking.append(text)
        self._on_delta(LiveDelta("thinking", 0, text))


def _answer(outcome: ModelAnswered, reply: Reply, thought: str) -> list[AnyBlock]:
    # Remarks before the answer are informational; after it they would mean that it cannot be executed.
    remarks = [] if reply.faults else [Notice(code=one.code, text=one.text) for one in reply.remarks]
    thinking = "\n\n".join(part for part in (thought, reply.thinking) if part)
    return [*remarks, outcome, *([Thinking(round=outcome.round, text=thinking)] if thinking else [])]
