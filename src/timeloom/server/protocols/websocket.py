"""A conversation over a WebSocket: sends the events of the stream and receives client messages."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from types import MappingProxyType
from typing import Final

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected

from timeloom.core.codes import CodedError
from timeloom.runtime.hub.events import ChatBlock, ChatError, Event, Heartbeat
from timeloom.server.http.deliver import serve_reader
from timeloom.server.protocols.client_message import refusal, take
from timeloom.server.routes.chat import StreamQuery
from timeloom.server.services import RequestContext

ACCEPTED: Final = "accepted"
REFUSED: Final = "refused"

CLOSE_CODES: Final = MappingProxyType({"reader_too_slow": 1013, "server_closing": 1012, "unauthorized": 1008})
"""WebSocket close codes by error code: 1013 try again later, 1012 service restart, 1008 policy violation. All other
errors close with 1000."""

GONE: Final = (WebSocketDisconnect, WebSocketDisconnected)
"""Errors that report a closed connection: the first, and the one of every later send."""

_logger = logging.getLogger(__name__)


class Frame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A frame of the server: an event with its stream id, or the reply to the client frame `ref`."""

    event: str
    data: object
    id: int = 0
    ref: str = ""


class Sending(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frame of the client; `ref` is returned in the reply."""

    event: str
    data: msgspec.Raw = msgspec.Raw(b"{}")
    ref: str = ""


async def hold_socket(call: RequestContext, websocket: WebSocket, query: StreamQuery) -> None:
    """Stream the events after the block `after` and handle client frames; raises only before the socket is accepted."""
    opened = call.place.hub.stream(call.conversation, query.after)
    await websocket.accept()
    try:
        async with opened as (stream, events), aclosing(events):
            with call.watched(stream.end):
                await serve_reader(stream, call.place.leave_s, _tell(websocket, events), _hear(websocket, call))
    except CodedError as error:
        # For example, the conversation was deleted before its first entry was read.
        why = refusal(error)
        if await _send(websocket, Frame(event=why.name, data=why)):
            await _close(websocket, CLOSE_CODES.get(why.code, 1000))


async def _tell(websocket: WebSocket, events: AsyncGenerator[Event]) -> None:
    code = 1000
    async for event in events:
        if isinstance(event, Heartbeat):
            # WebSocket has pings.
            continue
        number = event.seq if isinstance(event, ChatBlock) else 0
        if not await _send(websocket, Frame(event=event.name, id=number, data=event)):
            return
        if isinstance(event, ChatError):
            code = CLOSE_CODES.get(event.code, code)
    await _close(websocket, code)


async def _hear(websocket: WebSocket, call: RequestContext) -> None:
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        if not await _send(websocket, await _answer(call, message.get("text") or message.get("bytes") or b"")):
            return


async def _answer(call: RequestContext, said: str | bytes) -> Frame:
    """Handle a client frame and return the reply. Frames are handled one at a time, in the order they were sent."""
    ref = ""
    try:
        sending = _decoded(said)
        ref = sending.ref
        data = msgspec.json.decode(sending.data)
        return Frame(event=ACCEPTED, ref=ref, data=await take(call, sending.event, data))
    except CodedError as error:
        return Frame(event=REFUSED, ref=ref, data=refusal(error))
    except Exception:
        _logger.exception("a client message failed", extra={"fields": {"conversation_id": call.conversation.id}})
        return Frame(event=REFUSED, ref=ref, data=refusal(CodedError("internal_error", "")))


def _decoded(said: str | bytes) -> Sending:
    try:
        return msgspec.json.decode(said, type=Sending)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CodedError("request_malformed", f"a frame must be a JSON object: {error}") from error


async def _send(websocket: WebSocket, frame: Frame) -> bool:
    """Send the frame; return whether the connection is still open."""
    try:
        await websocket.send_text(msgspec.json.encode(frame).decode())
    except GONE:
        return False
    return True


async def _close(websocket: WebSocket, code: int) -> None:
    with suppress(*GONE):
        await websocket.close(code)
