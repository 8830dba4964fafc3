"""Pipes to and from a process that is being started, none of which is left open by accident."""

import asyncio
import os
from dataclasses import dataclass
from typing import Final

_LAST_WORDS_BYTES: Final = 4096
_LAST_WORDS_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Pipe:
    """The end that we keep and the end that is handed on."""

    ours: int
    theirs: int


class Pipes:
    """The pipes of one start; on leaving, all ends are closed that were not kept."""

    def __init__(self) -> None:
        self._ours: set[int] = set()
        self._theirs: set[int] = set()

    def __enter__(self) -> "Pipes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close_theirs()
        for descriptor in self._ours:
            os.close(descriptor)

    def to_us(self) -> Pipe:
        """One from which we read."""
        reading, writing = os.pipe()
        return self._pipe(reading, writing)

    def to_them(self) -> Pipe:
        """One to which we write."""
        reading, writing = os.pipe()
        return self._pipe(writing, reading)

    def filled(self, content: bytes) -> int:
        """Their end of one that holds this and nothing after it; it must fit into a pipe, which takes 64 KiB."""
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
        """Closes the ends that were handed on, so that a stream ends when their last holder does."""
        for descriptor in self._theirs:
            os.close(descriptor)
        self._theirs.clear()

    def keep(self, pipe: Pipe) -> int:
        """Our end of it, which stays open."""
        self._ours.remove(pipe.ours)
        return pipe.ours

    def _pipe(self, ours: int, theirs: int) -> Pipe:
        self._ours.add(ours)
        self._theirs.add(theirs)
        return Pipe(ours, theirs)


async def wait_readable(descriptor: int) -> None:
    """Waits until there is something to read, the stream has ended, or the process of the handle has."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    # A duplicate, because a loop has one reader for a descriptor.
    mine = os.dup(descriptor)
    loop.add_reader(mine, lambda: readable.done() or readable.set_result(None))
    try:
        await readable
    finally:
        loop.remove_reader(mine)
        os.close(mine)


def discard(descriptor: int) -> None:
    """Throws away what can be read at this moment."""
    os.set_blocking(descriptor, False)
    try:
        while os.read(descriptor, _LAST_WORDS_BYTES):
            pass
    except BlockingIOError:
        pass


async def read_until_closed(descriptor: int) -> str:
    """The beginning of what is there to read, until the stream ends or nothing comes any more."""
    said = b""
    try:
        async with asyncio.timeout(_LAST_WORDS_S):
            while len(said) < _LAST_WORDS_BYTES:
                await wait_readable(descriptor)
                piece = os.read(descriptor, _LAST_WORDS_BYTES)
                if not piece:
                    break
                said += piece
    except TimeoutError:
        pass
    return said.decode("utf-8", "replace")
