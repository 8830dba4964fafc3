"""What a program prints: heard as it comes, its end kept, its amount counted."""

import asyncio
import codecs
import os
from collections.abc import Callable
from typing import Final, Literal

from timeloom.ports.sandbox import Output

TAIL_BYTES: Final = 16 * 1024
"""Kept of the end of each stream. Less cuts tracebacks; more only fills the result of a call."""

_READ_BYTES: Final = 64 * 1024
_DRAIN_S: Final = 2.0

StreamName = Literal["stdout", "stderr"]


class Printed:
    """The two streams of a program, read from pipes until both have ended."""

    def __init__(self, most_bytes: int, output: Output) -> None:
        self._most_bytes = most_bytes
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._bytes = 0
        self._tails: dict[StreamName, bytes] = {"stdout": b"", "stderr": b""}
        self._open: dict[int, Callable[[bytes, bool], str]] = {}
        self._ended = asyncio.Event()
        self._too_much = asyncio.Event()

    def read(self, stream: StreamName, descriptor: int) -> None:
        """Begins to read; the descriptor is closed when the stream has ended."""
        os.set_blocking(descriptor, False)
        self._open[descriptor] = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._loop.add_reader(descriptor, self._readable, stream, descriptor)

    async def too_much(self) -> str:
        """Waits until more is printed than may be, and says so; never returns where that does not happen."""
        await self._too_much.wait()
        return f"printed {self._bytes} bytes or more, of {self._most_bytes}"

    async def drained(self) -> None:
        """Waits for the end of both streams, which comes with the end of the last process that has them."""
        if self._too_much.is_set():
            self.close()
        try:
            async with asyncio.timeout(_DRAIN_S):
                await self._ended.wait()
        except TimeoutError:
            self.close()

    def tail(self, stream: StreamName) -> str:
        """The last of what was printed, from the beginning of a line where that is near."""
        kept = self._tails[stream]
        if len(kept) == TAIL_BYTES:
            kept = kept[kept.find(b"\n", 0, TAIL_BYTES // 4) + 1 :]
        return kept.decode("utf-8", "replace")

    def close(self) -> None:
        """Reads no more."""
        for descriptor in list(self._open):
            self._end(descriptor)

    def _readable(self, stream: StreamName, descriptor: int) -> None:
        try:
            piece = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        decode = self._open[descriptor]
        text = decode(piece, not piece)
        self._bytes += len(piece)
        self._tails[stream] = (self._tails[stream] + piece)[-TAIL_BYTES:]
        if not piece:
            self._end(descriptor)
        elif self._bytes > self._most_bytes:
            self._too_much.set()
            self._loop.remove_reader(descriptor)
        if text and self._bytes <= self._most_bytes:
            self._output(stream, text)

    def _end(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        del self._open[descriptor]
        if not self._open:
            self._ended.set()
