"""A server that is killed again and again while clients talk to it over HTTP loses, doubles and reorders nothing.

`TIMELOOM_HTTP_KILLS` is the number of kills; `make crash` kills 25 times as often. The seed of a failed run is in the
name of its test; `TIMELOOM_HTTP_SEED` sets the first one.
"""

import asyncio
import math
import os
from pathlib import Path

import pytest

from tests.crash.server_checker import ServerEvidence, find_server_problems
from tests.crash.server_run import RunPlan, run_killed_server

KILLS = int(os.environ.get("TIMELOOM_HTTP_KILLS", "8"))
KILLS_PER_FOLDER = 8
FIRST_SEED = int(os.environ.get("TIMELOOM_HTTP_SEED", "1"))
SEEDS = range(FIRST_SEED, FIRST_SEED + math.ceil(KILLS / KILLS_PER_FOLDER))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_that_is_killed_while_clients_talk_loses_and_doubles_nothing(seed: int, tmp_path: Path) -> None:
    evidence = asyncio.run(run_killed_server(tmp_path / "served", RunPlan(seed=seed, kills=KILLS_PER_FOLDER)))
    problems = find_server_problems(evidence)
    assert not problems, "\n".join(problems)
    assert_enough_happened(evidence)


def assert_enough_happened(evidence: ServerEvidence) -> None:
    """A run in which clients send and read too little proves nothing."""
    outcomes = {(sent.kind, sent.outcome) for sent in evidence.sent}
    assert {("message", "accepted"), ("followup", "accepted"), ("decision", "accepted")} <= outcomes
    assert len(evidence.timelines) >= 4
    assert len(evidence.received) >= 40
