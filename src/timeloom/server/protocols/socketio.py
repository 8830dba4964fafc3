"""Conversations over Socket.IO: emits stream events under their names and acknowledges messages."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, Final, Protocol, cast
from urllib.parse import parse_qs

import msgspec
from msgspec import Meta
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from timeloom.core.blocks import ConversationStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.runtime.hub.events import ChatError, Event, Heartbeat
from timeloom.runtime.hub.hub import Streaming
from timeloom.runtime.hub.live_conversation import Accepted
from timeloom.server.authorize import handshake, let_in, let_in_again
from timeloom.server.http.deliver import serve_reader
from timeloom.server.http.problem_json import problem_of
from timeloom.server.protocols.client_message import DECISION, EVENT, MESSAGE, converted, refusal, take
from timeloom.server.rate_limit import LimitedError
from timeloom.server.routes.chat import MAX_SEQ, SaidBody
from timeloom.server.services import RequestContext, Services

PATH: Final = "/socket.io"
OPERATION: Final = "socketio"
LIBRARY: Final = "socketio"
"""python-socketio, installed by the extra `socketio`."""

MOST_SESSIONS: Final = 10_000
"""Maximum number of sessions; the library creates one per client before it is authenticated."""

SEND_S: Final = 60.0
"""Seconds for sending one message. Less disconnects clients with slow networks; more keeps dead connections."""

_logger = logging.getLogger(__name__)


class Joining(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conversation to join, and the block after which its stream begins.

    Without `conversation_id`, the first message starts a new conversation.
    """

    tenant: str
    project: str
    conversation_id: str = ""
    after: Annotated[int, Meta(ge=0, le=MAX_SEQ)] = 0


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """The joined conversation, and the seq of its last entry."""

    conversation_id: str
    tail: int


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a rejected event."""

    error: object


class _Engine(Protocol):
    """The part of the library's transport that is used here."""

    sockets: Mapping[str, Any]


class _Names(Protocol):
    def eio_sid_from_sid(self, sid: str, namespace: str) -> str | None: ...


class _Server(Protocol):
    """The part of the library's server that is used here; the library has no type hints."""

    eio: _Engine
    manager: _Names

    def on(self, event: str, handler: Callable[..., Awaitable[object]]) -> None: ...
    async def emit(self, event: str, data: object, *, to: str) -> None: ...
    async def disconnect(self, sid: str) -> None: ...


@dataclass(slots=True)
class _Guest:
    """A connected client, its joined conversation and the task that streams events to it."""

    scope: Scope
    token: str
    engine_sid: str
    call: RequestContext | None = None
    reading: asyncio.Task[None] | None = None
    leaving: asyncio.Task[None] | None = None
    watched: ExitStack = field(default_factory=ExitStack)


def socketio_app(place: Services) -> ASGIApp | None:
    """Return the application at `/socket.io`; None if the library is not installed."""
    if not find_spec(LIBRARY):
        return None
    # The library takes 300 ms to load, so it is loaded by the first Socket.IO request.
    concierge = cache(lambda: _Concierge(place))

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await concierge().serve(scope, receive, send)

    return serve


