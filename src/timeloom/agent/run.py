"""A turn while it runs: its events, the pieces of its answer, and its result at the end."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from timeloom.agent.answer import Answer, Approval, FinishedTurn, read_answer
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId
from timeloom.core.stream.partial_json import PartialJson
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.store import Store
from timeloom.runtime.hub.events import ChatComplete, ChatDelta, ChatError, ChatStep, ConvStatus, Event, Heartbeat
from timeloom.runtime.hub.hub import Hub
from timeloom.runtime.hub.state import SendReceipt
from timeloom.runtime.hub.subscription import Subscription

T = TypeVar("T")

Approver = Callable[[Approval], bool | Awaitable[bool]]
"""Decides on a call that needs approval; it may be async."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts(Generic[T]):
    """What a run needs of its agent, and the message that it follows."""

    hub: Hub
    store: Store
    info: ConversationInfo
    receipt: SendReceipt
    decode: Callable[[str], T]
    user: str
    approve: Approver | None = None
    decided: CallId | None = None
    """The call whose approval started the run."""


class Run(Generic[T]):
    """The events of one turn, as an async iterator that ends with the turn, or when the turn waits for a person."""

    def __init__(self, parts: RunParts[T], subscription: Subscription, events: AsyncGenerator[Event]) -> None:
        self._parts = parts
        self._subscription = subscription
        self._events = events
        self._decided = {parts.decided} - {None}
        self._answer: Answer[T] | None = None

    @property
    def conversation(self) -> str:
        """The id of the conversation."""
        return self._parts.receipt.conversation_id

    @property
    def answer(self) -> Answer[T]:
        """The result; raises `turn_open` before the events have ended."""
        if self._answer is None:
            raise CodedError("turn_open", "the turn is still running; read its events to the end first")
        return self._answer

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield the events until the turn ends or waits for a person; raises the error that stops it."""
        if self._answer is not None:
            return
        turn = self._parts.receipt.turn_id
        async for event in self._events:
            if isinstance(event, Heartbeat):
                continue
            yield event
            match event:
                case ChatComplete(turn_id=ended) if ended == turn:
                    break
                case ConvStatus(state="waiting", turn_id=waiting) if waiting == turn:
                    if not await self._continue_waiting(event):
                        break
                case ChatError(code=code, message=message):
                    raise CodedError(code, message)
                case _:
                    pass
        self._answer = await self._read_answer()

    async def text(self) -> AsyncIterator[str]:
        """Yield the pieces of the answer as the model writes them."""
        async for event in self:
            if isinstance(event, ChatDelta) and event.channel == "answer":
                yield event.text

    async def partial(self) -> AsyncIterator[object]:
        """Yield the typed answer while it is written: a JSON value with the fields that are complete so far.

        An answer that does not fit its type is written again, so a field can disappear.
        """
        parser, before = PartialJson(), None
        async for event in self:
            if isinstance(event, ChatStep) and event.step == "model":
                parser = PartialJson()
            elif isinstance(event, ChatDelta) and event.channel == "answer":
                value = parser.feed(event.text)
                if value is not None and value != before:
                    before = value
                    yield value

    async def finish(self) -> Answer[T]:
        """Read the events to their end and return the result."""
        # Nobody reads what is left of the text and blocks, and encoding them would take a tenth of the turn.
        self._subscription.skip_content()
        async for _ in self:
            pass
        return self.answer

    async def _continue_waiting(self, status: ConvStatus) -> bool:
        """Ask the approver about each call; return whether the turn continues, now or because of a decision before."""
        pending = {one.tool_call_id for one in status.approvals} - self._decided
        if not pending:
            return True
        approve = self._parts.approve
        if approve is None:
            return False
        waiting = await self._read_answer()
        for approval in waiting.approvals:
            if approval.call_id in pending:
                self._decided.add(approval.call_id)
                verdict = approve(approval)
                approved = await verdict if inspect.isawaitable(verdict) else verdict
                await self._parts.hub.decide(self._parts.info.id, approval.call_id, approved, self._parts.user)
        return True

    async def _read_answer(self) -> Answer[T]:
        parts = self._parts
        views = await parts.hub.read_views(parts.info.id)
        turn = parts.receipt.turn_id
        first = views.turns.turns[turn].spans[0][0]
        entries = await parts.store.load(parts.info.id, first - 1)
        status = await parts.hub.status(parts.info.id)
        finished = FinishedTurn(
            conversation=parts.info.id,
            tenant=parts.info.tenant,
            entries=[entry for entry in entries if entry.turn_id == turn],
            views=views,
            pending=status.approvals,
        )
        return await read_answer(parts.store, finished, parts.decode)
