"""Builds the ASGI application: every endpoint with the same authorization, parsing and error handling."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, cast
from urllib.parse import parse_qsl

import msgspec
import msgspec.inspect
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from timeloom.core.codes import CodedError
from timeloom.runtime.hub.state import SendReceipt
from timeloom.server.auth.authenticate import is_native_form
from timeloom.server.authorize import authorize, handshake_request
from timeloom.server.endpoints import ENDPOINTS, WEBSOCKET_ENDPOINTS, Endpoint, WebSocketEndpoint
from timeloom.server.http.downloads import FileDownload
from timeloom.server.http.json_body import decode_json
from timeloom.server.http.problem_json import MEDIA_TYPE as PROBLEM_TYPE
from timeloom.server.http.problem_json import error_response, problem_response
from timeloom.server.http.security_headers import with_security_headers
from timeloom.server.http.sse import MEDIA_TYPE as EVENTS_TYPE
from timeloom.server.http.sse import EventStream
from timeloom.server.http.uploads import is_form, read_form
from timeloom.server.http.validation_error import explain_validation_error
from timeloom.server.openapi.document import build_document
from timeloom.server.openapi.page import PAGE_CSP as DOCS_CSP
from timeloom.server.openapi.page import render_page
from timeloom.server.protocols.openai.routes import PATH_PREFIX as OPENAI_ADDRESS
from timeloom.server.protocols.openai.routes import to_openai_error
from timeloom.server.protocols.socketio import PATH as SOCKETIO_PATH
from timeloom.server.protocols.socketio import socketio_app
from timeloom.server.request_context import RequestContext, mounted_path
from timeloom.server.routes.login import SIGN_IN_HANDLERS, log_in_by_address
from timeloom.server.routes.web_ui import page_routes
from timeloom.server.services import Services

DRAIN_BYTES: Final = 1024 * 1024
DRAIN_S: Final = 1.0
"""How many bytes of a rejected body are read, and for how many seconds, before the response is sent."""

MAX_FORM_FIELDS: Final = 16

FORM_REFUSALS: Final = (400, 401, 429)
"""Statuses of a form that its page reports to the person. Others are no fault of the person and stay as they are."""

_GZIP: Final = (Middleware(GZipMiddleware, minimum_size=1000),)

_logger = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class AppOptions:
    """The parts of the application that another application may leave out."""

    page: bool = True
    """Whether it serves the web page."""
    sign_in: bool = True
    """Whether browsers exchange a token for a cookie; otherwise the application around it signs people in."""


def build_app(services: Services, options: AppOptions | None = None) -> ASGIApp:
    """Return the application that serves these services."""
    options = options or AppOptions()
    # Both take a while, and few servers are asked for them.
    openapi_json = cache(lambda: build_document(ENDPOINTS))
    render_docs = cache(lambda: render_page(openapi_json()))

    async def openapi(_: Request) -> Response:
        return Response(await asyncio.to_thread(openapi_json), media_type="application/json")

    async def docs(_: Request) -> Response:
        headers = {"content-security-policy": DOCS_CSP}
        return Response(await asyncio.to_thread(render_docs), headers=headers, media_type="text/html")

    async def log_in(request: Request, token: str) -> Response:
        return await log_in_by_address(services, request, token)

    routes = [
        *(_build_route(services, one) for one in ENDPOINTS if options.sign_in or one.handler not in SIGN_IN_HANDLERS),
        *(_build_websocket_route(services, one) for one in WEBSOCKET_ENDPOINTS),
        Route("/openapi.json", openapi, middleware=_GZIP),
        Route("/docs", docs, middleware=_GZIP),
        *(page_routes(log_in if options.sign_in else None) if options.page else ()),
        Mount(SOCKETIO_PATH, socketio_app(services)),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _handle_unknown_route})
    return with_security_headers(app, services.access_policy, _format_error)


def _build_route(services: Services, endpoint: Endpoint) -> Route:
    # Starlette adds HEAD to GET.
    return Route(endpoint.path, _build_handler(services, endpoint), methods=[endpoint.method])


def _build_handler(services: Services, endpoint: Endpoint) -> Handler:
    async def handle(request: Request) -> Response:
        began = time.perf_counter()
        try:
            response = await _handle(services, endpoint, request)
        except CodedError as error:
            services.metrics.count_error(error.code)
            response = error_response(error, request.url.path)
            if response.status_code >= 500:
                _logger.warning("request failed", exc_info=error, extra={"fields": {"operation": endpoint.name}})
        except ClientDisconnect:
            services.metrics.count_error("request_malformed")
            response = problem_response(
                "request_malformed", "the connection ended before the whole body arrived", request.url.path
            )
        except Exception:
            services.metrics.count_error("internal_error")
            _logger.exception("request failed", extra={"fields": {"operation": endpoint.name}})
            response = problem_response("internal_error", "internal error; see the server's log", request.url.path)
        if endpoint.body_type and not getattr(request.state, "is_read", False) and not await _drain_body(request):
            # The client still sends a body that is not read, so the connection cannot be reused.
            response.headers["connection"] = "close"
        if response.status_code >= 400 and getattr(request.state, "accepted", None):
            # The message is on the timeline: a client that retries automatically would send it twice.
            response.headers["x-should-retry"] = "false"
            del response.headers["retry-after"]
        if endpoint.form_refusal and response.status_code in FORM_REFUSALS and is_native_form(request):
            response = RedirectResponse(mounted_path(request, endpoint.form_refusal), 303)
        if response.media_type == PROBLEM_TYPE:
            response = endpoint.error_format.convert(response)
        await RequestContext(services=services, request=request).record_response(response.status_code)
        services.metrics.count_response(endpoint.name, response.status_code, time.perf_counter() - began)
        _log_request(endpoint, request, response, began)
        return await _strip_body(response) if request.method == "HEAD" else response

    return handle


async def _handle(services: Services, endpoint: Endpoint, request: Request) -> Response:
    context = await authorize(services, endpoint.requires, request, request.path_params, endpoint.name)
    arguments: dict[str, object] = {}
    if endpoint.query_type:
        arguments["query"] = _parse_query(endpoint.query_type, request)
    if endpoint.body_type and endpoint.accepts_files and is_form(request):
        arguments["body"], arguments["files"] = await read_form(endpoint.body_type, request, services.uploads)
    elif endpoint.body_type and endpoint.form_refusal and is_native_form(request):
        arguments["body"] = _decode_form(endpoint.body_type, await _read_body(services, request))
    elif endpoint.body_type:
        arguments["body"] = _decode_body(endpoint.body_type, await _read_body(services, request), request)
    request.state.is_read = True
    if _wants_stream(endpoint, request):
        services.rate_limiter.check_streams(context.principal.id)
    if endpoint.audited:
        await context.record_request(context.conversation.id)
    result = await endpoint.handler(context, **arguments)
    if isinstance(result, EventStream):
        return _MonitoredStream(result, context)
    if isinstance(result, Response):
        return result
    if isinstance(result, SendReceipt):
        request.state.accepted = result
    return Response(msgspec.json.encode(result), endpoint.status, media_type="application/json")


def _build_websocket_route(services: Services, endpoint: WebSocketEndpoint) -> WebSocketRoute:
    async def handle(websocket: WebSocket) -> None:
        request = handshake_request(websocket.scope)
        try:
            context = await authorize(
                services, endpoint.requires, request, request.path_params, endpoint.handler.__name__
            )
            services.rate_limiter.check_streams(context.principal.id)
            with services.rate_limiter.count_stream(context.principal.id):
                await endpoint.handler(context, websocket, _parse_query(endpoint.query_type, request))
        except CodedError as error:
            services.metrics.count_error(error.code)
            await websocket.send_denial_response(error_response(error, request.url.path))

    return WebSocketRoute(endpoint.path, handle)


def _wants_stream(endpoint: Endpoint, request: Request) -> bool:
    """Whether the request asks for a stream, decided before the handler runs."""
    if not any(issubclass(kind, EventStream) for kind in endpoint.response_types):
        return False
    return len(endpoint.response_types) == 1 or EVENTS_TYPE in request.headers.get("accept", "")


class _MonitoredStream(Response):
    """An event stream that counts against its caller's limit and ends when the caller's token is revoked."""

    def __init__(self, stream: EventStream, context: RequestContext) -> None:
        super().__init__(status_code=stream.status_code)
        self.head: Response = stream
        self._stream, self._call = stream, context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = self._call
        with (
            context.services.rate_limiter.count_stream(context.principal.id),
            context.monitor_revocation(self._stream.end),
        ):
            await self._stream(scope, receive, send)


async def _read_body(services: Services, request: Request) -> bytes:
    """Return the body; raise if it is too large or too slow, while it arrives."""
    body = bytearray()
    most_bytes, most_s = services.max_body_bytes, services.rate_limiter.limits.body_s
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


async def _drain_body(request: Request) -> bool:
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


def _decode_body(kind: type[object], body: bytes, request: Request) -> object:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise CodedError("request_malformed", "send the body as JSON, with `Content-Type: application/json`")
    try:
        return decode_json(body, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CodedError(
            "request_malformed", f"the body is invalid: {explain_validation_error(error, kind)}"
        ) from error


def _decode_form(kind: type[object], body: bytes) -> object:
    try:
        fields = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS, errors="strict"
        )
        return msgspec.convert(dict(fields), kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise CodedError(
            "request_malformed", f"the form is invalid: {explain_validation_error(error, kind)}"
        ) from error


def _parse_query(kind: type[object], request: Request) -> object:
    params = dict(request.query_params)
    for name in _integer_fields(kind) & params.keys():
        if not (params[name].isascii() and params[name].isdigit()):
            raise CodedError("request_malformed", f"the query is invalid: {name} must be a whole number")
    try:
        return msgspec.convert(params, kind, strict=False)
    except msgspec.ValidationError as error:
        raise CodedError(
            "request_malformed", f"the query is invalid: {explain_validation_error(error, kind)}"
        ) from error


@cache
def _integer_fields(kind: type[object]) -> frozenset[str]:
    """Return the names of the integer fields; msgspec reads those more loosely from text than a URL should allow."""
    info = cast(msgspec.inspect.StructType, msgspec.inspect.type_info(kind))
    return frozenset(field.encode_name for field in info.fields if _is_integer(field.type))


def _is_integer(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(map(_is_integer, kind.types))
    return isinstance(kind, msgspec.inspect.IntType)


async def _strip_body(response: Response) -> Response:
    """Return the status and headers alone, without starting a stream or reading a file."""
    if isinstance(response, FileDownload):
        await response.close()
    head = Response(status_code=response.status_code)
    head.raw_headers = response.head.raw_headers if isinstance(response, _MonitoredStream) else response.raw_headers
    return head


async def _handle_unknown_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = ", ".join(sorted(_methods_at(request))) if error.status_code == 405 else ""
    detail = f"this route accepts {allowed}" if allowed else "no such route; GET /openapi.json lists all routes"
    response = problem_response("route_unknown", detail, request.url.path, error.status_code)
    response = _format_error(response, request.url.path.removeprefix(mounted_path(request, "")))
    if allowed:
        response.headers["allow"] = allowed
    return response


def _format_error(response: Response, path: str) -> Response:
    """Return the error of a request that reached no route, in the form of the API below that path."""
    return to_openai_error(response) if path.startswith(OPENAI_ADDRESS) else response


def _methods_at(request: Request) -> set[str]:
    """Return the methods that any route accepts at that path."""
    methods: set[str] = set()
    for route in cast(Starlette, request.app).routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    return methods


def _log_request(endpoint: Endpoint, request: Request, response: Response, began: float) -> None:
    accepted: SendReceipt | None = getattr(request.state, "accepted", None)
    # An unauthorized client can put any text into the path, so it is not logged.
    conversation_id = "" if response.status_code in (401, 403, 404) else request.path_params.get("conversation_id", "")
    fields: dict[str, object] = {
        "operation": endpoint.name,
        "status": response.status_code,
        "ms": round((time.perf_counter() - began) * 1000, 1),
        "conversation_id": accepted.conversation_id if accepted else conversation_id,
    }
    if accepted:
        fields |= {"turn_id": accepted.turn_id, "seq": accepted.seq}
    _logger.info("request", extra={"fields": fields})
