"""Runs each program in a separate bubblewrap worker, taken from the warm pool or started on demand."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from timeloom.platform.tasks import run_to_completion
from timeloom.ports.ids import Ids, RandomIds
from timeloom.ports.sandbox import Broker, ExecutionLimits, OutputSink, Program, ProgramResult
from timeloom.sandbox.local.errors import translate_os_errors
from timeloom.sandbox.local.execution import execute_program
from timeloom.sandbox.local.fonts import LIBRARY, make_font_list
from timeloom.sandbox.local.preflight import prepare_workers
from timeloom.sandbox.local.settings import LocalSettings
from timeloom.sandbox.local.worker import LocalWorker, LocalWorkerConfig, start_worker
from timeloom.sandbox.shutdown import ActiveRun, CancelOnClose
from timeloom.sandbox.warm_pool import WarmPool


@dataclass(frozen=True, slots=True)
class _OpenState:
    config: LocalWorkerConfig
    pool: WarmPool[LocalWorker]


class LocalSandbox:
    """Runs programs on this machine in separate namespaces; refuses if the machine cannot create them."""

    def __init__(self, settings: LocalSettings | None = None, ids: Ids | None = None) -> None:
        self._settings = settings or LocalSettings()
        self._ids = ids or RandomIds()
        self._open_lock = asyncio.Lock()
        self._state: _OpenState | None = None
        self._work = CancelOnClose()
        self._active_runs: list[ActiveRun] = []

    @property
    def name(self) -> str:
        return "local"

    async def check(self) -> None:
        """Raise `SandboxUnavailableError` if programs cannot be isolated; starts one worker to find out."""
        await self._ensure_open()

    async def warm(self) -> None:
        """Wait until all interpreters of the warm pool are ready."""
        await (await self._ensure_open()).pool.wait_full()

    @asynccontextmanager
    async def run(self, program: Program, broker: Broker, output: OutputSink) -> AsyncGenerator[ProgramResult]:
        """Run the program to its end on enter; its files exist until exit."""
        opened = await self._ensure_open()
        active = ActiveRun()
        self._active_runs.append(active)
        try:
            yield await self._work.run(self._execute(opened, active, program, broker, output))
        finally:
            try:
                await run_to_completion(active.close())
            finally:
                # Not before: `close` waits for the runs in this list.
                self._active_runs.remove(active)
            await run_to_completion(opened.config.resources.prepare())

    async def close(self) -> None:
        """Kill all programs and workers and remove their files; pending runs raise `SandboxUnavailableError`."""
        await self._work.close()
        async with self._open_lock:
            opened, self._state = self._state, None
        if opened is None:
            return
        await opened.pool.close()
        for active in list(self._active_runs):
            await active.close()
        opened.config.spawner.close()
        await opened.config.resources.close()

    async def _execute(
        self, opened: _OpenState, active: ActiveRun, program: Program, broker: Broker, output: OutputSink
    ) -> ProgramResult:
        with translate_os_errors():
            worker = await opened.pool.acquire() or await start_worker(opened.config, program.limits, ())
            active.worker = worker
            return await execute_program(worker, program, broker, output, self._settings.grace_s)

    async def _ensure_open(self) -> _OpenState:
        async with self._open_lock:
            self._work.check_open()
            if self._state is None:
                with translate_os_errors():
                    config = await prepare_workers(self._settings, self._ids)
                self._state = _OpenState(
                    config, WarmPool(self._settings.warm, partial(_start_warm_worker, config, self._settings))
                )
                self._state.pool.start_refill()
            return self._state


async def _start_warm_worker(config: LocalWorkerConfig, settings: LocalSettings) -> LocalWorker:
    if LIBRARY in settings.preload and not any(config.guest.fonts.iterdir()):
        await make_font_list(config)
    return await start_worker(config, ExecutionLimits(), settings.preload)
