"""Measures the local model in a separate process, so that its memory can be measured.

Takes the number of cases per group (0 means all) and prints the result as one line of JSON.
"""

import asyncio
import sys
import time
from typing import Final

import msgspec

from bench.demo.requests import SETS, read_requests
from bench.demo.score import judge_requests
from bench.measures import peak_bytes
from timeloom.ports.model import Model, ModelRequest
from timeloom.testing.conformance.cases import load_published_suite
from timeloom.testing.conformance.running import ConformanceReport, GroupScore, Selection, run_suite
from timeloom.testing.conformance.scenes import build_request
from timeloom.testing.conformance.streaming import StreamedReply, fetch_reply
from timeloom_local.model import LocalModel

REPEATS: Final = 5
"""Repetitions of the same request; the quickest counts, because other load on the machine only adds time."""


class ElapsedTime(msgspec.Struct, frozen=True):
    """Wall-clock time and CPU time; on a busy machine the second is more meaningful."""

    clock_s: float
    cpu_s: float


class SetScore(msgspec.Struct, frozen=True):
    """How many requests of a set had a sensible outcome."""

    name: str
    requests: int
    sensible: int


class LocalModelResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run; `score` is that of the published set."""

    load: ElapsedTime
    answer: ElapsedTime
    output_tokens: int
    peak_bytes: int
    decision_s: float
    scores: tuple[GroupScore, ...]
    sets: tuple[SetScore, ...]
    score: float
    well_formed: int
    replies: int
    stream_passed: int
    stream_checks: int


async def measure(limit: int | None) -> LocalModelResult:
    """Open the model, send one request several times, then the published suite and the sets of requests."""
    suite = load_published_suite()
    prose = next(case for case in suite.requests if case.id == "write-poem")
    request = build_request(prose, suite.scenes[prose.scene])
    started = _read_clocks()
    model = LocalModel()
    reply = await fetch_reply(model, request)
    first = _elapsed(started)
    answer = await _measure_quickest(model, request)
    report = await run_suite(model, Selection(limit=limit))
    sets = tuple([await _score_set(model, path.stem, limit) for path in sorted(SETS.glob("*.yaml"))])
    await model.close()
    return _to_result(report, sets, (first, answer), reply)


async def _score_set(model: Model, name: str, limit: int | None) -> SetScore:
    requests = read_requests(SETS / f"{name}.yaml")[:limit]
    judged = [one async for one in judge_requests(model, requests)]
    return SetScore(name, len(judged), sum(not one.failures for one in judged))


async def _measure_quickest(model: Model, request: ModelRequest) -> ElapsedTime:
    took: list[ElapsedTime] = []
    for _ in range(REPEATS):
        started = _read_clocks()
        await fetch_reply(model, request)
        took.append(_elapsed(started))
    return ElapsedTime(min(one.clock_s for one in took), min(one.cpu_s for one in took))


def _read_clocks() -> ElapsedTime:
    return ElapsedTime(time.perf_counter(), time.process_time())


def _elapsed(started: ElapsedTime) -> ElapsedTime:
    return ElapsedTime(time.perf_counter() - started.clock_s, time.process_time() - started.cpu_s)


def _to_result(
    report: ConformanceReport, sets: tuple[SetScore, ...], took: tuple[ElapsedTime, ElapsedTime], reply: StreamedReply
) -> LocalModelResult:
    first, answer = took
    cases = report.cases
    return LocalModelResult(
        load=ElapsedTime(first.clock_s - answer.clock_s, first.cpu_s - answer.cpu_s),
        answer=answer,
        output_tokens=reply.finished.usage.output_tokens if reply.finished else 0,
        peak_bytes=peak_bytes(),
        decision_s=sum(case.seconds for case in cases) / len(cases),
        scores=report.scores,
        sets=sets,
        score=report.score,
        well_formed=sum(case.verdict.well_formed for case in cases),
        replies=len(cases),
        stream_passed=sum(check.passed for check in report.stream),
        stream_checks=len(report.stream),
    )


if __name__ == "__main__":
    print(msgspec.json.encode(asyncio.run(measure(int(sys.argv[1]) or None))).decode())
