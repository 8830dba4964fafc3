"""Runs each program in a separate bubblewrap worker, taken from the warm pool or started on demand."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from timeloom.platform.tasks import uncancelled
from timeloom.ports.ids import Ids, RandomIds
from timeloom.ports.sandbox import Broker, Limits, Output, Program, Ran
from timeloom.sandbox.local.errors import in_words
from timeloom.sandbox.local.execution import execute
from timeloom.sandbox.local.fonts import LIBRARY, make_font_list
from timeloom.sandbox.local.preflight import open_place
from timeloom.sandbox.local.settings import LocalSettings
from timeloom.sandbox.local.worker import Cell, Place, start_cell
from timeloom.sandbox.shutdown import Running, UntilClosed
from timeloom.sandbox.warm_pool import Pool


@dataclass(frozen=True, slots=True)
class _Opened:
    place: Place
    pool: Pool[Cell]


class LocalSandbox:
    """Runs programs on this machine in separate namespaces; refuses if the machine cannot create them."""

    def __init__(self, settings: LocalSettings | None = None, ids: Ids | None = None) -> None:
        self._settings = settings or LocalSettings()
        self._ids = ids or RandomIds()
        self._opening = asyncio.Lock()
        self._state: _Opened | None = None
        self._open = UntilClosed()
        self._running: list[Running] = []

    @property
    def name(self) -> str:
        return "local"

    async def check(self) -> None:
        """Raise `SandboxUnavailableError` if programs cannot be isolated; starts one worker to find out."""
        await self._opened()

    async def warm(self) -> None:
        """Wait until all interpreters of the warm pool are ready."""
        await (await self._opened()).pool.full()

    @asynccontextmanager
    async def run(self, program: Program, broker: Broker, output: Output) -> AsyncGenerator[Ran]:
        """Run the program to its end on enter; its files exist until exit."""
        here = await self._opened()
        running = Running()
        self._running.append(running)
        try:
            yield await self._open.do(self._executed(here, running, program, broker, output))
        finally:
            try:
                await uncancelled(running.close())
            finally:
                # Not before: `close` waits for the runs in this list.
                self._running.remove(running)
            await uncancelled(here.place.berths.prepare())

    async def close(self) -> None:
        """Kill all programs and workers and remove their files; pending runs raise `SandboxUnavailableError`."""
        await self._open.close()
        async with self._opening:
            here, self._state = self._state, None
        if here is None:
            return
        await here.pool.close()
        for running in list(self._running):
            await running.close()
        here.place.spawner.close()
        await here.place.berths.close()

    async def _executed(self, here: _Opened, running: Running, program: Program, broker: Broker, output: Output) -> Ran:
        with in_words():
            cell = await here.pool.take() or await start_cell(here.place, program.limits, ())
            running.cell = cell
            return await execute(cell, program, broker, output, self._settings.grace_s)

    async def _opened(self) -> _Opened:
        async with self._opening:
            self._open.check()
            if self._state is None:
                with in_words():
                    place = await open_place(self._settings, self._ids)
                self._state = _Opened(place, Pool(self._settings.warm, partial(_warm_cell, place, self._settings)))
                self._state.pool.fill()
            return self._state


async def _warm_cell(place: Place, settings: LocalSettings) -> Cell:
    if LIBRARY in settings.preload and not any(place.host.fonts.iterdir()):
        await make_font_list(place)
    return await start_cell(place, Limits(), settings.preload)
