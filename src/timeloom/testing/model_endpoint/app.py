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
    Finished,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    TextPiece,
    TextSegment,
    ThinkingPiece,
)
from timeloom.providers.streaming_request import CALL_NUMBER_HEADER, PURPOSE_HEADER
from timeloom.testing.model_endpoint.anthropic import AnthropicDialect
from timeloom.testing.model_endpoint.dialect import Asked, Dialect, Written
from timeloom.testing.model_endpoint.openai import OpenAIDialect
from timeloom.testing.model_endpoint.tool_uses import as_services_write

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
            asked = dialect.asked(await _body(request))
            call = _call(request, asked)
        except (ValueError, RecursionError):
            return _refused(dialect, ModelError("invalid", "the request was not understood"))
        return _Answer(model, call, dialect, asked)

    return answer


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise ValueError(f"the body is larger than {MAX_BODY_BYTES} bytes")
    return bytes(body)


def _call(request: Request, asked: Asked) -> ModelRequest:
    """Return the model call for a request. Its number comes from the header or from the count of assistant messages."""
    return ModelRequest(
        system="",
        segments=(TextSegment(asked.text),),
        number=max(0, int(request.headers.get(CALL_NUMBER_HEADER, asked.replies))),
        purpose=msgspec.convert(request.headers.get(PURPOSE_HEADER, "decision"), CallPurpose),
        opening=asked.opening,
    )


def _refused(dialect: Dialect, error: ModelError) -> Response:
    status, body = dialect.refusal(error.kind)
    return Response(body, status, media_type="application/json")


class _Answer(Response):
    """The HTTP response to one call. If the reply is cut, the connection drops in the middle of the body."""

    def __init__(self, model: Model, call: ModelRequest, dialect: Dialect, asked: Asked) -> None:
        super().__init__()
        self._model = model
        self._call = call
        self._dialect = dialect
        self._asked = asked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._model.stream(self._call)) as events:
            try:
                first = await anext(events)
            except ModelError as error:
                if error.kind != "cut":
                    return await _refused(self._dialect, error)(scope, receive, send)
                return await _start(send, self._asked.stream)
            play = self._streamed if self._asked.stream and not self._asked.tools else self._collected
            return await play(first, events, send)

    async def _streamed(self, first: ModelEvent, events: AsyncGenerator[ModelEvent], send: Send) -> None:
        await _start(send, stream=True)
        # The opening frames are sent with the first piece.
        frames = self._dialect.opening(self._asked.model, _known_usage(first))
        event = first
        try:
            while not isinstance(event, Finished):
                await _more(send, frames + self._frame(event))
                frames, event = b"", await anext(events)
        except ModelError:
            # Returning without the last part of the body makes the server drop the connection.
            return
        await _last(send, frames + self._dialect.closing(self._written(event, "")))

    async def _collected(self, first: ModelEvent, events: AsyncGenerator[ModelEvent], send: Send) -> None:
        """Send the reply after it is complete; clients that offer tools get decisions as tool calls."""
        text: list[str] = []
        event = first
        await _start(send, self._asked.stream)
        try:
            while not isinstance(event, Finished):
                text += [event.text] if isinstance(event, TextPiece) else []
                event = await anext(events)
        except ModelError:
            if self._asked.stream:
                await _more(send, self._dialect.opening(self._asked.model, Usage()) + self._text("".join(text)))
            return
        written = as_services_write(self._written(event, "".join(text)), self._asked.tools, self._call.number)
        await _last(send, self._at_once(written) if self._asked.stream else self._dialect.whole(written))

    def _at_once(self, written: Written) -> bytes:
        """Return all frames of a streamed reply."""
        return b"".join(
            (
                self._dialect.opening(written.model, Usage()),
                self._text(written.text),
                *(self._dialect.tool_use(n, used) for n, used in enumerate(written.tool_uses)),
                self._dialect.closing(written),
            )
        )

    def _text(self, text: str) -> bytes:
        return self._dialect.text(text) if text else b""

    def _frame(self, event: TextPiece | ThinkingPiece) -> bytes:
        return self._dialect.text(event.text) if isinstance(event, TextPiece) else self._dialect.thinking(event.text)

    def _written(self, event: Finished, text: str) -> Written:
        return Written(
            model=self._asked.model,
            usage=event.usage,
            stop_reason=event.stop_reason,
            text=text,
            with_usage=self._asked.wants_usage,
        )


async def _start(send: Send, stream: bool) -> None:
    kind = b"text/event-stream; charset=utf-8" if stream else b"application/json"
    headers = [(b"content-type", kind), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _more(send: Send, frames: bytes) -> None:
    await send({"type": "http.response.body", "body": frames, "more_body": True})


async def _last(send: Send, frames: bytes) -> None:
    await send({"type": "http.response.body", "body": frames, "more_body": False})


def _known_usage(event: ModelEvent) -> Usage:
    return event.usage if isinstance(event, Finished) else Usage()
