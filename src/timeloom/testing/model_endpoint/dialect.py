"""Protocol for the request and reply format of an HTTP model API."""

import json
from typing import Protocol

import msgspec

from timeloom.core.blocks import Usage
from timeloom.ports.model import ErrorKind, StopReason


class EndpointRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request that a scripted model needs."""

    model: str
    stream: bool
    opening: str
    text: str
    reply_count: int
    wants_usage: bool = True
    tools: frozenset[str] = frozenset()
    """The names of the tools that the client offers."""


class ToolUse(msgspec.Struct, frozen=True):
    """A tool call in the format of a model API: the name of an offered tool and its parameters as JSON text."""

    id: str
    name: str
    params: str


class EndpointReply(msgspec.Struct, frozen=True, kw_only=True):
    """A complete reply, ready to be encoded."""

    model: str
    usage: Usage
    stop_reason: StopReason = "end"
    text: str = ""
    tool_uses: tuple[ToolUse, ...] = ()
    with_usage: bool = True


class Dialect(Protocol):
    """The request and reply format of one model API."""

    @property
    def path(self) -> str:
        """The URL path to which requests are posted."""
        ...

    def parse_request(self, body: bytes) -> EndpointRequest:
        """Parse the body of a request; raises `ValueError`."""
        ...

    def opening_frames(self, model: str, usage: Usage) -> bytes:
        """Return the frames before the first piece."""
        ...

    def text_frame(self, piece: str) -> bytes:
        """Return the frame of a piece of the reply."""
        ...

    def thinking_frame(self, piece: str) -> bytes:
        """Return the frame of a piece of thinking."""
        ...

    def tool_use_frames(self, index: int, use: ToolUse) -> bytes:
        """Return the frames of the tool call with that index, which follow all text."""
        ...

    def closing_frames(self, reply: EndpointReply) -> bytes:
        """Return the frames after the last piece."""
        ...

    def full_reply(self, reply: EndpointReply) -> bytes:
        """Return the reply to a request that does not stream."""
        ...

    def error_response(self, kind: ErrorKind) -> tuple[int, bytes]:
        """Return the HTTP status and the body for that error kind."""
        ...

    def error_frame(self, kind: ErrorKind) -> bytes:
        """Return the frame for an error in the middle of a reply."""
        ...


def encode_event(event: object) -> bytes:
    """Return the JSON of an event; half of a surrogate pair becomes its escape, as some services send it."""
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError:
        return json.dumps(event).encode()


def text_of(content: object) -> str:
    """Return the text of a message's content: a string, or the joined text parts of a list."""
    if isinstance(content, str):
        return content
    try:
        parts = msgspec.convert(content, list[_ContentPart])
    except msgspec.ValidationError as error:
        raise ValueError("`content` must be a string or a list of parts") from error
    return "".join(part.text or "" for part in parts)


class _ContentPart(msgspec.Struct, frozen=True):
    text: str | None = None
