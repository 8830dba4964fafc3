"""Measures what the public `Agent` adds to a turn, and how long a script takes to its first event."""

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Literal

from bench.loops import HEADER, LoopingModel, look
from bench.report import BenchSection, BenchTable, BenchTarget
from bench.settings import BenchRun
from timeloom.agent.agent import Agent
from timeloom.app import AgentSettings, build_shared_parts, build_turn_runner
from timeloom.config.settings import Settings
from timeloom.core.ids import make_conversation_id
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.store import Store
from timeloom.runtime.session.session import Session
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.tools.define import FunctionTool
from timeloom.tools.registry import ToolRegistry

StoreKind = Literal["memory", "data folder"]

ROUNDS: Final = 10
"""Rounds of a turn: nine calls of a tool, and the answer."""

MAX_RATIO: Final = 1.05
FIRST_EVENT_MS: Final = 400.0
FIRST_EVENT_MB: Final = 60.0
PROMPT: Final = "Look at all places."

_PROGRAM: Final = """
import time
wall, cpu = time.perf_counter(), time.process_time()
import asyncio, json
from timeloom import Agent
from timeloom.testing import ScriptedModel, says

async def main():
    async with Agent(ScriptedModel([says("Hello.")])) as agent, agent.stream("hello") as run:
        async for event in run:
            break
        wall_s, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        peak_mb = int(status["VmHWM"].split()[0]) / 1024
        print(json.dumps([wall_s * 1000, cpu_s * 1000, peak_mb]))

asyncio.run(main())
"""


def measure_agent(run: BenchRun) -> BenchSection:
    """Run the same turns through the agent and through the turn runner, alternately, and start scripts."""
    kinds: tuple[StoreKind, ...] = ("memory", "data folder")
    measured = [asyncio.run(_measure_turns(kind, run.sizes.agent_turns)) for kind in kinds]
    rows = tuple(
        (kind, by_hand * 1000, through * 1000, ratio)
        for kind, (by_hand, through, ratio) in zip(kinds, measured, strict=True)
    )
    turns = BenchTable(
        title=f"A turn of {ROUNDS} rounds through the agent and through the turn runner by hand",
        columns=("store", "by hand CPU ms", "agent CPU ms", "agent over by hand"),
        rows=rows,
        notes=("each turn starts a conversation; both sides alternate; the ratio is the median of the pairs",),
    )
    wall_ms, cpu_ms, peak_mb = _start_script(run.sizes.imports)
    starts = BenchTable(
        title="From `import timeloom` to the first event",
        columns=("wall ms", "CPU ms", "peak MB"),
        rows=((wall_ms, cpu_ms, peak_mb),),
    )
    bars = (
        BenchTarget("CPU of a turn: agent over the turn runner by hand", measured[0][2], at_most=MAX_RATIO),
        BenchTarget("ms of CPU from import to the first event", cpu_ms, at_most=FIRST_EVENT_MS),
        BenchTarget("MB at the first event", peak_mb, at_most=FIRST_EVENT_MB),
    )
    return BenchSection(tables=(turns, starts), bars=bars)


async def _measure_turns(kind: StoreKind, pairs: int) -> tuple[float, float, float]:
    """Return the median CPU seconds of a turn by hand and through the agent, and the median ratio of the pairs."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store: Store = MemoryStore()
        if kind == "data folder":
            store = await stack.enter_async_context(await SqliteStore.open(folder))
        looks = look(_nothing, _nothing)
        settings = Settings(data_dir=folder)
        agent = Agent(_model(), tools=[looks], react=False, store=store, settings=settings)
        await stack.enter_async_context(agent)
        by_hand = _turn_by_hand(store, looks, AgentSettings.from_settings(settings))

        async def through_agent() -> None:
            assert (await agent.run(PROMPT)).reason == "completed"

        # The first pair pays for what is loaded and computed once.
        found = [(await _cpu_s(by_hand), await _cpu_s(through_agent)) for _ in range(pairs + 1)][1:]
    hand_s, agent_s = (statistics.median(times) for times in zip(*found, strict=True))
    return hand_s, agent_s, statistics.median(through / hand for hand, through in found)


def _turn_by_hand(store: Store, looks: FunctionTool, settings: AgentSettings) -> Callable[[], Awaitable[None]]:
    """Return a function that starts a conversation and runs one turn in it, with shared parts as in a server."""
    model, clock, ids = _model(), SystemClock(), RandomIds()
    shared = build_shared_parts(model, settings, ToolRegistry([looks]))

    async def turn() -> None:
        conversation = make_conversation_id(clock.epoch_us() // 1000, ids.bits())
        async with await Session.start_deferred(store, conversation, HEADER, clock, ids) as session:
            outcome = await build_turn_runner(session, model, settings, lambda _: None, shared).run(PROMPT)
            assert outcome == "completed"

    return turn


async def _cpu_s(work: Callable[[], Awaitable[None]]) -> float:
    """Return the CPU seconds of the work and of the tasks that it leaves behind."""
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        await work()
        await asyncio.sleep(0.001)
        return time.process_time() - began
    finally:
        gc.enable()


def _model() -> LoopingModel:
    return LoopingModel(ROUNDS, _nothing, _nothing, _nothing)


def _nothing() -> None:
    pass


def _start_script(repeats: int) -> tuple[float, float, float]:
    """Return the median times and the largest peak of fresh processes; the first run compiles the modules."""
    with tempfile.TemporaryDirectory() as compiled:
        found = [_start(compiled) for _ in range(repeats + 1)][1:]
    wall, cpu, peak = zip(*found, strict=True)
    return statistics.median(wall), statistics.median(cpu), max(peak)


def _start(compiled: str) -> tuple[float, float, float]:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ["PYTHONPYCACHEPREFIX"] = compiled
    done = subprocess.run([sys.executable, "-c", _PROGRAM], env=environ, capture_output=True, check=True)
    wall_ms, cpu_ms, peak_mb = json.loads(done.stdout)
    return float(wall_ms), float(cpu_ms), float(peak_mb)
