"""Dialects: how a service reads a request and writes a reply."""

from typing import Protocol

import msgspec

from timeloom.core.blocks import Usage
from timeloom.ports.model import ErrorKind, StopReason


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says that matters to a scripted model."""

    model: str
    stream: bool
    opening: str
    text: str
    replies: int
    wants_usage: bool = True
    tools: frozenset[str] = frozenset()
    """The names of the tools that the client offers."""


class ToolUse(msgspec.Struct, frozen=True):
    """A call in the form of the services: the name of an offered tool, and its parameters as the text of JSON."""

    id: str
    name: str
    params: str


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a reply once it is written."""

    model: str
    usage: Usage
    stop_reason: StopReason = "end"
    text: str = ""
    tool_uses: tuple[ToolUse, ...] = ()
    with_usage: bool = True


class Dialect(Protocol):
    """The form in which one kind of service speaks."""

    @property
    def path(self) -> str:
        """Where requests are posted."""
        ...

    def asked(self, body: bytes) -> Asked:
        """What the request says; raises `ValueError`."""
        ...

    def opening(self, model: str, usage: Usage) -> bytes:
        """The frames before the first piece."""
        ...

    def text(self, piece: str) -> bytes:
        """The frame of a piece of the reply."""
        ...

    def thinking(self, piece: str) -> bytes:
        """The frame of a piece of thinking."""
        ...

    def tool_use(self, index: int, used: ToolUse) -> bytes:
        """The frames of the n-th call of a tool, after all text."""
        ...

    def closing(self, written: Written) -> bytes:
        """The frames after the last piece."""
        ...

    def whole(self, written: Written) -> bytes:
        """The reply to a request that does not stream."""
        ...

    def refusal(self, kind: ErrorKind) -> tuple[int, bytes]:
        """The status and the body of a failure."""
        ...

    def failure_frame(self, kind: ErrorKind) -> bytes:
        """The frame of a failure in the middle of a reply."""
        ...


def text_of(content: object) -> str:
    """The text of a message's content: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    try:
        parts = msgspec.convert(content, list[_Part])
    except msgspec.ValidationError as error:
        raise ValueError("`content` is a text or a list of parts") from error
    return "".join(part.text or "" for part in parts)


class _Part(msgspec.Struct, frozen=True):
    text: str | None = None
