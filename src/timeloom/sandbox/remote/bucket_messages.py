"""The mailbox: messages between a caller and its task while a program runs, as numbered objects of a bucket.

What a task cannot answer itself is asked this way, and what the program prints is told this way. Whoever reads takes
the next number until there is none; the objects are removed with all others of the execution.
"""

import asyncio
from typing import Final, Literal

import msgspec

from timeloom.ports.sandbox import MadeCall
from timeloom.sandbox.remote.bucket import Bucket

MAX_LETTER_BYTES: Final = 64 * 1024 * 1024
"""Largest object of messages; a message alone has at most the 8 MB of a frame, and some wait for the next look."""

_SOME_BYTES: Final = 16 * 1024 * 1024


class Said(msgspec.Struct, frozen=True, tag="said"):
    """What the program has printed."""

    stream: Literal["stdout", "stderr"]
    text: str


class Asked(msgspec.Struct, frozen=True, tag="asked"):
    """What the program asks its broker for: a call of a tool, or what stands at a path."""

    id: int
    kind: Literal["call", "fetch"]
    subject: str
    params: str = ""


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """What the broker has answered."""

    id: int
    text: str


class Made(msgspec.Struct, frozen=True, tag="made"):
    """A call that was carried out by leave, told before the program has its answer."""

    call: MadeCall


Message = Said | Asked | Answer | Made
_LETTER: Final = msgspec.json.Decoder(tuple[Message, ...])


class Mailbox:
    """One side's end: what it posts goes to the other, and what the other posts it collects, in order, once."""

    def __init__(self, bucket: Bucket, sending: str, receiving: str) -> None:
        """The two texts are how the keys begin."""
        self._bucket, self._sending, self._receiving = bucket, sending, receiving
        self._waiting: list[bytes] = []
        self._sent = self._received = 0
        self._flushing = asyncio.Lock()

    def post(self, message: Message) -> None:
        """Has it sent with the next flush."""
        self._waiting.append(msgspec.json.encode(message))

    async def flush(self) -> None:
        """Sends what waits."""
        async with self._flushing:
            while self._waiting:
                some = _some(self._waiting)
                key = f"{self._sending}{self._sent:08d}"
                await asyncio.to_thread(self._bucket.put, key, b"[" + b",".join(self._waiting[:some]) + b"]")
                # Only now, because a message whose sending failed is sent again, under the same number.
                del self._waiting[:some]
                self._sent += 1

    async def collect(self) -> list[Message]:
        """What has come since the last time; raises `ValueError` for what is no message."""
        found: list[Message] = []
        while True:
            key = f"{self._receiving}{self._received:08d}"
            data = await asyncio.to_thread(self._bucket.get, key, MAX_LETTER_BYTES)
            if data is None:
                return found
            self._received += 1
            found.extend(_LETTER.decode(data))


def _some(waiting: list[bytes]) -> int:
    """How many of them go into one object: at least one, and no more than it holds."""
    size = 0
    for at, each in enumerate(waiting):
        size += len(each) + 1
        if size > _SOME_BYTES and at:
            return at
    return len(waiting)
