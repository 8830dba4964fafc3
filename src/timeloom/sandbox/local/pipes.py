"""Opens the pipes to a process that is being started and closes every end that is not kept."""

import asyncio
import os
from dataclasses import dataclass
from typing import Final

from timeloom.sandbox.readable import wait_readable

_LAST_WORDS_BYTES: Final = 4096
_READ_TIMEOUT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Pipe:
    """The end that we keep and the end that the process inherits."""

    ours: int
    theirs: int


class Pipes:
    """The pipes of one process start; on exit, all ends that were not kept are closed."""

    def __init__(self) -> None:
        self._ours: set[int] = set()
        self._theirs: set[int] = set()

    def __enter__(self) -> "Pipes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close_theirs()
        for descriptor in self._ours:
            os.close(descriptor)

    def open_reader(self) -> Pipe:
        """Open a pipe that we read from."""
        reading, writing = os.pipe()
        return self._register(reading, writing)

    def open_writer(self) -> Pipe:
        """Open a pipe that we write to."""
        reading, writing = os.pipe()
        return self._register(writing, reading)

    def open_filled(self, content: bytes) -> int:
        """Return the read end of a pipe with exactly this content, which must fit the 64 KiB of a pipe."""
        reading, writing = os.pipe()
        self._theirs.add(reading)
        try:
            os.set_blocking(writing, False)
            if os.write(writing, content) != len(content):
                raise OSError("what is handed to a sandbox does not fit into a pipe")
        finally:
            os.close(writing)
        return reading

    def close_theirs(self) -> None:
        """Close the inherited ends, so that a stream ends when the last process closes it."""
        for descriptor in self._theirs:
            os.close(descriptor)
        self._theirs.clear()

    def keep(self, pipe: Pipe) -> int:
        """Return our end of the pipe and leave it open."""
        self._ours.remove(pipe.ours)
        return pipe.ours

    def _register(self, ours: int, theirs: int) -> Pipe:
        self._ours.add(ours)
        self._theirs.add(theirs)
        return Pipe(ours, theirs)


def discard_available(descriptor: int) -> None:
    """Discard the data that is readable now."""
    os.set_blocking(descriptor, False)
    try:
        while os.read(descriptor, _LAST_WORDS_BYTES):
            pass
    except BlockingIOError:
        pass


async def read_until_closed(descriptor: int) -> str:
    """Return the first bytes of the stream as text, until it ends or no more data arrives."""
    data = b""
    try:
        async with asyncio.timeout(_READ_TIMEOUT_S):
            while len(data) < _LAST_WORDS_BYTES:
                await wait_readable(descriptor)
                piece = os.read(descriptor, _LAST_WORDS_BYTES)
                if not piece:
                    break
                data += piece
    except TimeoutError:
        pass
    return data.decode("utf-8", "replace")
