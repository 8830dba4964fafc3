"""Measures the CPU time of a round through each provider, as the conversation grows."""

import statistics
import sys
from typing import Final

import msgspec

from bench import peer
from bench.endpoints import serve_script
from bench.loops import answer_text, call_text
from bench.measures import StepTimes, fresh_folder
from bench.provider_side import ProviderJob, ProviderName, ProviderTimes
from bench.report import BenchSection, BenchTable, BenchTarget, Cell
from bench.settings import BenchRun

_PROVIDERS: Final[tuple[ProviderName, ...]] = ("openai", "anthropic")
_NOTES: Final = (
    "CPU of the process in all its threads: reply, appends, prompt, body of the request and sending it; no waiting",
    "medians over the rounds, of each round the quickest run; the providers run alternately",
    "results have about 900 characters of several scripts; nothing is pruned, so every request has all of them",
)


def measure_provider_rounds(run: BenchRun) -> BenchSection:
    """Run one long turn through each provider against the same scripted endpoint."""
    rounds = run.sizes.provider_rounds
    steps: list[dict[str, object]] = [{"reply": call_text(), "repeat": rounds - 1}, {"reply": answer_text()}]
    times: dict[ProviderName, StepTimes] = {name: StepTimes() for name in _PROVIDERS}
    with fresh_folder(run.work) as folder, serve_script(folder, steps) as url:
        for _ in range(run.sizes.provider_runs):
            for name, measured in times.items():
                measured.add(_run_turn(run, name, url).cpu_s)
    late = {name: _late_s(measured) for name, measured in times.items()}
    rows = tuple(_row(name, measured, late["anthropic"]) for name, measured in times.items())
    tenth = max(1, rounds // 10)
    columns = ("provider", f"first {tenth} rounds CPU ms", f"last {tenth} rounds CPU ms", "late over early", "times")
    table = BenchTable(
        title=f"CPU time of a round through a provider, {rounds} rounds", columns=columns, rows=rows, notes=_NOTES
    )
    bar = BenchTarget(
        f"CPU time of a round after {rounds} rounds, `openai:` over `anthropic:`",
        late["openai"] / late["anthropic"],
        at_most=1,
    )
    return BenchSection(tables=(table,), bars=(bar,))


def _run_turn(run: BenchRun, provider: ProviderName, url: str) -> ProviderTimes:
    with fresh_folder(run.work) as folder:
        job = ProviderJob(provider=provider, url=url, folder=str(folder.resolve()), rounds=run.sizes.provider_rounds)
        command = [sys.executable, "-m", "bench.provider_side"]
        printed = peer.run_program(command, msgspec.json.encode(job), cwd=peer.ROOT)
    return msgspec.json.decode(printed, type=ProviderTimes)


def _row(name: ProviderName, times: StepTimes, other_s: float) -> tuple[Cell, ...]:
    tenth = max(1, len(times.quickest_s) // 10)
    early_s, late_s = statistics.median(times.quickest_s[:tenth]), _late_s(times)
    return f"`{name}:`", early_s * 1000, late_s * 1000, late_s / early_s, late_s / other_s


def _late_s(times: StepTimes) -> float:
    return times.last_median_s()
