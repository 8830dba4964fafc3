"""Conversations over Socket.IO: emits stream events under their names and acknowledges messages."""

import asyncio
import logging
import time
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

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.platform.tasks import cancel_and_wait
from timeloom.runtime.hub.events import ChatError, Event, Heartbeat
from timeloom.runtime.hub.hub import SubscriptionContext
from timeloom.runtime.hub.state import SendReceipt
from timeloom.server.auth.authenticate import client_address
from timeloom.server.authorize import authorize, handshake_request, reauthorize
from timeloom.server.http.deliver import deliver_until_closed
from timeloom.server.http.problem_json import error_response, problem_response
from timeloom.server.protocols.client_message import (
    DECISION,
    EVENT,
    MESSAGE,
    convert_body,
    handle_message,
    to_chat_error,
)
from timeloom.server.protocols.engineio_sessions import EngineIoSessions, SocketIoInternals, handshake_scope
from timeloom.server.rate_limit import RateLimitError
from timeloom.server.request_context import RequestContext
from timeloom.server.routes.chat import MAX_SEQ, FirstMessage
from timeloom.server.services import Services

PATH: Final = "/socket.io"
OPERATION: Final = "socketio"
LIBRARY: Final = "socketio"
"""python-socketio, installed by the extra `socketio`."""

MAX_SESSIONS: Final = 10_000
"""Maximum number of sessions; the library creates one per client before it is authenticated."""

MAX_UNAUTHENTICATED: Final = 1000
MAX_UNAUTHENTICATED_PER_ADDRESS: Final = 100
"""Maximum numbers of sessions whose clients have not sent a valid token yet, in total and of one address. A client
sends it with its first packet, so fewer would refuse users only in a burst."""

MIN_AGE_S: Final = 2.0
"""Age from which a session without a valid token makes room for a new one."""

SEND_S: Final = 60.0
"""Seconds for sending one message. Less disconnects clients with slow networks; more keeps dead connections."""

_logger = logging.getLogger(__name__)


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conversation to join, and the block after which its stream begins.

    Without `conversation_id`, the first message starts a new conversation.
    """

    tenant: str
    project: str
    conversation_id: str = ""
    after: Annotated[int, Meta(ge=0, le=MAX_SEQ)] = 0


class JoinResult(msgspec.Struct, frozen=True, kw_only=True):
    """The joined conversation, and the seq of its last entry."""

    conversation_id: str
    tail: int


class EventError(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a rejected event."""

    error: object


class _SocketIoLibraryServer(Protocol):
    """The documented part of the library's server that is used here; the library has no type hints."""

    def on(self, event: str, handler: Callable[..., Awaitable[object]]) -> None: ...
    async def emit(self, event: str, data: object, *, to: str) -> None: ...
    async def disconnect(self, sid: str) -> None: ...


@dataclass(slots=True)
class _Client:
    """A connected client, its joined conversation and the task that streams events to it."""

    scope: Scope
    token: str
    engine_sid: str
    context: RequestContext | None = None
    stream_task: asyncio.Task[None] | None = None
    closing_task: asyncio.Task[None] | None = None
    revocation_watch: ExitStack = field(default_factory=ExitStack)


def socketio_app(services: Services, library: str = LIBRARY) -> ASGIApp:
    """Return the application at `/socket.io`; without the library, one that names the missing package."""
    if not find_spec(library):
        return _report_missing_library
    # The library takes 300 ms to load, so it is loaded by the first Socket.IO request.
    socketio_server = cache(lambda: _SocketIoServer(services))

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await socketio_server().serve(scope, receive, send)

    return serve


