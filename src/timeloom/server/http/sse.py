"""Encodes events as server-sent events and streams them to a client."""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import ClassVar, Final, get_args

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from timeloom.runtime.hub.events import ChatBlock, ChatComplete, ChatError, ConvStatus, Event, Heartbeat
from timeloom.runtime.hub.hub import SubscriptionContext
from timeloom.runtime.hub.subscription import Subscription
from timeloom.server.http.deliver import deliver_until_closed

MEDIA_TYPE: Final = "text/event-stream"

MAX_CHUNK_BYTES: Final = 65_536
"""Maximum bytes of one chunk. Smaller chunks cost more sends; larger ones delay events."""

EventEncoder = Callable[[Event], bytes]
"""Encodes an event; empty if it is not sent."""

_LINES: Final = re.compile(rb"\r\n|\r|\n")
_ENCODER: Final = msgspec.json.Encoder()


def encode_event(event: Event) -> bytes:
    """Return the event as a server-sent event."""
    if isinstance(event, Heartbeat):
        return b": still here\n\n"
    encoded = _ENCODER.encode(event)
    if not isinstance(event, ChatBlock):
        return b"event: %s\ndata: %s\n\n" % (event.name.encode(), encoded)
    # An external block keeps its original JSON, which may span several lines.
    data = b"\ndata: ".join(_LINES.split(encoded)) if b"\n" in encoded or b"\r" in encoded else encoded
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.name.encode(), data)


class EventStream(Response):
    """A response that streams events; with `turn_id`, it ends when that turn has ended or waits for approval.

    Other protocols pass their `encoder`; it returns empty bytes for events that it leaves out.
    """

    media_type = MEDIA_TYPE
    schema_name: ClassVar = "StreamEvent"
    """The name of the schema of one event of the stream."""
    data_types: ClassVar[tuple[type[msgspec.Struct], ...]] = get_args(Event)
    """The types of the events' data. The event of a type is its `name`; without one, events have no name."""
    last_data: ClassVar = ""
    """The data of the last event if it is no JSON object, for clients of another API."""

    def __init__(
        self,
        opened: SubscriptionContext,
        drain_timeout_s: float,
        turn_id: str = "",
        encoder: EventEncoder = encode_event,
    ) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._opened = opened
        self._drain_timeout_s = drain_timeout_s
        self._turn_id = turn_id
        self._encoder = encoder
        self._stream: Subscription | None = None

    def end(self, error: ChatError) -> None:
        """End the stream with this error; does nothing before the stream has started."""
        if self._stream:
            self._stream.end(error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._opened as (stream, events), aclosing(events):
            self._stream = stream
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await deliver_until_closed(
                stream, self._drain_timeout_s, self._send(stream, events, send), _wait_for_disconnect(receive)
            )

    async def _send(self, stream: Subscription, events: AsyncGenerator[Event], send: Send) -> None:
        """Send waiting events in one chunk: a send costs more than all other work on an event."""
        is_first = True
        body = bytearray()
        async for event in events:
            body += self._encoder(event)
            if self._turn_id and not is_first and is_last_event(event, self._turn_id):
                break
            is_first = False
            if body and (len(body) > MAX_CHUNK_BYTES or not stream.has_more):
                await send({"type": "http.response.body", "body": bytes(body), "more_body": True})
                body.clear()
        await send({"type": "http.response.body", "body": bytes(body), "more_body": False})


def is_last_event(event: Event, turn_id: str) -> bool:
    """Whether the event is the last one of the turn until a person or a client acts."""
    match event:
        case ChatComplete():
            return event.turn_id == turn_id
        case ConvStatus(state="waiting"):
            return event.turn_id == turn_id
        case ChatError():
            return True
        case _:
            return False


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
