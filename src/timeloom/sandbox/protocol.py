"""Defines the messages between the supervisor and the guest interpreter, as length-prefixed JSON frames.

`guest/bootstrap.py` implements the guest side of this protocol and imports nothing from this module.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Final, TypeVar

import msgspec

from timeloom.ports.sandbox import ToolStub

VERSION: Final = 2
"""Version of the messages. A guest with another version, from an outdated image, is refused."""

MAX_FRAME_BYTES: Final = 8 * 1024 * 1024
"""Largest frame. A smaller limit refuses texts that tools return; a larger one lets a program fill the supervisor's
memory."""

MAX_HELLO_BYTES: Final = 1024
"""Largest frame of a connection that has not yet sent the token."""

_PREFIX_BYTES: Final = 4


RequestId = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""Id of a request on its connection. JSON cannot carry larger numbers back exactly."""

M = TypeVar("M")


class ProtocolError(ValueError):
    """Raised for bytes that are not a frame, or for a frame that matches no message."""


class Hello(msgspec.Struct, frozen=True):
    """First message of every connection, sent by the guest."""

    token: str
    version: int


class StartMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The program for the waiting interpreter to run, sent once to the guest."""

    code: str
    name: str
    env: Mapping[str, str]
    folders: tuple[str, ...]
    links: Mapping[str, str]
    read_only: tuple[str, ...]
    stubs: tuple[ToolStub, ...]


class CallRequest(msgspec.Struct, frozen=True, tag_field="kind", tag="call"):
    """A tool call, sent by the guest; `params` is the text of a JSON object."""

    id: RequestId
    tool_id: str
    params: str


class FetchRequest(msgspec.Struct, frozen=True, tag_field="kind", tag="fetch"):
    """A request for the content at a logical path, sent by the guest."""

    id: RequestId
    path: str


class ExitMessage(msgspec.Struct, frozen=True, tag_field="kind", tag="exit"):
    """The exit code with which the interpreter is about to exit by itself, sent by the guest.

    It is sent when the code could also mean a signal. The supervisor believes it only if the process exits with that
    code.
    """

    code: int


class GuestResponse(msgspec.Struct, frozen=True):
    """The answer to the request with that id; `answer` is the text of an object with `ok`, `error` and `ret`."""

    id: int
    answer: str


GuestRequest = CallRequest | FetchRequest
_MESSAGE: Final = msgspec.json.Decoder(GuestRequest | ExitMessage)
_HELLO: Final = msgspec.json.Decoder(Hello)


def read_hello(body: bytes) -> Hello:
    """Decode the hello in a frame's body; raise `ProtocolError` if it is anything else."""
    return _decode(_HELLO, body)


def read_message(body: bytes) -> GuestRequest | ExitMessage:
    """Decode a request or an exit message from a frame's body; raise `ProtocolError` if it is anything else."""
    return _decode(_MESSAGE, body)


def encode_frame(message: StartMessage | GuestResponse) -> bytes:
    """Encode the message as a frame; raise `ProtocolError` if it exceeds `MAX_FRAME_BYTES`."""
    body = msgspec.json.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame has at most {MAX_FRAME_BYTES} bytes, got {len(body)}")
    return len(body).to_bytes(_PREFIX_BYTES, "big") + body


async def read_frame(reader: asyncio.StreamReader, most: int = MAX_FRAME_BYTES) -> bytes:
    """Return the body of the next frame; raise `ProtocolError` before reading a body larger than `most` bytes."""
    size = int.from_bytes(await reader.readexactly(_PREFIX_BYTES), "big")
    if size > most:
        raise ProtocolError(f"a frame has at most {most} bytes here, got {size}")
    return await reader.readexactly(size)


def _decode(decoder: msgspec.json.Decoder[M], body: bytes) -> M:
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the frame is none of the messages: {error}") from None
