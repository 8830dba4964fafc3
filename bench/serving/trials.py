"""Runs one load generator with one plan against one server."""

import os
import statistics
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from bench.endpoints import serve_script
from bench.measures import fresh_folder
from bench.report import Cell
from bench.serving.plans import (
    FirstDeltaPlan,
    FirstDeltaReport,
    HoldPlan,
    HoldReport,
    LoadReady,
    Report,
    ServerAddress,
    TurnsPlan,
    TurnsReport,
)
from bench.serving.processes import ServingProcess, module_command, start_load, start_process
from bench.serving.sizes import StreamSizes
from timeloom.core.stream.channels import DECISION

R = TypeVar("R", bound=Report)

Serve = Callable[[Path, str], AbstractContextManager[tuple[ServingProcess, ServerAddress]]]
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


class StreamTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A number of concurrent streams and its measurements."""

    streams: int
    held: HoldReport
    server_cpu: float
    each_kb: float
    load: float

    @property
    def is_in_time(self) -> bool:
        """Whether at least 99% of the deltas arrived and their p99 delay is below the limit."""
        return self.held.p99_ms < LATE_MS and self.held.deltas >= 0.99 * self.held.expected

    def row(self) -> tuple[Cell, ...]:
        """Return its values in the order of `COLUMNS`."""
        held = self.held
        delays = (held.p50_ms, held.p99_ms, held.worst_ms, held.own_p99_ms)
        return (self.streams, *delays, self.server_cpu, self.each_kb, self.load)


COLUMNS: Final = ("streams", "median ms", "p99 ms", "worst ms", "crowd p99 ms", "server CPU", "KB each", "load")


def search_limit(folder: Path, serve: Serve, holding: StreamSizes) -> list[StreamTrial]:
    """Increase the number of concurrent conversations until the deltas are late in two attempts."""
    trials: list[StreamTrial] = []
    for count in holding.streams:
        for _ in range(2):
            trials.append(_run_trial(folder, serve, count, holding))
            if trials[-1].is_in_time:
                break
        else:
            break
    return trials


def best_trial(trials: list[StreamTrial]) -> StreamTrial | None:
    """Return the last trial that was in time."""
    return next((trial for trial in reversed(trials) if trial.is_in_time), None)


def _run_trial(folder: Path, serve: Serve, streams: int, holding: StreamSizes) -> StreamTrial:
    ramp_s, hold_s = max(holding.ramp_s, streams / STARTS_PER_S), holding.hold_s
    with (
        fresh_folder(folder) as data,
        start_process(module_command("bench.serving.stamping")) as model,
        serve(data / "data", model.url) as (server, where),
    ):
        before_bytes = server.memory_bytes()
        plan = HoldPlan(where=where, streams=streams, ramp_s=ramp_s, hold_s=hold_s, every_ms=EVERY_MS)
        with start_load(plan) as crowd:
            expect_report(crowd.receive(), LoadReady)
            each_kb = (server.memory_bytes() - before_bytes) / streams / 1024
            before_s = server.cpu_s()
            held = expect_report(crowd.receive(), HoldReport)
            # The rest of the measurement, and the second after it.
            cpu = (server.cpu_s() - before_s) / (hold_s / 2 + 1)
    return StreamTrial(streams=streams, held=held, server_cpu=cpu, each_kb=each_kb, load=os.getloadavg()[0])


@contextmanager
def serve_answers(folder: Path, serve: Serve) -> Generator[tuple[ServingProcess, ServerAddress, str]]:
    """Run a server whose model, `timeloom model serve`, answers at once with one delta; yield its address too."""
    with fresh_folder(folder) as data, serve_script(data, [_ANSWER]) as url:
        model_url = url.removesuffix("/v1")
        with serve(data / "data", model_url) as (server, where):
            yield server, where, model_url


def run_turns(where: ServerAddress, clients: int, turns_each: int) -> TurnsReport:
    """Run that many turns with each client."""
    with start_load(TurnsPlan(where=where, clients=clients, turns_each=turns_each)) as crowd:
        return expect_report(crowd.receive(), TurnsReport)


def time_first_deltas(where: ServerAddress, times: int, path: str = "") -> FirstDeltaReport:
    """Measure the first delta of that many new conversations."""
    with start_load(FirstDeltaPlan(where=where, path=path, times=times, text=TEXT)) as crowd:
        return expect_report(crowd.receive(), FirstDeltaReport)


def median_s(measured: FirstDeltaReport) -> float:
    """Return the median time to the first delta."""
    return statistics.median(measured.each_s)


def expect_report(report: Report, kind: type[R]) -> R:
    """Return the report after checking its type."""
    assert isinstance(report, kind), report
    return report
