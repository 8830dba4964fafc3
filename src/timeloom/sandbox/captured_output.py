"""Reads a program's stdout and stderr: streams the text, keeps the tail and counts the bytes."""

import asyncio
import codecs
import os
from collections.abc import Callable
from typing import Final, Literal

from timeloom.ports.sandbox import OutputSink

TAIL_BYTES: Final = 16 * 1024
"""Bytes kept from the end of each stream. Fewer cut tracebacks; more only lengthen the result of a call."""

_READ_BYTES: Final = 64 * 1024
_DRAIN_S: Final = 2.0

StreamName = Literal["stdout", "stderr"]


class CapturedOutput:
    """The stdout and stderr of a program, read from pipes until both have ended."""

    def __init__(self, max_bytes: int, output: OutputSink) -> None:
        self._max_bytes = max_bytes
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._bytes = 0
        self._tails: dict[StreamName, bytes] = {"stdout": b"", "stderr": b""}
        self._decoders: dict[int, Callable[[bytes, bool], str]] = {}
        self._ended = asyncio.Event()
        self._over_limit = asyncio.Event()

    def start_reading(self, stream: StreamName, descriptor: int) -> None:
        """Start reading the descriptor; it is closed when the stream has ended."""
        os.set_blocking(descriptor, False)
        self._decoders[descriptor] = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._loop.add_reader(descriptor, self._on_readable, stream, descriptor)

    async def wait_over_limit(self) -> str:
        """Wait until the program has printed too much, and return a message; never return otherwise."""
        await self._over_limit.wait()
        return f"printed {self._bytes} bytes or more, of {self._max_bytes}"

    async def drain(self) -> None:
        """Wait until both streams have ended, which happens when the last process that holds them exits."""
        if self._over_limit.is_set():
            self.close()
        try:
            async with asyncio.timeout(_DRAIN_S):
                await self._ended.wait()
        except TimeoutError:
            self.close()

    def tail(self, stream: StreamName) -> str:
        """Return the last `TAIL_BYTES` of the stream, from the start of a line if one is near."""
        kept = self._tails[stream]
        if len(kept) == TAIL_BYTES:
            kept = kept[kept.find(b"\n", 0, TAIL_BYTES // 4) + 1 :]
        return kept.decode("utf-8", "replace")

    def close(self) -> None:
        """Stop reading and close both streams."""
        for descriptor in list(self._decoders):
            self._close_stream(descriptor)

    def _on_readable(self, stream: StreamName, descriptor: int) -> None:
        try:
            piece = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        decode = self._decoders[descriptor]
        text = decode(piece, not piece)
        self._bytes += len(piece)
        self._tails[stream] = (self._tails[stream] + piece)[-TAIL_BYTES:]
        if not piece:
            self._close_stream(descriptor)
        elif self._bytes > self._max_bytes:
            self._over_limit.set()
            self._loop.remove_reader(descriptor)
        if text and self._bytes <= self._max_bytes:
            self._output(stream, text)

    def _close_stream(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        del self._decoders[descriptor]
        if not self._decoders:
            self._ended.set()
