"""A supervisor for the tests to kill: runs a program that never ends, and prints when it has started."""

import asyncio
import sys
from pathlib import Path

from timeloom.sandbox.local import LocalSandbox, LocalSettings
from timeloom.testing.sandbox_contract.ending import sleeper_code
from timeloom.testing.sandbox_contract.fixtures import TableBroker, program


async def main(folder: Path, mark: str) -> None:
    sandbox = LocalSandbox(LocalSettings(folder=folder, warm=1, preload=("json",)))
    await sandbox.warm()

    def hear(_stream: str, text: str) -> None:
        print(text, end="", flush=True)

    async with sandbox.run(program(sleeper_code(mark) + "time.sleep(600)\n"), TableBroker(), hear):
        pass


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2][::-1]))
