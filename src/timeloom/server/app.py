"""The HTTP application: every operation of the table behind the same door."""

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
"""How much of a body that was refused is read, and for how long, before the answer is sent."""

_logger = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(place: Services) -> ASGIApp:
    """The application over that place."""
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
            response = problem("request_malformed", "the connection ended before the body did", request.url.path)
        except Exception:
            place.metrics.refused("internal_error")
            _logger.exception("request failed", extra={"fields": {"operation": operation.name}})
            response = problem("internal_error", "the server's log says more", request.url.path)
        if operation.body and not getattr(request.state, "is_read", False) and not await _drained(request):
            # Whoever still sends what nobody reads is not listened to any longer.
            response.headers["connection"] = "close"
        if response.status_code >= 400 and getattr(request.state, "accepted", None):
            # What was said is on the timeline: a client that tries again by itself would say it twice.
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
    """Whether a stream is asked for, as far as can be told before anything is done."""
    if EventStream not in operation.answers:
        return False
    return len(operation.answers) == 1 or EVENTS_TYPE in request.headers.get("accept", "")


class _Kept(Response):
    """A stream that counts as one of its caller's as long as it is sent, and ends with what their token stands for."""

    def __init__(self, stream: EventStream, call: RequestContext) -> None:
        super().__init__(status_code=stream.status_code)
        self.head: Response = stream
        self._stream, self._call = stream, call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = self._call
        with call.place.gate.streaming(call.caller.id), call.watched(self._stream.end):
            await self._stream(scope, receive, send)


async def _body(place: Services, request: Request) -> bytes:
    """The body, counted and timed while it comes in."""
    body = bytearray()
    most_bytes, most_s = place.max_body_bytes, place.gate.limits.body_s
    declared = request.headers.get("content-length", "0")
    too_large = CodedError("request_too_large", f"a body has at most {most_bytes} bytes")
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
    """Whether the rest of a body that nobody wants is soon over: who still sends would not see the answer otherwise."""
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
        # Starlette's word for a body that was read to its end.
        return True
    return True


def _decoded(kind: type[object], body: bytes, request: Request) -> object:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise CodedError("request_malformed", "the body is JSON, and Content-Type says application/json")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CodedError("request_malformed", f"the body is not as expected: {what_is_wrong(error, kind)}") from error


def _query(kind: type[object], request: Request) -> object:
    said = dict(request.query_params)
    for name in _counted(kind) & said.keys():
        if not (said[name].isascii() and said[name].isdigit()):
            raise CodedError("request_malformed", f"the query is not as expected: {name} is a whole number")
    try:
        return msgspec.convert(said, kind, strict=False)
    except msgspec.ValidationError as error:
        raise CodedError("request_malformed", f"the query is not as expected: {what_is_wrong(error, kind)}") from error


@cache
def _counted(kind: type[object]) -> frozenset[str]:
    """The fields that are whole numbers, which are read more loosely from text than an address should be."""
    found = cast(msgspec.inspect.StructType, msgspec.inspect.type_info(kind))
    return frozenset(field.encode_name for field in found.fields if _is_counted(field.type))


def _is_counted(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(map(_is_counted, kind.types))
    return isinstance(kind, msgspec.inspect.IntType)


async def _with_cookie(place: Services, request: Request, token: str) -> Response:
    """Takes the token out of the address, where it would be seen and kept, and gives it to the browser."""
    try:
        if request.method != "GET":
            raise TokenError("a token in the address is for GET; send it as `Authorization: Bearer <token>`")
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
    """The head alone: what a stream would tell is not waited for, and a file is not read."""
    if isinstance(response, Download):
        await response.close()
    head = Response(status_code=response.status_code)
    head.raw_headers = response.head.raw_headers if isinstance(response, _Kept) else response.raw_headers
    return head


async def _not_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = ", ".join(sorted(_methods_at(request))) if error.status_code == 405 else ""
    words = f"this address takes {allowed}" if allowed else "nothing is here; GET /openapi.json says where something is"
    response = problem("route_unknown", words, request.url.path, error.status_code)
    if request.url.path.startswith(OPENAI_ADDRESS):
        response = refused(response)
    if allowed:
        response.headers["allow"] = allowed
    return response


def _methods_at(request: Request) -> set[str]:
    """What can be done at that address, by all of its routes."""
    found: set[str] = set()
    for route in cast(Starlette, request.app).routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return found


def _log(operation: Operation, request: Request, response: Response, began: float) -> None:
    accepted: Accepted | None = getattr(request.state, "accepted", None)
    # Where nobody was let in, what stands in the address is anybody's text.
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
