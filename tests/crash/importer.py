"""A program for the tests to kill: imports an archive and prints each conversation that is durable."""

import asyncio
import sys
from io import BytesIO
from pathlib import Path

from timeloom.runtime.archive.import_conversations import ImportOptions, import_conversation
from timeloom.runtime.archive.read_archive import ArchiveReader
from timeloom.stores.sqlite import SqliteStore


async def main(archive: bytes, data: Path) -> None:
    """Import everything that is not there yet."""
    options = ImportOptions(skip_existing=True)
    async with await SqliteStore.open(data) as store:
        print("open", flush=True)
        for found in ArchiveReader(BytesIO(archive)).iter_conversations():
            await import_conversation(store, data, data / "workspaces", found, options)
            print(found.imported.id, flush=True)


asyncio.run(main(Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])))
