"""Starlette application that answers requests of every dialect with a model."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from timeloom.core.blocks import Usage
from timeloom.core.blocks.round import CallPurpose
from timeloom.ports.model import (
    FinishEvent,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    TextPiece,
    TextSegment,
    ThinkingPiece,
    ToolCallPiece,
)
from timeloom.providers.streaming_request import CALL_NUMBER_HEADER, PURPOSE_HEADER
from timeloom.testing.model_endpoint.anthropic import AnthropicDialect
from timeloom.testing.model_endpoint.dialect import Dialect, EndpointReply, EndpointRequest
from timeloom.testing.model_endpoint.openai import OpenAIDialect
from timeloom.testing.model_endpoint.tool_uses import with_tool_uses

MAX_BODY_BYTES: Final = 64 * 1024 * 1024


def model_app(model: Model) -> Starlette:
    """Return the application: one endpoint per dialect, and a list of models with one name."""

    async def models(_: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": model.name, "object": "model", "type": "model"}]})

    routes = [Route(dialect.path, _endpoint(model, dialect), methods=["POST"]) for dialect in DIALECTS]
    return Starlette(routes=[*routes, Route("/v1/models", models)])


DIALECTS: Final[tuple[Dialect, ...]] = (AnthropicDialect(), OpenAIDialect())


def _endpoint(model: Model, dialect: Dialect) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            parsed = dialect.parse_request(await _read_body(request))
            call = _to_model_request(request, parsed)
        except (ValueError, RecursionError):
            return _error_response(dialect, ModelError("invalid", "the request was not understood"))
        return _ModelResponse(model, call, dialect, parsed)

    return answer


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise ValueError(f"the body is larger than {MAX_BODY_BYTES} bytes")
    return bytes(body)


def _to_model_request(request: Request, parsed: EndpointRequest) -> ModelRequest:
    """Return the model call for a request. Its number comes from the header or from the count of assistant messages."""
    return ModelRequest(
        system="",
        segments=(TextSegment(parsed.text),),
        number=max(0, int(request.headers.get(CALL_NUMBER_HEADER, parsed.reply_count))),
        purpose=msgspec.convert(request.headers.get(PURPOSE_HEADER, "decision"), CallPurpose),
        opening=parsed.opening,
    )


def _error_response(dialect: Dialect, error: ModelError) -> Response:
    status, body = dialect.error_response(error.kind)
    return Response(body, status, media_type="application/json")


class _ModelResponse(Response):
    """The HTTP response to one call. If the reply is cut, the connection drops in the middle of the body."""

    def __init__(self, model: Model, call: ModelRequest, dialect: Dialect, parsed: EndpointRequest) -> None:
        super().__init__()
        self._model = model
        self._call = call
        self._dialect = dialect
        self._parsed = parsed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._model.stream(self._call)) as events:
            try:
                first = await anext(events)
            except ModelError as error:
                if error.kind != "cut":
                    return await _error_response(self._dialect, error)(scope, receive, send)
                return await _send_start(send, self._parsed.stream)
            play = self._send_stream if self._parsed.stream and not self._parsed.tools else self._send_collected
            return await play(first, events, send)

    async def _send_stream(self, first: ModelEvent, events: AsyncGenerator[ModelEvent], send: Send) -> None:
        await _send_start(send, stream=True)
        # The opening frames are sent with the first piece.
        frames = self._dialect.opening_frames(self._parsed.model, _known_usage(first))
        event = first
        try:
            while not isinstance(event, FinishEvent):
                await _send_part(send, frames + self._frame(event))
                frames, event = b"", await anext(events)
        except ModelError:
            # Returning without the last part of the body makes the server drop the connection.
            return
        await _send_last(send, frames + self._dialect.closing_frames(self._make_reply(event, "")))

    async def _send_collected(self, first: ModelEvent, events: AsyncGenerator[ModelEvent], send: Send) -> None:
        """Send the reply after it is complete; clients that offer tools get decisions as tool calls."""
        text: list[str] = []
        event = first
        await _send_start(send, self._parsed.stream)
        try:
            while not isinstance(event, FinishEvent):
                text += [event.text] if isinstance(event, TextPiece) else []
                event = await anext(events)
        except ModelError:
            if self._parsed.stream:
                await _send_part(
                    send, self._dialect.opening_frames(self._parsed.model, Usage()) + self._text("".join(text))
                )
            return
        reply = with_tool_uses(self._make_reply(event, "".join(text)), self._parsed.tools, self._call.number)
        await _send_last(send, self._all_frames(reply) if self._parsed.stream else self._dialect.full_reply(reply))

    def _all_frames(self, reply: EndpointReply) -> bytes:
        """Return all frames of a streamed reply."""
        return b"".join(
            (
                self._dialect.opening_frames(reply.model, Usage()),
                self._text(reply.text),
                *(self._dialect.tool_use_frames(n, used) for n, used in enumerate(reply.tool_uses)),
                self._dialect.closing_frames(reply),
            )
        )

    def _text(self, text: str) -> bytes:
        return self._dialect.text_frame(text) if text else b""

    def _frame(self, event: TextPiece | ThinkingPiece | ToolCallPiece) -> bytes:
        # The endpoint passes no tools to its model, so that there are no native tool calls.
        return (
            self._dialect.text_frame(event.text)
            if isinstance(event, TextPiece)
            else self._dialect.thinking_frame(event.text)
        )

    def _make_reply(self, event: FinishEvent, text: str) -> EndpointReply:
        return EndpointReply(
            model=self._parsed.model,
            usage=event.usage,
            stop_reason=event.stop_reason,
            text=text,
            with_usage=self._parsed.wants_usage,
        )


async def _send_start(send: Send, stream: bool) -> None:
    kind = b"text/event-stream; charset=utf-8" if stream else b"application/json"
    headers = [(b"content-type", kind), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _send_part(send: Send, frames: bytes) -> None:
    await send({"type": "http.response.body", "body": frames, "more_body": True})


async def _send_last(send: Send, frames: bytes) -> None:
    await send({"type": "http.response.body", "body": frames, "more_body": False})


def _known_usage(event: ModelEvent) -> Usage:
    return event.usage if isinstance(event, FinishEvent) else Usage()
