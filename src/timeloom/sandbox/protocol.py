"""The protocol between a supervisor and the interpreter in a sandbox: length-prefixed JSON, and its messages.

`guest/bootstrap.py` speaks the other side of it without importing anything from here.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Final, TypeVar

import msgspec

from timeloom.ports.sandbox import ToolStub

VERSION: Final = 1
"""Of the messages; an interpreter with another one, in an image that was built long ago, is refused."""

MAX_FRAME_BYTES: Final = 8 * 1024 * 1024
"""Largest frame. Smaller refuses texts that tools return; larger lets a program fill the supervisor's memory."""

MAX_HELLO_BYTES: Final = 1024
"""Largest frame of somebody who has not shown the token yet."""

_PREFIX_BYTES: Final = 4


AskId = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""The number of a question on its connection; larger ones could not be sent back."""

M = TypeVar("M")


class ProtocolError(ValueError):
    """Bytes that are no frame, or a frame that is none of the messages."""


class Hello(msgspec.Struct, frozen=True):
    """The first message of every connection, from inside."""

    token: str
    version: int


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The program that the waiting interpreter is to run, to inside; sent once."""

    code: str
    name: str
    env: Mapping[str, str]
    folders: tuple[str, ...]
    stubs: tuple[ToolStub, ...]


class Call(msgspec.Struct, frozen=True, tag_field="kind", tag="call"):
    """A call of a tool, from inside; `params` is the text of a JSON object."""

    id: AskId
    tool_id: str
    params: str


class Fetch(msgspec.Struct, frozen=True, tag_field="kind", tag="fetch"):
    """The wish for what stands at a logical path, from inside."""

    id: AskId
    path: str


class Exit(msgspec.Struct, frozen=True, tag_field="kind", tag="exit"):
    """The exit code with which the interpreter is about to end by itself, from inside.

    It is sent where the code could also be that of a signal, and believed only if the process ends with it.
    """

    code: int


class Answer(msgspec.Struct, frozen=True):
    """The answer to the call or fetch of that id; `answer` is the text of an object with `ok`, `error` and `ret`."""

    id: int
    answer: str


Ask = Call | Fetch
_SAID: Final = msgspec.json.Decoder(Ask | Exit)
_HELLO: Final = msgspec.json.Decoder(Hello)


def read_hello(body: bytes) -> Hello:
    """The message that a frame's body holds; raises `ProtocolError`."""
    return _read(_HELLO, body)


def read_said(body: bytes) -> Ask | Exit:
    """The message that a frame's body holds; raises `ProtocolError`."""
    return _read(_SAID, body)


def frame(message: Start | Answer) -> bytes:
    """The message as it is sent; raises `ProtocolError` where it is larger than a frame."""
    body = msgspec.json.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame has at most {MAX_FRAME_BYTES} bytes, got {len(body)}")
    return len(body).to_bytes(_PREFIX_BYTES, "big") + body


async def read_frame(reader: asyncio.StreamReader, most: int = MAX_FRAME_BYTES) -> bytes:
    """The body of the next frame; one that says that it is larger is refused before it is read."""
    size = int.from_bytes(await reader.readexactly(_PREFIX_BYTES), "big")
    if size > most:
        raise ProtocolError(f"a frame has at most {most} bytes here, got {size}")
    return await reader.readexactly(size)


def _read(decoder: msgspec.json.Decoder[M], body: bytes) -> M:
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the frame is none of the messages: {error}") from None
