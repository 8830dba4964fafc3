"""The sizes and inputs of a benchmark run."""

from pathlib import Path
from typing import Final

import msgspec

from bench.traces import Trace


class BenchSizes(msgspec.Struct, frozen=True, kw_only=True):
    """The size of each benchmark; ratios hold at any size, but noise grows as it shrinks."""

    replays: int
    """Runs of each trace on each side, alternately."""

    other_replays: int
    """The same for the other two ways of using LangGraph."""

    long_appends: int
    long_runs: int
    concurrent: int
    dialogues: int
    loaded: tuple[int, ...]
    peer_loaded: tuple[int, ...]
    folded: tuple[int, ...]
    fold_repeats: int
    text_chars: int
    decision_chars: tuple[int, ...]
    repeats: int
    imports: int
    agent_turns: int
    """Turns through the agent, and as many by hand."""

    synthetic_steps: int
    round_blocks: tuple[int, ...]
    round_turns: int
    round_count: int
    """Rounds of a turn that count."""

    provider_rounds: int
    """Rounds of the turn that runs through each provider."""

    provider_runs: int

    loop_turns: int
    loop_rounds: int
    loop_runs: int
    deltas_apart: tuple[int, int]
    """Deltas of the short and of the long stream in the mode that reads each one separately."""

    deltas_together: tuple[int, int]
    delta_repeats: int
    family_seeds: int
    """Generated sessions of many small calls."""

    other_family_seeds: int
    """Generated sessions of each other family."""

    framing_seeds: int
    """Generated sessions whose framing is counted."""

    framing_dialogues: int


FULL: Final = BenchSizes(
    replays=7,
    other_replays=3,
    long_appends=20_000,
    long_runs=3,
    concurrent=16,
    dialogues=200,
    loaded=(10_000, 100_000),
    peer_loaded=(10_000, 100_000),
    folded=(100, 10_000, 100_000),
    fold_repeats=9,
    text_chars=1_000_000,
    decision_chars=(4_000, 64_000, 256_000),
    repeats=5,
    imports=11,
    agent_turns=61,
    synthetic_steps=370,
    round_blocks=(100, 1_000, 10_000, 100_000),
    round_turns=7,
    round_count=20,
    provider_rounds=200,
    provider_runs=5,
    loop_turns=10,
    loop_rounds=20,
    loop_runs=3,
    deltas_apart=(100, 600),
    deltas_together=(200, 4_000),
    delta_repeats=9,
    family_seeds=20,
    other_family_seeds=10,
    framing_seeds=20,
    framing_dialogues=200,
)

QUICK: Final = BenchSizes(
    replays=2,
    other_replays=1,
    long_appends=2_000,
    long_runs=2,
    concurrent=8,
    dialogues=30,
    loaded=(10_000,),
    peer_loaded=(10_000,),
    folded=(100, 10_000, 100_000),
    fold_repeats=3,
    text_chars=200_000,
    decision_chars=(4_000, 64_000),
    repeats=3,
    imports=3,
    agent_turns=15,
    synthetic_steps=200,
    round_blocks=(100, 10_000),
    round_turns=3,
    round_count=10,
    provider_rounds=60,
    provider_runs=2,
    loop_turns=4,
    loop_rounds=10,
    loop_runs=1,
    deltas_apart=(50, 250),
    deltas_together=(100, 1_000),
    delta_repeats=2,
    family_seeds=4,
    other_family_seeds=2,
    framing_seeds=4,
    framing_dialogues=20,
)

TINY: Final = BenchSizes(
    replays=1,
    other_replays=1,
    long_appends=20,
    long_runs=1,
    concurrent=2,
    dialogues=2,
    loaded=(100,),
    peer_loaded=(),
    folded=(10, 100),
    fold_repeats=1,
    text_chars=2_000,
    decision_chars=(1_000,),
    repeats=1,
    imports=1,
    agent_turns=2,
    synthetic_steps=20,
    round_blocks=(20, 200),
    round_turns=1,
    round_count=2,
    provider_rounds=12,
    provider_runs=1,
    loop_turns=2,
    loop_rounds=3,
    loop_runs=1,
    deltas_apart=(10, 20),
    deltas_together=(10, 20),
    delta_repeats=1,
    family_seeds=0,
    other_family_seeds=1,
    framing_seeds=0,
    framing_dialogues=2,
)
"""Measures nothing worth reading: it shows that the benchmarks still run."""


class BenchRun(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the measurements are given."""

    sizes: BenchSizes
    sessions: tuple[Trace, ...]
    dialogues: tuple[Trace, ...]
    work: Path
    """Where stores are written and removed again."""

    peer: Path | None
    """The Python of the benchmark-only environment; None leaves the other runtimes out."""
