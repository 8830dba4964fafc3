"""The sizes of the server's benchmarks."""

from typing import Final

import msgspec

from bench.settings import FULL, QUICK, BenchRun

CONNECTIONS: Final = 10_000


class StreamSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of concurrent streams to try, and the duration of the measurement."""

    streams: tuple[int, ...]
    hold_s: float
    ramp_s: float
    """Shortest time in which the streams are opened."""


class ServingSizes(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of one run."""

    held: StreamSizes
    others_held: StreamSizes
    """The same for other servers: fewer streams, and more time to open them."""

    clients: int
    turns_each: int
    firsts: int
    idle: int
    stays: bool = True
    """Whether idle connections are held until they have received a heartbeat."""


_FULL: Final = ServingSizes(
    held=StreamSizes(streams=(50, 100, 200, 300, 400, 500, 600), hold_s=10, ramp_s=3),
    others_held=StreamSizes(streams=(25, 50, 75, 100, 150, 200, 300), hold_s=5, ramp_s=5),
    clients=16,
    turns_each=40,
    firsts=100,
    idle=CONNECTIONS,
)
_QUICK: Final = ServingSizes(
    held=StreamSizes(streams=(50, 100, 300), hold_s=4, ramp_s=3),
    others_held=StreamSizes(streams=(25, 50, 100), hold_s=4, ramp_s=5),
    clients=8,
    turns_each=10,
    firsts=30,
    idle=1_000,
)
_TINY: Final = ServingSizes(
    held=StreamSizes(streams=(2,), hold_s=0.5, ramp_s=1),
    others_held=StreamSizes(streams=(2,), hold_s=0.5, ramp_s=4),
    clients=2,
    turns_each=2,
    firsts=2,
    idle=4,
    stays=False,
)


def sizes_for(run: BenchRun) -> ServingSizes:
    """Return the sizes for a run."""
    return _FULL if run.sizes is FULL else _QUICK if run.sizes is QUICK else _TINY
