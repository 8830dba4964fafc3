"""A turn resumes by itself after its process was killed at any point, and does nothing twice.

`make crash` kills ten times as often.
"""

import os
import random
import re
from collections.abc import Iterator, Mapping
from itertools import repeat
from pathlib import Path

import pytest

from tests.crash.checker import find_problems
from tests.crash.crash_scenes import SCENES
from tests.crash.victim_pool import BaselineRun, ForkServer, KilledConversation
from tests.crash.victim_process import ExitPlan

KILLS = int(os.environ.get("TIMELOOM_CRASH_KILLS", "100"))
"""How many kills there are at least, in all tests of this file."""

PLACES = {"everywhere": (".", 60), "before each step": (r"^\d+ (?!stored)", 40)}
"""Boundaries that histories are killed at, and how many there are of them at least. A process that dies as soon as
something is stored acknowledges nothing; one that dies before the next step has."""

CHUNKS = 2 if KILLS <= 100 else 8
AT_RANDOM = max(8, (KILLS - 250) // (CHUNKS * len(SCENES)) + 1)
"""Kills at random instants in each chunk."""


@pytest.fixture(params=SCENES)
def scene(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def whole(undisturbed: Mapping[str, BaselineRun], scene: str) -> BaselineRun:
    return undisturbed[scene]


@pytest.mark.parametrize("places", PLACES)
def test_a_conversation_survives_a_kill_at_every_step_boundary(
    forks: ForkServer, scene: str, whole: BaselineRun, places: str, tmp_path: Path
) -> None:
    """One conversation is killed at each boundary that it reaches for the first time."""
    pattern, least = PLACES[places]
    history = KilledConversation(forks, tmp_path / "killed", scene)
    evidence = history.run_to_end(repeat(ExitPlan(kill_at_new=pattern)))
    assert find_problems(evidence, whole.evidence) == []
    assert history.kills == len({place for place in history.reached_boundaries() if re.search(pattern, place)}) >= least


@pytest.mark.parametrize("seed", range(CHUNKS))
def test_a_conversation_survives_kills_at_random_instants(
    forks: ForkServer, scene: str, whole: BaselineRun, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    kills = histories = 0
    while kills < AT_RANDOM:
        history = KilledConversation(forks, tmp_path / f"killed_{histories}", scene)
        evidence = history.run_to_end(at_random(chance, whole.longest_s))
        assert find_problems(evidence, whole.evidence) == [], history.folder
        kills += history.kills
        histories += 1


def at_random(chance: random.Random, life_s: float) -> Iterator[ExitPlan]:
    for _ in range(chance.randint(1, 12)):
        yield ExitPlan(kill_after_s=chance.uniform(0, life_s))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_conversation_survives_one_kill_at_any_step_boundary(
    forks: ForkServer, scene: str, whole: BaselineRun, chunk: int, tmp_path: Path
) -> None:
    """Histories with one kill each; all boundaries where many kills are wanted, else one of each chunk."""
    own = range(1 + chunk, len(whole.boundaries) + 1, CHUNKS)
    wanted = own if KILLS > 100 else random.Random(chunk).sample(own, 1)
    for number in wanted:
        history = KilledConversation(forks, tmp_path / f"killed_{number}", scene)
        evidence = history.run_to_end([ExitPlan(kill_at=number)] * len(whole.boundaries))
        assert find_problems(evidence, whole.evidence) == [], whole.boundaries[number - 1]
        assert history.kills == 1
