"""Runs one load generator with one plan against one server."""

import os
import statistics
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from bench.endpoints import served
from bench.measures import fresh_folder
from bench.report import Cell
from bench.serving.plans import First, Firsts, Held, Hold, Ready, Report, Take, Taken, Where
from bench.serving.processes import Process, gathered, module, started
from bench.serving.sizes import Holding
from timeloom.core.stream.channels import DECISION

R = TypeVar("R", bound=Report)

Serve = Callable[[Path, str], AbstractContextManager[tuple[Process, Where]]]
"""Starts a server with a data folder that does not exist yet and with the address of a model."""

EVERY_MS: Final = 50
"""Twenty deltas per second, about the speed of a large model."""

LATE_MS: Final = 50.0

STARTS_PER_S: Final = 30
"""Conversations started per second while the load builds up: their first turns are not measured."""

TEXT: Final = "Yes, of course."

_ANSWER: Final[dict[str, object]] = {
    "reply": f'<channel:{DECISION}>{{"action": "complete", "final_answer": "{TEXT}"}}</channel:{DECISION}>',
    "repeat": True,
}


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A number of concurrent streams and its measurements."""

    streams: int
    held: Held
    server_cpu: float
    each_kb: float
    load: float

    @property
    def in_time(self) -> bool:
        """Whether at least 99% of the deltas arrived and their p99 delay is below the limit."""
        return self.held.p99_ms < LATE_MS and self.held.deltas >= 0.99 * self.held.expected

    def row(self) -> tuple[Cell, ...]:
        """Return its values in the order of `COLUMNS`."""
        held = self.held
        delays = (held.p50_ms, held.p99_ms, held.worst_ms, held.own_p99_ms)
        return (self.streams, *delays, self.server_cpu, self.each_kb, self.load)


COLUMNS: Final = ("streams", "median ms", "p99 ms", "worst ms", "crowd p99 ms", "server CPU", "KB each", "load")


def search(folder: Path, serve: Serve, holding: Holding) -> list[Trial]:
    """Increase the number of concurrent conversations until the deltas are late in two attempts."""
    trials: list[Trial] = []
    for count in holding.streams:
        for _ in range(2):
            trials.append(_held(folder, serve, count, holding))
            if trials[-1].in_time:
                break
        else:
            break
    return trials


def best(trials: list[Trial]) -> Trial | None:
    """Return the last trial that was in time."""
    return next((trial for trial in reversed(trials) if trial.in_time), None)


def _held(folder: Path, serve: Serve, streams: int, holding: Holding) -> Trial:
    ramp_s, hold_s = max(holding.ramp_s, streams / STARTS_PER_S), holding.hold_s
    with (
        fresh_folder(folder) as data,
        started(module("bench.serving.stamping")) as model,
        serve(data / "data", model.url) as (server, where),
    ):
        before_bytes = server.memory_bytes()
        plan = Hold(where=where, streams=streams, ramp_s=ramp_s, hold_s=hold_s, every_ms=EVERY_MS)
        with gathered(plan) as crowd:
            expect(crowd.hear(), Ready)
            each_kb = (server.memory_bytes() - before_bytes) / streams / 1024
            before_s = server.cpu_s()
            held = expect(crowd.hear(), Held)
            # The rest of the measurement, and the second after it.
            cpu = (server.cpu_s() - before_s) / (hold_s / 2 + 1)
    return Trial(streams=streams, held=held, server_cpu=cpu, each_kb=each_kb, load=os.getloadavg()[0])


@contextmanager
def answering(folder: Path, serve: Serve) -> Generator[tuple[Process, Where, str]]:
    """Run a server whose model, `timeloom model serve`, answers at once with one delta; yield its address too."""
    with fresh_folder(folder) as data, served(data, [_ANSWER]) as url:
        model_url = url.removesuffix("/v1")
        with serve(data / "data", model_url) as (server, where):
            yield server, where, model_url


def taken(where: Where, clients: int, turns_each: int) -> Taken:
    """Run that many turns with each client."""
    with gathered(Take(where=where, clients=clients, turns_each=turns_each)) as crowd:
        return expect(crowd.hear(), Taken)


def firsts(where: Where, times: int, path: str = "") -> Firsts:
    """Measure the first delta of that many new conversations."""
    with gathered(First(where=where, path=path, times=times, text=TEXT)) as crowd:
        return expect(crowd.hear(), Firsts)


def median_s(measured: Firsts) -> float:
    """Return the median time to the first delta."""
    return statistics.median(measured.each_s)


def expect(report: Report, kind: type[R]) -> R:
    """Return the report after checking its type."""
    assert isinstance(report, kind), report
    return report
