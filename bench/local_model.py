"""Measures the local model: load time, memory, speed and scores."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from bench.demo.requests import DEVELOPMENT
from bench.local_side import LocalModelResult
from bench.report import BenchSection, BenchTable, BenchTarget
from bench.settings import FULL, BenchRun

WELL_FORMED: Final = 1.0
SENSIBLE: Final = 0.8

_ROOT: Final = Path(__file__).resolve().parents[1]


def measure_local_model(run: BenchRun) -> BenchSection:
    """Measure cost, the score of the conformance suite, and the share of requests with a sensible outcome."""
    limit = 0 if run.sizes is FULL else run.sizes.repeats
    command = [sys.executable, "-m", "bench.local_side", str(limit)]
    printed = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, check=True).stdout
    found = msgspec.json.decode(printed, type=LocalModelResult)
    return BenchSection(tables=(_cost(found), _score(found), _sets(found)), bars=_bars(found))


def _cost(found: LocalModelResult) -> BenchTable:
    return BenchTable(
        title="The local model",
        columns=("", "load s", "an answer s", "tokens/s", "a decision s", "peak MB", "stream checks"),
        rows=(
            (
                "by the clock",
                found.load.clock_s,
                found.answer.clock_s,
                found.output_tokens / found.answer.clock_s,
                found.decision_s,
                found.peak_bytes / 1e6,
                f"{found.stream_passed} of {found.stream_checks}",
            ),
            (
                "of the processor",
                found.load.cpu_s,
                found.answer.cpu_s,
                found.output_tokens / found.answer.cpu_s,
                None,
                None,
                None,
            ),
        ),
        notes=(
            "one thread; of the same answer five times the quickest counts",
            "load is the first answer less that: both sets of weights and the examples",
            "tokens/s counts the written tokens over the whole time of an answer, its prompt included",
            "a decision is the mean over all requests below",
        ),
    )


def _score(found: LocalModelResult) -> BenchTable:
    return BenchTable(
        title="The local model, by `timeloom model check`",
        columns=("group", "cases", "well-formed", "right tool", "right parameters", "sensible"),
        rows=tuple(
            (score.group, score.cases, score.well_formed, score.right_tool, score.right_params, score.sensible)
            for score in found.scores
        ),
        notes=(
            "the suite judges the first decision of any model; of `odd` only the form is judged",
            "the demo model declines questions of fact, so it fails most requests of the suite that ask for one",
        ),
    )


def _sets(found: LocalModelResult) -> BenchTable:
    return BenchTable(
        title="The local model, whole conversations",
        columns=("set", "requests", "sensible", "share"),
        rows=tuple((one.name, one.requests, one.sensible, one.sensible / one.requests) for one in found.sets),
        notes=(
            "each set is `bench/demo/sets/<set>.yaml`; a request is sensible if all of its checks hold",
            "the rules of the model were made with the sets of development; the other sets were scored once",
        ),
    )


def _bars(found: LocalModelResult) -> tuple[BenchTarget, ...]:
    shares = [(one.name, one.sensible / one.requests) for one in found.sets if one.name != DEVELOPMENT]
    return (
        BenchTarget("local model: well-formed replies", found.well_formed / found.replies, at_least=WELL_FORMED),
        *(BenchTarget(f"local model: sensible, {name}", share, at_least=SENSIBLE) for name, share in shares),
    )
