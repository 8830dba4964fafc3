"""Builds the ASGI application: every endpoint with the same authorization, parsing and error handling."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Final, cast
from urllib.parse import urlencode

import msgspec
import msgspec.inspect
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from timeloom.core.codes import CodedError
from timeloom.runtime.hub.live_conversation import Accepted
from timeloom.server.auth.authenticate import TokenError, address_of, cookie_of
from timeloom.server.authorize import handshake, let_in
from timeloom.server.endpoints import OPERATIONS, SOCKETS, Operation, Socket
from timeloom.server.http.downloads import Download
from timeloom.server.http.problem_json import MEDIA_TYPE as PROBLEM_TYPE
from timeloom.server.http.problem_json import problem, problem_of
from timeloom.server.http.security_headers import guarded
from timeloom.server.http.sse import MEDIA_TYPE as EVENTS_TYPE
from timeloom.server.http.sse import EventStream
from timeloom.server.http.uploads import is_form, read_form
from timeloom.server.http.validation_error import what_is_wrong
from timeloom.server.openapi import document
from timeloom.server.protocols.openai.routes import ADDRESS as OPENAI_ADDRESS
from timeloom.server.protocols.openai.routes import refused
from timeloom.server.protocols.socketio import PATH as SOCKETIO_PATH
from timeloom.server.protocols.socketio import socketio_app
from timeloom.server.routes.web_ui import page_routes
from timeloom.server.services import RequestContext, Services

TOKEN: Final = "token"

DRAIN_BYTES: Final = 1024 * 1024
DRAIN_S: Final = 1.0
"""How many bytes of a rejected body are read, and for how many seconds, before the response is sent."""

_logger = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(place: Services) -> ASGIApp:
    """Return the application that serves these services."""
    described = document(OPERATIONS)

    async def openapi(_: Request) -> Response:
        return Response(described, media_type="application/json")

    async def log_in(request: Request, token: str) -> Response:
        return await _with_cookie(place, request, token)

    routes = [
        *(_route(place, one) for one in OPERATIONS),
        *(_socket_route(place, one) for one in SOCKETS),
        Route("/openapi.json", openapi),
        *page_routes(log_in),
        *([Mount(SOCKETIO_PATH, by_socketio)] if (by_socketio := socketio_app(place)) else []),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _not_here})
    return guarded(app, place.rules)


def _route(place: Services, operation: Operation) -> Route:
    # Starlette adds HEAD to GET.
    return Route(operation.path, _endpoint(place, operation), methods=[operation.method])


def _endpoint(place: Services, operation: Operation) -> Endpoint:
    async def answer(request: Request) -> Response:
        began = time.perf_counter()
        try:
            if token := request.query_params.get(TOKEN, ""):
                response = await _with_cookie(place, request, token)
            else:
                response = await _answer(place, operation, request)
        except CodedError as error:
            place.metrics.refused(error.code)
            response = problem_of(error, request.url.path)
            if response.status_code >= 500:
                _logger.warning("request failed", exc_info=error, extra={"fields": {"operation": operation.name}})
        except ClientDisconnect:
            place.metrics.refused("request_malformed")
            response = problem(
                "request_malformed", "the connection ended before the whole body arrived", request.url.path
            )
        except Exception:
            place.metrics.refused("internal_error")
            _logger.exception("request failed", extra={"fields": {"operation": operation.name}})
            response = problem("internal_error", "internal error; see the server's log", request.url.path)
        if operation.body and not getattr(request.state, "is_read", False) and not await _drained(request):
            # The client still sends a body that is not read, so the connection cannot be reused.
            response.headers["connection"] = "close"
        if response.status_code >= 400 and getattr(request.state, "accepted", None):
            # The message is on the timeline: a client that retries automatically would send it twice.
            response.headers["x-should-retry"] = "false"
            del response.headers["retry-after"]
        if operation.refusal and response.media_type == PROBLEM_TYPE:
            response = operation.refusal(response)
        await RequestContext(place=place, request=request).record_end(response.status_code)
        place.metrics.answered(operation.name, response.status_code, time.perf_counter() - began)
        _log(operation, request, response, began)
        return await _without_body(response) if request.method == "HEAD" else response

    return answer


async def _answer(place: Services, operation: Operation, request: Request) -> Response:
    call = await let_in(place, operation.who, request, request.path_params, operation.name)
    given: dict[str, object] = {}
    if operation.query:
        given["query"] = _query(operation.query, request)
    if operation.body and operation.takes_files and is_form(request):
        given["body"], given["files"] = await read_form(operation.body, request, place.uploads)
    elif operation.body:
        given["body"] = _decoded(operation.body, await _body(place, request), request)
    request.state.is_read = True
    if _wants_stream(operation, request):
        place.gate.check_streams(call.caller.id)
    if operation.audited:
        await call.record(call.conversation.id)
    answer = await operation.run(call, **given)
    if isinstance(answer, EventStream):
        return _Kept(answer, call)
    if isinstance(answer, Response):
        return answer
    if isinstance(answer, Accepted):
        request.state.accepted = answer
    return Response(msgspec.json.encode(answer), operation.status, media_type="application/json")


def _socket_route(place: Services, socket: Socket) -> WebSocketRoute:
    async def hold(websocket: WebSocket) -> None:
        request = handshake(websocket.scope)
        try:
            call = await let_in(place, socket.who, request, request.path_params, socket.run.__name__)
            place.gate.check_streams(call.caller.id)
            with place.gate.streaming(call.caller.id):
                await socket.run(call, websocket, _query(socket.query, request))
        except CodedError as error:
            place.metrics.refused(error.code)
            await websocket.send_denial_response(problem_of(error, request.url.path))

    return WebSocketRoute(socket.path, hold)


def _wants_stream(operation: Operation, request: Request) -> bool:
    """Whether the request asks for a stream, decided before the handler runs."""
    if EventStream not in operation.answers:
        return False
    return len(operation.answers) == 1 or EVENTS_TYPE in request.headers.get("accept", "")


class _Kept(Response):
    """An event stream that counts against its caller's limit and ends when the caller's token is revoked."""

    def __init__(self, stream: EventStream, call: RequestContext) -> None:
        super().__init__(status_code=stream.status_code)
        self.head: Response = stream
        self._stream, self._call = stream, call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = self._call
        with call.place.gate.streaming(call.caller.id), call.watched(self._stream.end):
            await self._stream(scope, receive, send)


async def _body(place: Services, request: Request) -> bytes:
    """Return the body; raise if it is too large or too slow, while it arrives."""
    body = bytearray()
    most_bytes, most_s = place.max_body_bytes, place.gate.limits.body_s
    declared = request.headers.get("content-length", "0")
    too_large = CodedError("request_too_large", f"the body is too large; at most {most_bytes} bytes are accepted")
    if declared.isdigit() and int(declared[:20]) > most_bytes:
        raise too_large
    try:
        async with asyncio.timeout(most_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most_bytes:
                    raise too_large
    except TimeoutError as error:
        raise CodedError("request_timeout", f"the body did not arrive within {most_s:g} seconds") from error
    return bytes(body)


async def _drained(request: Request) -> bool:
    """Read and drop the rest of a rejected body; return whether it ended in time.

    A client that is still sending would not read the response otherwise.
    """
    rest_bytes = 0
    try:
        async with asyncio.timeout(DRAIN_S):
            async for chunk in request.stream():
                rest_bytes += len(chunk)
                if rest_bytes > DRAIN_BYTES:
                    return False
    except (TimeoutError, ClientDisconnect):
        return False
    except RuntimeError:
        # Starlette raises this for a body that was already read to its end.
        return True
    return True


def _decoded(kind: type[object], body: bytes, request: Request) -> object:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise CodedError("request_malformed", "send the body as JSON, with `Content-Type: application/json`")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CodedError("request_malformed", f"the body is invalid: {what_is_wrong(error, kind)}") from error


def _query(kind: type[object], request: Request) -> object:
    said = dict(request.query_params)
    for name in _counted(kind) & said.keys():
        if not (said[name].isascii() and said[name].isdigit()):
            raise CodedError("request_malformed", f"the query is invalid: {name} must be a whole number")
    try:
        return msgspec.convert(said, kind, strict=False)
    except msgspec.ValidationError as error:
        raise CodedError("request_malformed", f"the query is invalid: {what_is_wrong(error, kind)}") from error


@cache
def _counted(kind: type[object]) -> frozenset[str]:
    """Return the names of the integer fields; msgspec reads those more loosely from text than a URL should allow."""
    found = cast(msgspec.inspect.StructType, msgspec.inspect.type_info(kind))
    return frozenset(field.encode_name for field in found.fields if _is_counted(field.type))


def _is_counted(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(map(_is_counted, kind.types))
    return isinstance(kind, msgspec.inspect.IntType)


async def _with_cookie(place: Services, request: Request, token: str) -> Response:
    """Move the token from the URL, where histories and logs would keep it, into a cookie, and redirect."""
    try:
        if request.method != "GET":
            raise TokenError("a token in the URL works only with GET; send it as `Authorization: Bearer <token>`")
        await place.doorkeeper.need(token)
    except TokenError:
        place.gate.failed(address_of(request))
        raise
    rest = [(key, value) for key, value in request.query_params.multi_items() if key != TOKEN]
    response = RedirectResponse(f"{request.url.path}{f'?{urlencode(rest)}' if rest else ''}", 303)
    secure = request.url.scheme == "https"
    response.set_cookie(cookie_of(request), token, httponly=True, samesite="strict", secure=secure)
    return response


async def _without_body(response: Response) -> Response:
    """Return the status and headers alone, without starting a stream or reading a file."""
    if isinstance(response, Download):
        await response.close()
    head = Response(status_code=response.status_code)
    head.raw_headers = response.head.raw_headers if isinstance(response, _Kept) else response.raw_headers
    return head


async def _not_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = ", ".join(sorted(_methods_at(request))) if error.status_code == 405 else ""
    words = f"this route accepts {allowed}" if allowed else "no such route; GET /openapi.json lists all routes"
    response = problem("route_unknown", words, request.url.path, error.status_code)
    if request.url.path.startswith(OPENAI_ADDRESS):
        response = refused(response)
    if allowed:
        response.headers["allow"] = allowed
    return response


def _methods_at(request: Request) -> set[str]:
    """Return the methods that any route accepts at that path."""
    found: set[str] = set()
    for route in cast(Starlette, request.app).routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return found


def _log(operation: Operation, request: Request, response: Response, began: float) -> None:
    accepted: Accepted | None = getattr(request.state, "accepted", None)
    # An unauthorized client can put any text into the path, so it is not logged.
    named = "" if response.status_code in (401, 403, 404) else request.path_params.get("conversation_id", "")
    fields: dict[str, object] = {
        "operation": operation.name,
        "status": response.status_code,
        "ms": round((time.perf_counter() - began) * 1000, 1),
        "conversation_id": accepted.conversation_id if accepted else named,
    }
    if accepted:
        fields |= {"turn_id": accepted.turn_id, "seq": accepted.seq}
    _logger.info("request", extra={"fields": fields})
