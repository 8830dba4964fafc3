"""Runs timeloom's loop over HTTP, or a bare client that sends the same bytes and reads the replies.

It runs as a program, reads one job as JSON from standard input and prints one answer as JSON.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Literal

import httpx2
import msgspec

from bench.loops import HEADER, look, make_bench_turns
from bench.measures import peak_bytes
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.providers.registry import open_model
from timeloom.providers.settings import ModelSettings
from timeloom.runtime.session.session import Session
from timeloom.stores.sqlite import SqliteStore

SideName = Literal["openai", "anthropic", "bare", "langgraph", "agents", "pydantic", "client"]


class SentHttpRequest(msgspec.Struct, frozen=True):
    """A request as a side sent it."""

    path: str
    headers: dict[str, str]
    body: str


class LoopJob(msgspec.Struct, frozen=True, kw_only=True):
    """The job of a side; other runtimes get their own name of the tool and the text that it returns."""

    side: SideName
    url: str
    folder: str
    turns: int
    rounds: int
    prompt: str = "Look at all places."
    system: str = "Look at one place after another, then answer."
    tool: str = "bench_look"
    seen: str = ""
    stored: bool = False
    """Whether a runtime without built-in storage stores its messages."""
    durability: Literal["sync", "async"] = "sync"
    """Whether LangGraph writes a checkpoint before the next step begins, or while it runs."""
    requests: tuple[SentHttpRequest, ...] = ()


class LoopResult(msgspec.Struct, frozen=True):
    """Duration of the rounds of each turn, CPU time of each turn, and memory after imports and at its peak."""

    round_s: list[list[float]]
    cpu_s: list[float]
    imported_bytes: int
    peak_bytes: int


class _RoundClock:
    """Measures turns and rounds: a round ends at the call of the tool, the last one with its turn."""

    def __init__(self) -> None:
        self._round_s: list[list[float]] = []
        self._cpu_s: list[float] = []
        self._imported_bytes = peak_bytes()
        self._since = 0.0
        self._cpu_since = 0.0

    def begin(self) -> None:
        self._round_s.append([])
        self._since, self._cpu_since = time.perf_counter(), time.process_time()

    def end_round(self) -> None:
        now = time.perf_counter()
        self._round_s[-1].append(now - self._since)
        self._since = now

    def end(self) -> None:
        self._cpu_s.append(time.process_time() - self._cpu_since)

    def clear(self) -> None:
        self._round_s.clear()
        self._cpu_s.clear()

    def to_result(self, rounds: int) -> LoopResult:
        if any(len(turn) != rounds for turn in self._round_s):
            raise SystemExit(f"turns had {[len(turn) for turn in self._round_s]} rounds")
        return LoopResult(self._round_s, self._cpu_s, self._imported_bytes, peak_bytes())


def _main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=LoopJob)
    looped = asyncio.run(_run_bare(job) if job.side == "bare" else _run_timeloom(job))
    sys.stdout.buffer.write(msgspec.json.encode(looped))


async def _run_timeloom(job: LoopJob) -> LoopResult:
    """Run the runtime like a program: a store on disk, a provider by name, turns one after the other."""
    url = job.url if job.side == "openai" else job.url.removesuffix("/v1")
    model = open_model(f"{job.side}:bench", ModelSettings(base_url=url, key="none"))
    folder = Path(job.folder)
    watch = _RoundClock()
    async with await SqliteStore.open(folder) as store:
        looks = look(watch.end_round, lambda: None)
        watch.begin()
        await make_bench_turns(await _session(store, "conv_warm_up"), model, looks, folder).run(job.prompt)
        watch.clear()
        turns = make_bench_turns(await _session(store, "conv_bench"), model, looks, folder)
        for _ in range(job.turns):
            watch.begin()
            await turns.run(job.prompt)
            watch.end_round()
            watch.end()
    await model.close()
    return watch.to_result(job.rounds)


async def _session(store: SqliteStore, name: str) -> Session:
    return await Session.start(store, ConversationId(name), HEADER, SystemClock(), RandomIds())


async def _run_bare(job: LoopJob) -> LoopResult:
    """Send each recorded request and read its reply to the end; the first turn is a warm-up."""
    watch = _RoundClock()
    async with httpx2.AsyncClient(base_url=job.url.removesuffix("/v1"), timeout=60) as client:
        for at in range(0, len(job.requests), job.rounds):
            watch.begin()
            for request in job.requests[at : at + job.rounds]:
                body = request.body.encode()
                async with client.stream("POST", request.path, content=body, headers=request.headers) as response:
                    async for _ in response.aiter_raw():
                        pass
                watch.end_round()
            watch.end()
            if at == 0:
                watch.clear()
    return watch.to_result(job.rounds)


if __name__ == "__main__":
    _main()
