"""Exchanges messages between a caller and its running task as numbered objects of a bucket.

Requests that the task cannot answer itself, and the program's output, travel this way. The reader takes the next number
until there is no such object. The objects are removed with all others of the execution.
"""

import asyncio
from typing import Final, Literal

import msgspec

from timeloom.ports.sandbox import MadeCall
from timeloom.sandbox.remote.bucket import Bucket

MAX_LETTER_BYTES: Final = 64 * 1024 * 1024
"""Largest object with messages. One message has at most the 8 MB of a frame, and several may wait for the next poll."""

_SOME_BYTES: Final = 16 * 1024 * 1024


class Said(msgspec.Struct, frozen=True, tag="said"):
    """Output of the program."""

    stream: Literal["stdout", "stderr"]
    text: str


class Asked(msgspec.Struct, frozen=True, tag="asked"):
    """A broker request of the program: a tool call, or a fetch of a path's content."""

    id: int
    kind: Literal["call", "fetch"]
    subject: str
    params: str = ""


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """The answer of the broker."""

    id: int
    text: str


class Made(msgspec.Struct, frozen=True, tag="made"):
    """A delegated call that was executed in the task, sent before the program gets its answer."""

    call: MadeCall


Message = Said | Asked | Answer | Made
_LETTER: Final = msgspec.json.Decoder(tuple[Message, ...])


class Mailbox:
    """One end of the channel: posts messages to the other end and collects its messages in order, each once."""

    def __init__(self, bucket: Bucket, sending: str, receiving: str) -> None:
        """Use these key prefixes for sent and received messages."""
        self._bucket, self._sending, self._receiving = bucket, sending, receiving
        self._waiting: list[bytes] = []
        self._sent = self._received = 0
        self._flushing = asyncio.Lock()

    def post(self, message: Message) -> None:
        """Queue the message for the next flush."""
        self._waiting.append(msgspec.json.encode(message))

    async def flush(self) -> None:
        """Send the queued messages."""
        async with self._flushing:
            while self._waiting:
                some = _some(self._waiting)
                key = f"{self._sending}{self._sent:08d}"
                await asyncio.to_thread(self._bucket.put, key, b"[" + b",".join(self._waiting[:some]) + b"]")
                # Only now, because a failed object is sent again under the same number.
                del self._waiting[:some]
                self._sent += 1

    async def collect(self) -> list[Message]:
        """Return the messages since the last call; raise `ValueError` for an invalid one."""
        found: list[Message] = []
        while True:
            key = f"{self._receiving}{self._received:08d}"
            data = await asyncio.to_thread(self._bucket.get, key, MAX_LETTER_BYTES)
            if data is None:
                return found
            self._received += 1
            found.extend(_LETTER.decode(data))


def _some(waiting: list[bytes]) -> int:
    """Return how many of the messages go into one object: at least one, and no more than fit."""
    size = 0
    for at, each in enumerate(waiting):
        size += len(each) + 1
        if size > _SOME_BYTES and at:
            return at
    return len(waiting)