class _Concierge:
    """Handles Socket.IO connections; each joins one conversation at a time."""

    def __init__(self, place: Services) -> None:
        library: Any = import_module(LIBRARY)
        self._place = place
        self._guests: dict[str, _Guest] = {}
        self._dismissing: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        # Below ERROR the library logs message contents. Errors without a traceback are caused by clients.
        quiet = logging.getLogger(f"{__name__}.library")
        quiet.setLevel(logging.ERROR)
        quiet.addFilter(lambda record: record.exc_info is not None)
        server: Any = library.AsyncServer(
            async_mode="asgi",
            # Events of a client are handled one at a time, in the order they were sent.
            async_handlers=False,
            max_http_buffer_size=place.max_body_bytes,
            # `_check_handshake` checks the origin before the library is called.
            cors_allowed_origins=[],
            logger=quiet,
            engineio_logger=quiet,
        )
        self._server = cast(_Server, server)
        self._app = cast(ASGIApp, library.ASGIApp(server))
        self._refused = cast(Callable[..., Exception], library.exceptions.ConnectionRefusedError)
        for event, handler in (
            ("connect", self._connect),
            ("disconnect", self._disconnect),
            ("join", self._answering(self._join)),
            ("leave", self._answering(self._leave)),
            (MESSAGE, self._answering(self._take_message)),
            (EVENT, self._answering(self._taking(EVENT))),
            (DECISION, self._answering(self._taking(DECISION))),
            ("*", self._refuse_unknown),
        ):
            self._server.on(event, handler)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket of the library's transport."""
        try:
            self._check(scope)
        except CodedError as error:
            await _deny(problem_of(error, scope["path"]), scope, receive, send)
            return

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_S):
                await send(message)

        if self._looking is None:
            self._looking = asyncio.create_task(self._look_for_strangers(), name="looking for strangers")
        await self._app(scope, receive, send_in_time)

    def _check(self, scope: Scope) -> None:
        request = handshake(scope)
        origin = request.headers.get("origin", "")
        own = f"{request.url.scheme}://{request.url.netloc}"
        if origin and origin != own and origin not in self._place.rules.allow_origins:
            raise CodedError("forbidden", "requests from pages of another origin are rejected")
        is_new = b"sid" not in parse_qs(scope["query_string"])
        if is_new and len(self._server.eio.sockets) >= MOST_SESSIONS:
            raise LimitedError("too many connections are open; try again later", 5.0)

    async def _connect(self, sid: str, environ: Mapping[str, Any], auth: object = None) -> None:
        """Authenticate a new client by the token in its `auth` data or in the headers."""
        said = cast(dict[str, object], auth).get("token", "") if isinstance(auth, dict) else ""
        engine_sid = self._server.manager.eio_sid_from_sid(sid, "/") or ""
        guest = _Guest(environ["asgi.scope"], said if isinstance(said, str) else "", engine_sid)
        try:
            call = await let_in(self._place, "known", handshake(guest.scope, guest.token), {}, OPERATION)
        except CodedError as error:
            why = refusal(error)
            leaving = asyncio.create_task(self._dismiss_in_peace(engine_sid), name=f"dismissing {sid}")
            self._dismissing.add(leaving)
            leaving.add_done_callback(self._dismissing.discard)
            raise self._refused(why.message, msgspec.to_builtins(why)) from error
        if engine_sid not in self._server.eio.sockets:
            raise self._refused("the connection has ended")
        self._guests[sid] = guest
        guest.watched.enter_context(call.watched(lambda why: self._expel(sid, guest, why)))

    async def _look_for_strangers(self) -> None:
        """Close connections that are not authenticated in time."""
        before: set[str] = set()
        while True:
            await asyncio.sleep(self._place.gate.limits.head_s)
            strangers = self._server.eio.sockets.keys() - {guest.engine_sid for guest in self._guests.values()}
            for engine_sid in strangers & before:
                await self._dismiss(engine_sid)
            before = strangers

    async def _dismiss_in_peace(self, engine_sid: str) -> None:
        """Close a rejected connection after the error was delivered; the library would keep it open."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._place.gate.limits.head_s):
                await self._heard(engine_sid)
        await self._dismiss(engine_sid)

    async def _dismiss(self, engine_sid: str) -> None:
        connection = self._server.eio.sockets.get(engine_sid)
        if connection and not connection.closed:
            await connection.close(wait=False, abort=True)
            # None ends the send queue; without it a pending long poll would never return.
            await connection.queue.put(None)

    async def _disconnect(self, sid: str, *_: object) -> None:
        guest = self._guests.pop(sid, None)
        if guest is None:
            return
        guest.watched.close()
        if guest.reading:
            guest.reading.cancel()
        if connection := self._server.eio.sockets.get(guest.engine_sid):
            # None ends the send queue; without it a pending long poll would never return.
            await connection.queue.put(None)

    def _expel(self, sid: str, guest: _Guest, why: ChatError) -> None:
        """Send the error to the client and disconnect it."""

        async def expel() -> None:
            await self._server.emit(why.name, msgspec.to_builtins(why), to=sid)
            await self._server.disconnect(sid)

        guest.leaving = guest.leaving or asyncio.create_task(expel(), name=f"expelling {sid}")

    def _answering(self, work: Callable[[str, _Guest, object], Awaitable[msgspec.Struct]]) -> Callable[..., Any]:
        """Wrap a handler so that its result or error is acknowledged; no client event ends the connection."""

        async def answer(sid: str, *given: object) -> object:
            try:
                told = await work(sid, self._guests[sid], given[0] if given else {})
            except CodedError as error:
                told = Refused(error=refusal(error))
            except Exception:
                _logger.exception("a client message failed", extra={"fields": {"operation": OPERATION}})
                told = Refused(error=refusal(CodedError("internal_error", "")))
            return msgspec.to_builtins(told)

        return answer

    async def _refuse_unknown(self, event: str, *_: object) -> object:
        every = ", ".join(("join", "leave", MESSAGE, EVENT, DECISION))
        error = CodedError("request_malformed", f"event must be one of {every}, got {event[:60]!r}")
        return msgspec.to_builtins(Refused(error=refusal(error)))

    async def _join(self, sid: str, guest: _Guest, data: object) -> Joined:
        asked = converted(data, Joining)
        names = {"tenant": asked.tenant, "project": asked.project, "conversation_id": asked.conversation_id}
        request = handshake(guest.scope, guest.token)
        who = "reader" if asked.conversation_id else "member"
        call = await let_in(self._place, who, request, names, OPERATION)
        if call.info is None:
            await self._enter(sid, guest, call, None)
            return Joined(conversation_id="", tail=0)
        await self._enter(sid, guest, call, self._place.hub.stream(call.info, asked.after))
        return Joined(conversation_id=call.info.id, tail=call.info.tail)

    async def _leave(self, sid: str, guest: _Guest, _: object) -> Joined:
        await self._stop(guest)
        guest.call = None
        return Joined(conversation_id="", tail=0)

    async def _take_message(self, sid: str, guest: _Guest, data: object) -> Accepted:
        call = self._here(guest)
        if call.info is not None:
            return await take(call, MESSAGE, data)
        said, call = converted(data, SaidBody), await let_in_again(call)
        header = ConversationStarted(tenant=call.tenant, project=call.project, user=call.caller.user)
        accepted = await self._place.hub.begin(header, said.message)
        await self._enter_new(sid, guest, call, accepted.conversation_id)
        return accepted

    def _taking(self, event: str) -> Callable[[str, _Guest, object], Awaitable[Accepted]]:
        async def taken(_sid: str, guest: _Guest, data: object) -> Accepted:
            call = self._here(guest)
            if call.info is None:
                raise CodedError("request_malformed", "send a message first; it starts the conversation")
            return await take(call, event, data)

        return taken

    def _here(self, guest: _Guest) -> RequestContext:
        if guest.call is None:
            raise CodedError("request_malformed", "join a conversation first")
        return guest.call

    async def _enter_new(self, sid: str, guest: _Guest, call: RequestContext, conversation: ConversationId) -> None:
        info = await self._place.store.info(conversation)
        await self._enter(sid, guest, replace(call, info=info), self._place.hub.stream(info, 0))

    async def _enter(self, sid: str, guest: _Guest, call: RequestContext, opened: Streaming | None) -> None:
        await self._stop(guest)
        guest.call = call
        if opened:
            self._place.gate.check_streams(call.caller.id)
            guest.reading = asyncio.create_task(self._read(sid, guest, call, opened), name=f"telling {sid}")

    async def _stop(self, guest: _Guest) -> None:
        reading, guest.reading = guest.reading, None
        if reading:
            reading.cancel()
            await asyncio.wait({reading})

    async def _read(self, sid: str, guest: _Guest, call: RequestContext, opened: Streaming) -> None:
        try:
            with self._place.gate.streaming(call.caller.id):
                async with opened as (stream, events), aclosing(events):
                    await serve_reader(stream, self._place.leave_s, self._tell(sid, guest.engine_sid, events), _never())
        except CodedError as error:
            why = refusal(error)
            await self._server.emit(why.name, msgspec.to_builtins(why), to=sid)
        # The stream ended with an error that was sent. Clear the task, so that disconnecting does not cancel itself.
        guest.reading = None
        await self._server.disconnect(sid)

    async def _tell(self, sid: str, engine_sid: str, events: AsyncGenerator[Event]) -> None:
        async for event in events:
            if isinstance(event, Heartbeat):
                # Socket.IO has pings.
                continue
            await self._server.emit(event.name, msgspec.json.decode(msgspec.json.encode(event)), to=sid)
            # Wait for delivery, so that the events of a slow client wait in the bounded subscription queue.
            await self._heard(engine_sid)

    async def _heard(self, engine_sid: str) -> None:
        if connection := self._server.eio.sockets.get(engine_sid):
            await connection.queue.join()


async def _never() -> None:
    await asyncio.Event().wait()


async def _deny(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).send_denial_response(response)
    else:
        await response(scope, receive, send)
