"""Subscribes to a conversation before sending to it, so that no part of the answer is lost."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from timeloom.core.ids import CallId, ConversationId
from timeloom.ports.store import Store
from timeloom.runtime.hub.events import ChatApproval, ChatBlock, ChatError, ConvStatus, Event, Heartbeat, following
from timeloom.runtime.hub.hub import Streaming
from timeloom.runtime.hub.live_conversation import Accepted
from timeloom.runtime.hub.subscription import Stream
from timeloom.server.http.sse import is_last
from timeloom.server.services import Services

PAGE: Final = 200
"""Entries read at once to find an approval request, which is nearly always one of the last."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The accepted message, and the events up to the end of its turn or until it waits for approval."""

    accepted: Accepted
    opened: Streaming


async def ask(place: Services, conversation: ConversationId, send: Callable[[], Awaitable[Accepted]]) -> Asked:
    """Send a message and return its event stream.

    The caller must enter the stream; otherwise its subscription keeps the conversation open.
    """
    info = await place.store.info(conversation)
    async with AsyncExitStack() as stack:
        stream, events = await stack.enter_async_context(place.hub.stream(info, info.tail))
        stack.push_async_callback(events.aclose)
        await _until_live(events)
        accepted = await send()
        return Asked(accepted, _handed_over(stack.pop_all(), stream, _answer(place.store, events, accepted)))


@asynccontextmanager
async def _handed_over(
    stack: AsyncExitStack, stream: Stream, events: AsyncGenerator[Event]
) -> AsyncGenerator[tuple[Stream, AsyncGenerator[Event]]]:
    async with stack:
        yield stream, events


async def _until_live(events: AsyncGenerator[Event]) -> None:
    """Skip events until they are live: the stream reports the status once at its start and once when it is live."""
    left = 2
    async for event in events:
        left -= isinstance(event, ConvStatus)
        if not left:
            return


async def _answer(store: Store, events: AsyncGenerator[Event], accepted: Accepted) -> AsyncGenerator[Event]:
    """Yield the events after the block of the sent message, without the output of an earlier running turn.

    Approval requests of the earlier turn are included if it still waits for them.
    """
    is_ours = False
    told: set[CallId] = set()
    async for event in events:
        is_ours = is_ours or (isinstance(event, ChatBlock) and event.seq >= accepted.seq)
        if is_ours and isinstance(event, ChatApproval):
            told.add(event.tool_call_id)
        if is_ours and isinstance(event, ConvStatus) and is_last(event, accepted.turn_id):
            for question in await _questions(store, event, told):
                yield question
        if is_ours or isinstance(event, ChatError | Heartbeat):
            yield event
        if is_last(event, accepted.turn_id) and (is_ours or isinstance(event, ChatError)):
            return


async def _questions(store: Store, status: ConvStatus, told: set[CallId]) -> list[ChatApproval]:
    """Return the approval requests that are still open and were not yet sent to this client."""
    wanted, found, end = set(status.approvals) - told, list[ChatApproval](), status.tail
    while wanted and end:
        start = max(0, end - PAGE)
        for entry in reversed(await store.load(status.conversation_id, after=start, limit=end - start)):
            for event in following(entry):
                if isinstance(event, ChatApproval) and event.tool_call_id in wanted:
                    wanted.remove(event.tool_call_id)
                    found.append(event)
        end = start
    return found[::-1]
