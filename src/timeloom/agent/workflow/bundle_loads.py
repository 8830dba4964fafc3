"""Runs `on_bundle_load` once per process and bundle, with a lock against other processes of the data folder."""

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from timeloom.agent.workflow.faults import CodeFault
from timeloom.agent.workflow.supervise import BundleCode, Faulty, run_hook
from timeloom.bundles.missing_parts import MissingParts

LOCK_NAME: Final = ".load.lock"
POLL_S: Final = 0.05
"""Seconds between two attempts to take the lock of another process."""


class BundleLoads:
    """The bundles that this process has loaded, by the class of their workflow: a changed bundle is loaded again."""

    def __init__(self) -> None:
        self.missing = MissingParts()
        """The parts that bundles of this process name and this version does not have yet, for `/health`."""
        self._faults: dict[type, CodeFault | None] = {}
        self._lock = asyncio.Lock()

    async def ensure(
        self,
        workflow: type,
        code: BundleCode,
        folder: Path,
        load: Callable[[], Coroutine[object, object, object]] | None,
    ) -> CodeFault | None:
        """Load the bundle if this process has not done so; return the fault of its load, which is not repeated."""
        if workflow not in self._faults:
            async with self._lock:
                if workflow not in self._faults:
                    self._faults[workflow] = await _load(code, folder, load) if load else None
        return self._faults[workflow]


async def _load(
    code: BundleCode, folder: Path, load: Callable[[], Coroutine[object, object, object]]
) -> CodeFault | None:
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)

    async def load_locked() -> None:
        async with _locked(folder / LOCK_NAME):
            await load()

    outcome = await run_hook(code, load_locked())
    return outcome.fault if isinstance(outcome, Faulty) else None


@asynccontextmanager
async def _locked(file: Path) -> AsyncGenerator[None]:
    """Hold the lock of the file; processes that load the same bundle wait for each other."""
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(POLL_S)
        yield
    finally:
        os.close(descriptor)
