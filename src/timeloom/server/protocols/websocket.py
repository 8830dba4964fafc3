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
from timeloom.server.http.deliver import deliver_until_closed
from timeloom.server.http.json_body import decode_json
from timeloom.server.protocols.client_message import handle_message, to_chat_error
from timeloom.server.request_context import RequestContext
from timeloom.server.routes.chat import StreamQuery

ACCEPTED: Final = "accepted"
REFUSED: Final = "refused"

CLOSE_CODES: Final = MappingProxyType({"reader_too_slow": 1013, "server_closing": 1012, "unauthorized": 1008})
"""WebSocket close codes by error code: 1013 try again later, 1012 service restart, 1008 policy violation. All other
errors close with 1000."""

DISCONNECT_ERRORS: Final = (WebSocketDisconnect, WebSocketDisconnected)
"""Errors that report a closed connection: the first, and the one of every later send."""

_logger = logging.getLogger(__name__)


class ServerFrame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A frame of the server: an event with its stream id, or the reply to the client frame `ref`."""

    event: str
    data: object
    id: int = 0
    ref: str = ""


class ClientFrame(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frame of the client; `ref` is returned in the reply."""

    event: str
    data: msgspec.Raw = msgspec.Raw(b"{}")
    ref: str = ""


async def hold_socket(context: RequestContext, websocket: WebSocket, query: StreamQuery) -> None:
    """Stream the events after the block `after` and handle client frames; raises only before the socket is accepted."""
    opened = context.services.hub.stream(context.conversation, query.after)
    await websocket.accept()
    try:
        async with opened as (stream, events), aclosing(events):
            with context.monitor_revocation(stream.end):
                await deliver_until_closed(
                    stream,
                    context.services.drain_timeout_s,
                    _send_events(websocket, events),
                    _receive_frames(websocket, context),
                )
    except CodedError as error:
        # For example, the conversation was deleted before its first entry was read.
        error_event = to_chat_error(error)
        if await _send_frame(websocket, ServerFrame(event=error_event.name, data=error_event)):
            await _close(websocket, CLOSE_CODES.get(error_event.code, 1000))


async def _send_events(websocket: WebSocket, events: AsyncGenerator[Event]) -> None:
    code = 1000
    async for event in events:
        if isinstance(event, Heartbeat):
            # WebSocket has pings.
            continue
        number = event.seq if isinstance(event, ChatBlock) else 0
        if not await _send_frame(websocket, ServerFrame(event=event.name, id=number, data=event)):
            return
        if isinstance(event, ChatError):
            code = CLOSE_CODES.get(event.code, code)
    await _close(websocket, code)


async def _receive_frames(websocket: WebSocket, context: RequestContext) -> None:
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        if not await _send_frame(
            websocket, await _handle_frame(context, message.get("text") or message.get("bytes") or b"")
        ):
            return


async def _handle_frame(context: RequestContext, frame: str | bytes) -> ServerFrame:
    """Handle a client frame and return the reply. Frames are handled one at a time, in the order they were sent."""
    ref = ""
    try:
        client_frame = _decode_frame(frame)
        ref = client_frame.ref
        data = decode_json(bytes(client_frame.data), object)
        return ServerFrame(event=ACCEPTED, ref=ref, data=await handle_message(context, client_frame.event, data))
    except CodedError as error:
        return ServerFrame(event=REFUSED, ref=ref, data=to_chat_error(error))
    except Exception:
        _logger.exception("a client message failed", extra={"fields": {"conversation_id": context.conversation.id}})
        return ServerFrame(event=REFUSED, ref=ref, data=to_chat_error(CodedError("internal_error", "")))


def _decode_frame(frame: str | bytes) -> ClientFrame:
    try:
        return decode_json(frame, ClientFrame)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CodedError("request_malformed", f"a frame must be a JSON object: {error}") from error


async def _send_frame(websocket: WebSocket, frame: ServerFrame) -> bool:
    """Send the frame; return whether the connection is still open."""
    try:
        await websocket.send_text(msgspec.json.encode(frame).decode())
    except DISCONNECT_ERRORS:
        return False
    return True


async def _close(websocket: WebSocket, code: int) -> None:
    with suppress(*DISCONNECT_ERRORS):
        await websocket.close(code)
