"""Asking the model: the request goes on the timeline, the reply streams out, and how it ended goes on the timeline."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar, assert_never

import msgspec

from timeloom.core.blocks import AnyBlock, ModelAnswered, ModelCalled, Notice, Thinking, Usage
from timeloom.core.policy.next_step import AskModel
from timeloom.core.policy.reading import Reply, read_reply
from timeloom.core.stream.channels import DECISION, ChannelParser, Delta
from timeloom.core.stream.decision import DecisionStream
from timeloom.core.stream.json_scan import FieldDelta
from timeloom.core.stream.scalars import mended
from timeloom.core.view.progress import STEERED
from timeloom.ports.model import Finished, Model, ModelError, ModelRequest, TextPiece, ThinkingPiece
from timeloom.runtime.session import Session

T = TypeVar("T")

SHOWN_FIELDS: Final = {"final_answer": "answer", "notes": "timeline_text", "tool_call.params.content": "canvas"}
"""The fields of a decision that clients see while they are written, and the channel they see them on."""

BACKOFF_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""How long to wait before a request is sent again, where the provider does not say."""


MAX_DETAIL_CHARS: Final = 500
"""How much of a provider's own words about a failure is kept."""


class LiveDelta(msgspec.Struct, frozen=True):
    """Text on its way: provisional until the round's blocks are stored."""

    channel: str
    index: int
    text: str


class Prompt(msgspec.Struct, frozen=True):
    """A request with what of it must be kept to make it again."""

    request: ModelRequest
    sha256: str
    system: str
    tail: str


class Prompter(Protocol):
    """Makes the prompt of a round from the conversation."""

    async def prompt(self, session: Session, step: AskModel) -> Prompt:
        """The prompt at the present tail."""
        ...


@dataclass(slots=True, kw_only=True)
class Asking:
    """What models are asked with, and the reply of the running round."""

    session: Session
    model: Model
    prompter: Prompter
    on_delta: Callable[[LiveDelta], None]
    backoff: tuple[float, ...] = BACKOFF_S
    retry_after_s: float | None = None
    """How long the provider asked to wait before the next request."""
    _read: tuple[int, Reply] = field(default=(0, Reply()))

    async def reply(self) -> Reply | None:
        """The reply of the running round, read once; after a restart from the timeline."""
        progress = self.session.views.progress
        if progress.asked != "answered":
            return None
        if self._read[0] != progress.answer_seq:
            (entry,) = await self.session.entries([progress.answer_seq])
            assert isinstance(entry.block, ModelAnswered)
            self._read = (progress.answer_seq, read_reply(await self.session.text(entry.block.text)))
        return self._read[1]

    def backoff_s(self, failures: int) -> float:
        """How long to wait before the next request, after so many failures in a row."""
        if not failures:
            return 0.0
        return self.retry_after_s or self.backoff[min(failures, len(self.backoff)) - 1]


async def ask_model(asking: Asking, step: AskModel, interrupt: asyncio.Event) -> None:
    """Sends the request of the round and appends how it ended; an interrupt gives the request up."""
    session = asking.session
    progress = session.views.progress
    turn = progress.turn_id
    if wait_s := asking.backoff_s(progress.failures):
        await _unless(interrupt, asyncio.sleep(wait_s))
    prompt = await asking.prompter.prompt(session, step)
    called = ModelCalled(
        round=step.round,
        model=asking.model.name,
        request_sha256=prompt.sha256,
        attempt=step.attempt,
        system=prompt.system,
        tail=prompt.tail,
    )
    await session.append([called], turn)
    heard = _Heard(asking.on_delta)
    try:
        finished = await _unless(interrupt, _listen(asking.model, prompt.request, heard))
    except ModelError as error:
        asking.retry_after_s = error.retry_after_s
        await session.append([_failed(step, asking.model, heard, error)], turn)
        return
    asking.retry_after_s = None
    if finished is None:
        await session.append([_failed(step, asking.model, heard, None)], turn)
        return
    await session.append(_answer(step, asking.model, heard, finished), turn)


class _Heard:
    """What has arrived of a reply, handed on to clients as it comes."""

    def __init__(self, on_delta: Callable[[LiveDelta], None]) -> None:
        self._on_delta = on_delta
        self._parser = ChannelParser()
        self._decisions: dict[int, DecisionStream] = {}
        self._pieces: list[str] = []
        self.thinking: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def take(self, text: str) -> None:
        self._pieces.append(text)
        for event in self._parser.feed(text):
            if isinstance(event, Delta):
                self._show(event)

    def think(self, text: str) -> None:
        self.thinking.append(text)
        self._on_delta(LiveDelta("thinking", 0, text))

    def _show(self, delta: Delta) -> None:
        if delta.channel == DECISION:
            stream = self._decisions.setdefault(delta.index, DecisionStream())
            for event in stream.feed(delta.text):
                if isinstance(event, FieldDelta):
                    self._on_delta(LiveDelta(SHOWN_FIELDS[event.path], delta.index, event.text))
        elif delta.channel in ("thinking", "code"):
            self._on_delta(LiveDelta(delta.channel, delta.index, delta.text))


async def _listen(model: Model, request: ModelRequest, heard: _Heard) -> Finished:
    finished: Finished | None = None
    async with aclosing(model.stream(request)) as events:
        # To its end, also after the last event: the connection can be used again then.
        async for event in events:
            match event:
                case TextPiece(text=text):
                    heard.take(text)
                case ThinkingPiece(text=text):
                    heard.think(text)
                case Finished():
                    finished = event
                case _:
                    assert_never(event)
    if finished is None:
        raise ModelError("cut", "the reply ended without its end")
    return finished


async def _unless(interrupt: asyncio.Event, work: Coroutine[object, object, T]) -> T | None:
    """What the work comes to; None if the interrupt came first, and then the work is given up."""
    running = asyncio.create_task(work)
    waiting = asyncio.create_task(interrupt.wait())
    try:
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        if not running.done():
            running.cancel()
    if running.cancelled() or not running.done():
        with suppress(asyncio.CancelledError):
            await running
        return None
    return running.result()


def _answer(step: AskModel, model: Model, heard: _Heard, finished: Finished) -> list[AnyBlock]:
    reply = read_reply(heard.text)
    # Said before the answer, they inform; said after it, they would mean that it cannot be carried out.
    remarks = [] if reply.faults else [Notice(code=one.code, text=one.text) for one in reply.remarks]
    thinking = "\n\n".join(part for part in ("".join(heard.thinking), reply.thinking) if part)
    outcome = ModelAnswered(
        round=step.round,
        model=finished.model or model.name,
        stop_reason=finished.stop_reason,
        attempt=step.attempt,
        usage=finished.usage,
        text=heard.text,
    )
    return [*remarks, outcome, *([Thinking(round=step.round, text=thinking)] if thinking else [])]


def _failed(step: AskModel, model: Model, heard: _Heard, error: ModelError | None) -> ModelAnswered:
    """The outcome of a request that failed, or that the user's new course cut short."""
    kind = error.kind if error else STEERED
    return ModelAnswered(
        round=step.round,
        model=model.name,
        stop_reason=kind,
        attempt=step.attempt,
        usage=error.usage if error else Usage(),
        interrupted=bool(heard.text),
        text=heard.text,
        error=kind,
        detail=mended(str(error)[:MAX_DETAIL_CHARS]) if error else "",
    )
