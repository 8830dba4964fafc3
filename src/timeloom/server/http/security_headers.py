"""Adds security headers and CORS to all responses and checks the head of every request."""

from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from timeloom.core.codes import CodedError
from timeloom.server.auth.access_policy import AccessPolicy
from timeloom.server.http.problem_json import error_response

DEFAULT_HEADERS: Final = (
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
)
"""Default headers of every response; a response may set different values."""

CORS_METHODS: Final = ("GET", "HEAD", "POST", "DELETE")

EXPOSED_HEADERS: Final = (
    "accept-ranges",
    "allow",
    "content-disposition",
    "content-length",
    "content-range",
    "etag",
    "retry-after",
    "www-authenticate",
    "x-should-retry",
)
"""Response headers that pages of allowed origins may read, besides those that browsers always expose."""

PREFLIGHT_S: Final = 600

FormatError = Callable[[Response, str], Response]
"""Returns an error in the form that clients of the path expect."""


def with_security_headers(app: ASGIApp, policy: AccessPolicy, format_error: FormatError) -> ASGIApp:
    """Wrap the application with the access policy, the security headers and CORS."""
    inner = _with_cors(app, policy)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in DEFAULT_HEADERS:
                    headers.setdefault(name, value)
            await send(message)

        try:
            policy.check_head(scope.get("method", "CONNECT"), scope.get("raw_path", b""), Headers(scope=scope))
        except CodedError as error:
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            response = format_error(error_response(error, scope["path"]), path)
            if scope["type"] == "websocket":
                await WebSocket(scope, receive, send).send_denial_response(response)
            else:
                await response(scope, receive, send_with)
            return
        await inner(scope, receive, send_with)

    return serve


def _with_cors(app: ASGIApp, policy: AccessPolicy) -> ASGIApp:
    if not policy.allow_origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=policy.allow_origins,
        allow_methods=CORS_METHODS,
        # All headers are allowed, because clients of other APIs send custom ones; cookies are not allowed.
        allow_headers=("*",),
        expose_headers=EXPOSED_HEADERS,
        max_age=PREFLIGHT_S,
    )
