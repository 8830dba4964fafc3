"""Several processes change one record at the same time."""

import asyncio
import subprocess
from pathlib import Path

from tests.contract.record_counter import SCOPE, SharedCount
from tests.harness.repository import ROOT, program
from timeloom.ports.typed_records import TypedRecord, TypedRecords
from timeloom.stores.sqlite import SqliteStore

COUNTER = program("tests.contract.record_counter")
TIMES = 40


def test_no_change_of_a_record_by_several_processes_is_lost(tmp_path: Path) -> None:
    commands = [[*COUNTER, str(tmp_path), name, str(TIMES)] for name in ("a", "b", "c")]
    running = [subprocess.Popen(command, cwd=ROOT) for command in commands]
    assert [process.wait() for process in running] == [0, 0, 0]

    async def read() -> TypedRecord[SharedCount] | None:
        async with await SqliteStore.open(tmp_path) as store:
            assert (await store.verify()).findings == ()
            return await TypedRecords(store.records, "count", SharedCount, SCOPE).get("shared")

    found = asyncio.run(read())
    assert found
    assert (found.value, found.version) == (SharedCount(3 * TIMES, {"a": TIMES, "b": TIMES, "c": TIMES}), 3 * TIMES)
