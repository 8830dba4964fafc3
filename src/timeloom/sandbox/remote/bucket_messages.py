"""Exchanges messages between a caller and its running task as numbered objects of a bucket.

Requests that the task cannot answer itself, and the program's output, travel this way. The reader takes the next number
until there is no such object. The objects are removed with all others of the execution.
"""

import asyncio
from typing import Final, Literal

import msgspec

from timeloom.ports.sandbox import DelegatedCall
from timeloom.sandbox.remote.bucket import Bucket

MAX_OBJECT_BYTES: Final = 64 * 1024 * 1024
"""Largest object with messages. One message has at most the 8 MB of a frame, and several may wait for the next poll."""

_BATCH_BYTES: Final = 16 * 1024 * 1024


class OutputMessage(msgspec.Struct, frozen=True, tag="said"):
    """Output of the program."""

    stream: Literal["stdout", "stderr"]
    text: str


class BrokerRequest(msgspec.Struct, frozen=True, tag="asked"):
    """A broker request of the program: a tool call, or a fetch of a path's content."""

    id: int
    kind: Literal["call", "fetch"]
    subject: str
    params: str = ""


class BrokerResponse(msgspec.Struct, frozen=True, tag="answer"):
    """The answer of the broker."""

    id: int
    text: str


class DelegatedCallMessage(msgspec.Struct, frozen=True, tag="made"):
    """A delegated call that was executed in the task, sent before the program gets its answer."""

    call: DelegatedCall


BucketMessage = OutputMessage | BrokerRequest | BrokerResponse | DelegatedCallMessage
_MESSAGES: Final = msgspec.json.Decoder(tuple[BucketMessage, ...])


class BucketChannel:
    """One end of the channel: posts messages to the other end and collects its messages in order, each once."""

    def __init__(self, bucket: Bucket, send_prefix: str, receive_prefix: str) -> None:
        """Use these key prefixes for sent and received messages."""
        self._bucket, self._sending, self._receiving = bucket, send_prefix, receive_prefix
        self._queue: list[bytes] = []
        self._sent = self._received = 0
        self._flush_lock = asyncio.Lock()

    def post(self, message: BucketMessage) -> None:
        """Queue the message for the next flush."""
        self._queue.append(msgspec.json.encode(message))

    async def flush(self) -> None:
        """Send the queued messages."""
        async with self._flush_lock:
            while self._queue:
                count = _batch_count(self._queue)
                key = f"{self._sending}{self._sent:08d}"
                await asyncio.to_thread(self._bucket.put, key, b"[" + b",".join(self._queue[:count]) + b"]")
                # Only now, because a failed object is sent again under the same number.
                del self._queue[:count]
                self._sent += 1

    async def collect(self) -> list[BucketMessage]:
        """Return the messages since the last call; raise `ValueError` for an invalid one."""
        found: list[BucketMessage] = []
        while True:
            key = f"{self._receiving}{self._received:08d}"
            data = await asyncio.to_thread(self._bucket.get, key, MAX_OBJECT_BYTES)
            if data is None:
                return found
            self._received += 1
            found.extend(_MESSAGES.decode(data))


def _batch_count(waiting: list[bytes]) -> int:
    """Return how many of the messages go into one object: at least one, and no more than fit."""
    size = 0
    for at, each in enumerate(waiting):
        size += len(each) + 1
        if size > _BATCH_BYTES and at:
            return at
    return len(waiting)
