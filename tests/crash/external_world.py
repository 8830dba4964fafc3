"""A log of effects in a file beside the data folder, written before the process can be killed."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec


class ProcessStarted(msgspec.Struct, frozen=True, tag=True):
    """A process opened the folder and found a conversation of this length."""

    tail: int


class EntryAcknowledged(msgspec.Struct, frozen=True, tag=True):
    """An append was acknowledged: the entry's number and the hash of its record."""

    seq: int
    sha256: str


class DecisionRequested(msgspec.Struct, frozen=True, tag=True):
    """A model received a request for a decision."""


class ToolStarted(msgspec.Struct, frozen=True, tag=True):
    """A tool was called."""

    tool: str
    call: str


class EffectDone(msgspec.Struct, frozen=True, tag=True):
    """A tool had its external effect."""

    tool: str
    call: str
    what: str


class BoundaryReached(msgspec.Struct, frozen=True, tag=True):
    """A step boundary was reached: the round's number and a name that is the same when it is reached again."""

    place: str


class ProcessFinished(msgspec.Struct, frozen=True, tag=True):
    """A process ended by itself; `done` tells whether all turns have ended."""

    done: bool


Line = (
    ProcessStarted
    | EntryAcknowledged
    | DecisionRequested
    | ToolStarted
    | EffectDone
    | BoundaryReached
    | ProcessFinished
)

_DECODER = msgspec.json.Decoder(Line)


class EffectLog:
    """Writes lines that survive the process, and kills the process at the planned boundary."""

    def __init__(self, path: Path, kill_at: int | None = None, kill_at_new: str = "") -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        known = [line.place for line in read_lines(path) if isinstance(line, BoundaryReached)]
        self._passed = len(known)
        self._known = set(known)
        self._kill_at = kill_at
        self._kill_at_new = kill_at_new
        self.rounds = 0
        """Number of rounds that the conversation has started."""

    def write_line(self, line: Line) -> None:
        """Write the line and sync it to the disk."""
        os.write(self._file, msgspec.json.encode(line) + b"\n")
        os.fdatasync(self._file)

    def lines(self) -> list[Line]:
        """Return all lines of all processes."""
        return list(read_lines(self._path))

    def reach_boundary(self, place: str) -> None:
        """Record that the boundary was reached, and kill the process if that is planned."""
        place = f"{self.rounds} {place}"
        is_new = place not in self._known
        self._known.add(place)
        self._passed += 1
        os.write(self._file, msgspec.json.encode(BoundaryReached(place)) + b"\n")
        is_wanted = is_new and self._kill_at_new and re.search(self._kill_at_new, place)
        if is_wanted or self._passed == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of the file; skip a torn last line."""
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield _DECODER.decode(line)
