"""One budget for a hundred conversations of a tree in four processes, some of which are killed."""

import asyncio
import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.contract.spender import LIMIT, TREE, amounts, read_effects
from tests.harness.repository import ROOT, program
from timeloom.ports.ledger import Amounts
from timeloom.stores.sqlite import SqliteStore

SPENDER = program("tests.contract.spender")
PROCESSES = 4


def spender(folder: Path, process: int, seed: int) -> subprocess.Popen[str]:
    command = [*SPENDER, str(folder), str(process), str(seed)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def wait_for_calls(folder: Path, number: int) -> None:
    while len(read_effects(folder / "bill")) < number:
        time.sleep(0.005)


def check(folder: Path) -> None:
    bill = read_effects(folder / "bill")

    async def spent() -> Amounts:
        async with await SqliteStore.open(folder / "data") as store:
            assert (await store.verify()).findings == ()
            return await store.ledger.spent(TREE)

    assert asyncio.run(spent()) == amounts(sum(bill.values()))
    assert LIMIT <= sum(bill.values()) < LIMIT + max(bill.values())


@pytest.mark.parametrize("kills", [0, 3])
def test_a_hundred_conversations_in_four_processes_overspend_by_less_than_one_call(kills: int, tmp_path: Path) -> None:
    chance = random.Random(kills)
    running = [spender(tmp_path, process, process) for process in range(PROCESSES)]
    for kill in range(kills):
        wait_for_calls(tmp_path, 30 * (kill + 1))
        victim = chance.randrange(PROCESSES)
        running[victim].kill()
        running[victim].communicate()
        running[victim] = spender(tmp_path, victim, 100 * kill + victim)
    for process in running:
        printed, _ = process.communicate()
        assert (process.returncode, printed) == (0, "ready\ndone\n")
    check(tmp_path)
