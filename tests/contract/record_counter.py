"""A program for the tests: increases one record many times, in competition with other processes."""

import asyncio
import sys
from pathlib import Path

import msgspec

from timeloom.ports.records import RecordScope
from timeloom.ports.typed_records import TypedRecords
from timeloom.stores.sqlite import SqliteStore

SCOPE = RecordScope("t", "p", "ann")


class SharedCount(msgspec.Struct, frozen=True):
    """A number, and how often each process has increased it."""

    n: int = 0
    by: dict[str, int] = {}


async def count(folder: Path, process: str, times: int) -> None:
    """Increase the record that many times."""

    def increase(before: SharedCount | None) -> SharedCount:
        now = before or SharedCount()
        return SharedCount(now.n + 1, {**now.by, process: now.by.get(process, 0) + 1})

    async with await SqliteStore.open(folder, lock_wait_s=60) as store:
        counts = TypedRecords(store.records, "count", SharedCount, SCOPE)
        for _ in range(times):
            await counts.update("shared", increase)


if __name__ == "__main__":
    asyncio.run(count(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
