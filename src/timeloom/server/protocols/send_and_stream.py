"""Sends a message and streams the events of its turn only, for clients that expect one answer per request."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from timeloom.core.ids import CallId, ConversationId
from timeloom.ports.store import Store
from timeloom.runtime.hub.events import ChatApproval, ChatBlock, ChatError, ConvStatus, Event, Heartbeat, derive_events
from timeloom.runtime.hub.hub import SubscriptionContext
from timeloom.runtime.hub.state import SendReceipt
from timeloom.runtime.hub.subscription import Subscription
from timeloom.server.http.sse import is_last_event
from timeloom.server.services import Services

PAGE_ENTRIES: Final = 200
"""Entries read at once to find an approval request, which is nearly always one of the last."""


@dataclass(frozen=True, slots=True)
class SendResult:
    """The accepted message, and the events up to the end of its turn or until it waits for approval."""

    accepted: SendReceipt
    opened: SubscriptionContext


async def send_and_stream(
    services: Services, conversation: ConversationId, send: Callable[[], Awaitable[SendReceipt]]
) -> SendResult:
    """Send a message and return its event stream.

    The caller must enter the stream; otherwise its subscription keeps the conversation open.
    """
    info = await services.store.info(conversation)
    accepted, opened = await services.hub.send_and_stream(info, send)
    return SendResult(accepted, _filter_events(opened, services.store, accepted))


@asynccontextmanager
async def _filter_events(
    opened: SubscriptionContext, store: Store, accepted: SendReceipt
) -> AsyncGenerator[tuple[Subscription, AsyncGenerator[Event]]]:
    async with opened as (stream, events):
        yield stream, _events_after(store, events, accepted)


async def _events_after(store: Store, events: AsyncGenerator[Event], accepted: SendReceipt) -> AsyncGenerator[Event]:
    """Yield the events after the block of the sent message, without the output of an earlier running turn.

    Approval requests of the earlier turn are included if it still waits for them.
    """
    has_started = False
    sent_approvals: set[CallId] = set()
    async for event in events:
        has_started = has_started or (isinstance(event, ChatBlock) and event.seq >= accepted.seq)
        if has_started and isinstance(event, ChatApproval):
            sent_approvals.add(event.tool_call_id)
        if has_started and isinstance(event, ConvStatus) and is_last_event(event, accepted.turn_id):
            for question in await _open_approvals(store, event, sent_approvals):
                yield question
        if has_started or isinstance(event, ChatError | Heartbeat):
            yield event
        if is_last_event(event, accepted.turn_id) and (has_started or isinstance(event, ChatError)):
            return


async def _open_approvals(store: Store, status: ConvStatus, sent_approvals: set[CallId]) -> list[ChatApproval]:
    """Return the approval requests that are still open and were not yet sent to this client."""
    waiting = {approval.tool_call_id for approval in status.approvals}
    missing, requests, end = waiting - sent_approvals, list[ChatApproval](), status.tail
    while missing and end:
        start = max(0, end - PAGE_ENTRIES)
        for entry in reversed(await store.load(status.conversation_id, after=start, limit=end - start)):
            for event in derive_events(entry):
                if isinstance(event, ChatApproval) and event.tool_call_id in missing:
                    missing.remove(event.tool_call_id)
                    requests.append(event)
        end = start
    return requests[::-1]
