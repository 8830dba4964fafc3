"""Acknowledged entries survive a process that is killed at any moment, repeatedly."""

import asyncio
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from tests.harness.repository import ROOT, program
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.stores.sqlite import SqliteStore
from timeloom.wire.record import encode_record

SEEDS = range(int(os.environ.get("TIMELOOM_CRASH_SEEDS", "2")))
KILLS = 3
APPENDER = program("tests.crash.appender")

Acknowledged = dict[ConversationId, dict[int, str] | None]
"""The records of each conversation by seq; none for one whose delete had begun."""


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_survives_kill_9(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    acknowledged: Acknowledged = {}
    for kill in range(KILLS):
        note(acknowledged, killed_after(chance.randint(1, 250), tmp_path, seed * 100 + kill))
        asyncio.run(check(tmp_path, acknowledged))


def killed_after(lines: int, folder: Path, seed: int) -> list[str]:
    """Return the output of the program, killed shortly after that many lines."""
    command = [*APPENDER, str(folder), str(seed)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        printed += process.stdout.readlines()
    assert printed[0] == "open\n"
    # The last line may be torn.
    return [line.removesuffix("\n") for line in printed[1:] if line.endswith("\n")]


def note(acknowledged: Acknowledged, lines: list[str]) -> None:
    for line in lines:
        match line.split(" "):
            case ["deleting", name]:
                acknowledged[ConversationId(name)] = None
            case ["deleted", name]:
                acknowledged[ConversationId(name)] = {}
            case ["stored", name, seq, record]:
                records = acknowledged.get(ConversationId(name)) or {}
                acknowledged[ConversationId(name)] = records | {int(seq): record}
            case _:
                pytest.fail(f"the program printed {line!r}")


async def check(folder: Path, acknowledged: Acknowledged) -> None:
    async with await SqliteStore.open(folder) as store:
        assert (await store.verify()).findings == ()
        for name, records in acknowledged.items():
            if records is None:
                acknowledged[name] = {}
                continue
            try:
                entries = await store.load(name)
            except CodedError:
                entries = []
            found = {entry.seq: encode_record(entry).hex() for entry in entries}
            assert list(found) == list(range(1, len(found) + 1))
            assert records.items() <= found.items()