class _SocketIoServer:
    """Handles Socket.IO connections; each joins one conversation at a time."""

    def __init__(self, services: Services) -> None:
        library: Any = import_module(LIBRARY)
        self._services = services
        self._clients: dict[str, _Client] = {}
        self._closing_tasks: set[asyncio.Task[None]] = set()
        self._cleanup_task: asyncio.Task[None] | None = None
        self._unauthenticated: dict[str, tuple[str, float]] = {}
        """The addresses of unauthenticated sessions and when they were first seen, oldest first."""
        # Below ERROR the library logs message contents. Errors without a traceback are caused by clients.
        quiet = logging.getLogger(f"{__name__}.library")
        quiet.setLevel(logging.ERROR)
        quiet.addFilter(lambda record: record.exc_info is not None)
        server: Any = library.AsyncServer(
            async_mode="asgi",
            # Events of a client are handled one at a time, in the order they were sent.
            async_handlers=False,
            max_http_buffer_size=services.max_body_bytes,
            # `_check_handshake` checks the origin before the library is called.
            cors_allowed_origins=[],
            logger=quiet,
            engineio_logger=quiet,
        )
        self._server = cast(_SocketIoLibraryServer, server)
        self._sessions = EngineIoSessions(cast(SocketIoInternals, server))
        self._app = cast(ASGIApp, library.ASGIApp(server))
        self._connection_refused_error = cast(Callable[..., Exception], library.exceptions.ConnectionRefusedError)
        for event, handler in (
            ("connect", self._on_connect),
            ("disconnect", self._on_disconnect),
            ("join", self._acknowledged(self._on_join)),
            ("leave", self._acknowledged(self._on_leave)),
            (MESSAGE, self._acknowledged(self._on_chat_message)),
            (EVENT, self._acknowledged(self._event_handler(EVENT))),
            (DECISION, self._acknowledged(self._event_handler(DECISION))),
            ("*", self._reject_unknown_event),
        ):
            self._server.on(event, handler)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket of the library's transport."""
        try:
            await self._check_handshake(scope)
        except CodedError as error:
            await _send_denial(error_response(error, scope["path"]), scope, receive, send)
            return

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_S):
                await send(message)

        if self._cleanup_task is None:
            self._cleanup_task = asyncio.create_task(self._close_unauthenticated(), name="looking for strangers")
        # The library compares the whole path, which begins with the prefix of an application around this one.
        prefix = scope.get("root_path", "").removesuffix(PATH)
        await self._app({**scope, "path": scope["path"].removeprefix(prefix)}, receive, send_in_time)

    async def _check_handshake(self, scope: Scope) -> None:
        request = handshake_request(scope)
        origin = request.headers.get("origin", "")
        own_origin = f"{request.url.scheme}://{request.url.netloc}"
        if origin and origin != own_origin and origin not in self._services.access_policy.allow_origins:
            raise CodedError("forbidden", "server.allow_origins does not list the origin of this page")
        # A page can open a session without the header `Origin`, for example as an image.
        if not origin and request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            raise CodedError("forbidden", "requests from pages of another origin are rejected")
        if b"sid" in parse_qs(scope["query_string"]):
            return
        if self._sessions.count >= MAX_SESSIONS:
            raise RateLimitError("too many connections are open; try again later", 5.0)
        authenticator = self._services.authenticator
        if not await authenticator.find_principal(authenticator.credential(request)):
            await self._limit_unauthenticated(client_address(request))

    async def _limit_unauthenticated(self, address: str) -> None:
        """Make room for a session without a token in its handshake; raise if there are too many young ones."""
        self._update_unauthenticated()
        pending = self._unauthenticated
        own = [session for session, (host, _) in pending.items() if host == address]
        if len(own) < MAX_UNAUTHENTICATED_PER_ADDRESS and len(pending) < MAX_UNAUTHENTICATED:
            return
        oldest = own[0] if len(own) >= MAX_UNAUTHENTICATED_PER_ADDRESS else next(iter(pending))
        if time.monotonic() - pending[oldest][1] < MIN_AGE_S:
            raise RateLimitError("too many connections without a valid token are open; try again later", 5.0)
        del pending[oldest]
        await self._sessions.close(oldest)

    def _update_unauthenticated(self) -> None:
        """Add new sessions to the table of unauthenticated ones; remove those that ended or have authenticated."""
        waiting = self._sessions.ids - {client.engine_sid for client in self._clients.values()}
        for session in self._unauthenticated.keys() - waiting:
            del self._unauthenticated[session]
        for session in waiting - self._unauthenticated.keys():
            if scope := self._sessions.find_scope(session):
                self._unauthenticated[session] = client_address(handshake_request(scope)), time.monotonic()

    async def _on_connect(self, sid: str, environ: Mapping[str, Any], auth: object = None) -> None:
        """Authenticate a new client by the token in its `auth` data or in the headers."""
        token = cast(dict[str, object], auth).get("token", "") if isinstance(auth, dict) else ""
        engine_sid = self._sessions.find_id(sid)
        connection = _Client(handshake_scope(environ), token if isinstance(token, str) else "", engine_sid)
        try:
            context = await authorize(
                self._services, "known", handshake_request(connection.scope, connection.token), {}, OPERATION
            )
        except CodedError as error:
            why = to_chat_error(error)
            closing = asyncio.create_task(self._close_after_delivery(engine_sid), name=f"dismissing {sid}")
            self._closing_tasks.add(closing)
            closing.add_done_callback(self._closing_tasks.discard)
            raise self._connection_refused_error(why.message, msgspec.to_builtins(why)) from error
        if not self._sessions.exists(engine_sid):
            raise self._connection_refused_error("the connection has ended")
        self._clients[sid] = connection
        connection.revocation_watch.enter_context(
            context.monitor_revocation(lambda chat_error: self._close_with_error(sid, connection, chat_error))
        )

    async def _close_unauthenticated(self) -> None:
        """Close connections that are not authenticated in time."""
        before: frozenset[str] = frozenset()
        while True:
            await asyncio.sleep(self._services.rate_limiter.limits.head_s)
            unauthenticated = self._sessions.ids - {guest.engine_sid for guest in self._clients.values()}
            for engine_sid in unauthenticated & before:
                await self._sessions.close(engine_sid)
            before = unauthenticated

    async def _close_after_delivery(self, engine_sid: str) -> None:
        """Close a rejected connection after the error was delivered; the library would keep it open."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._services.rate_limiter.limits.head_s):
                await self._sessions.wait_for_delivery(engine_sid)
        await self._sessions.close(engine_sid)

    async def _on_disconnect(self, sid: str, *_: object) -> None:
        client = self._clients.pop(sid, None)
        if client is None:
            return
        client.revocation_watch.close()
        if client.stream_task:
            client.stream_task.cancel()
        await self._sessions.end_queue(client.engine_sid)

    def _close_with_error(self, sid: str, client: _Client, error: ChatError) -> None:
        """Send the error to the client and disconnect it."""

        async def close() -> None:
            await self._server.emit(error.name, msgspec.to_builtins(error), to=sid)
            await self._server.disconnect(sid)

        client.closing_task = client.closing_task or asyncio.create_task(close(), name=f"expelling {sid}")

    def _acknowledged(self, work: Callable[[str, _Client, object], Awaitable[msgspec.Struct]]) -> Callable[..., Any]:
        """Wrap a handler so that its result or error is acknowledged; no client event ends the connection."""

        async def answer(sid: str, *given: object) -> object:
            try:
                result = await work(sid, self._clients[sid], given[0] if given else {})
            except CodedError as error:
                result = EventError(error=to_chat_error(error))
            except Exception:
                _logger.exception("a client message failed", extra={"fields": {"operation": OPERATION}})
                result = EventError(error=to_chat_error(CodedError("internal_error", "")))
            return msgspec.to_builtins(result)

        return answer

    async def _reject_unknown_event(self, event: str, *_: object) -> object:
        expected = ", ".join(("join", "leave", MESSAGE, EVENT, DECISION))
        error = CodedError("request_malformed", f"event must be one of {expected}, got {event[:60]!r}")
        return msgspec.to_builtins(EventError(error=to_chat_error(error)))

    async def _on_join(self, sid: str, client: _Client, data: object) -> JoinResult:
        join = convert_body(data, JoinRequest)
        names = {"tenant": join.tenant, "project": join.project, "conversation_id": join.conversation_id}
        request = handshake_request(client.scope, client.token)
        requires = "reader" if join.conversation_id else "member"
        context = await authorize(self._services, requires, request, names, OPERATION)
        if context.info is None:
            await self._switch_conversation(sid, client, context, None)
            return JoinResult(conversation_id="", tail=0)
        await self._switch_conversation(sid, client, context, self._services.hub.stream(context.info, join.after))
        return JoinResult(conversation_id=context.info.id, tail=context.info.tail)

    async def _on_leave(self, sid: str, client: _Client, _: object) -> JoinResult:
        await self._stop_stream(client)
        client.context = None
        return JoinResult(conversation_id="", tail=0)

    async def _on_chat_message(self, sid: str, client: _Client, data: object) -> SendReceipt:
        context = self._require_joined(client)
        if context.info is not None:
            return await handle_message(context, MESSAGE, data)
        message, context = convert_body(data, FirstMessage), await reauthorize(context)
        header = await context.start_header(message.bundle)
        accepted = await self._services.hub.start_conversation(header, message.message)
        await self._join_new(sid, client, context, accepted.conversation_id)
        return accepted

    def _event_handler(self, event: str) -> Callable[[str, _Client, object], Awaitable[SendReceipt]]:
        async def handle(_sid: str, guest: _Client, data: object) -> SendReceipt:
            context = self._require_joined(guest)
            if context.info is None:
                raise CodedError("request_malformed", "send a message first; it starts the conversation")
            return await handle_message(context, event, data)

        return handle

    def _require_joined(self, client: _Client) -> RequestContext:
        if client.context is None:
            raise CodedError("request_malformed", "join a conversation first")
        return client.context

    async def _join_new(self, sid: str, client: _Client, context: RequestContext, conversation: ConversationId) -> None:
        info = await self._services.store.info(conversation)
        await self._switch_conversation(sid, client, replace(context, info=info), self._services.hub.stream(info, 0))

    async def _switch_conversation(
        self, sid: str, client: _Client, context: RequestContext, opened: SubscriptionContext | None
    ) -> None:
        await self._stop_stream(client)
        client.context = context
        if opened:
            self._services.rate_limiter.check_streams(context.principal.id)
            client.stream_task = asyncio.create_task(
                self._stream_events(sid, client, context, opened), name=f"telling {sid}"
            )

    async def _stop_stream(self, client: _Client) -> None:
        reading, client.stream_task = client.stream_task, None
        if reading:
            await cancel_and_wait(reading)

    async def _stream_events(
        self, sid: str, client: _Client, context: RequestContext, opened: SubscriptionContext
    ) -> None:
        try:
            with self._services.rate_limiter.count_stream(context.principal.id):
                async with opened as (stream, events), aclosing(events):
                    await deliver_until_closed(
                        stream,
                        self._services.drain_timeout_s,
                        self._emit_events(sid, client.engine_sid, events),
                        _wait_forever(),
                    )
        except CodedError as error:
            chat_error = to_chat_error(error)
            await self._server.emit(chat_error.name, msgspec.to_builtins(chat_error), to=sid)
        # The stream ended with an error that was sent. Clear the task, so that disconnecting does not cancel itself.
        client.stream_task = None
        await self._server.disconnect(sid)

    async def _emit_events(self, sid: str, engine_sid: str, events: AsyncGenerator[Event]) -> None:
        async for event in events:
            if isinstance(event, Heartbeat):
                # Socket.IO has pings.
                continue
            await self._server.emit(event.name, msgspec.json.decode(msgspec.json.encode(event)), to=sid)
            # Wait for delivery, so that the events of a slow client wait in the bounded subscription queue.
            await self._sessions.wait_for_delivery(engine_sid)


async def _report_missing_library(scope: Scope, receive: Receive, send: Send) -> None:
    detail = "this server has no Socket.IO; its operator can install it with `pip install 'timeloom[socketio]'`"
    await _send_denial(problem_response("route_unknown", detail, scope["path"]), scope, receive, send)


async def _wait_forever() -> None:
    await asyncio.Event().wait()


async def _send_denial(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).send_denial_response(response)
    else:
        await response(scope, receive, send)
