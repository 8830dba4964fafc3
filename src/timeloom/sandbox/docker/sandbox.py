"""The container sandbox: each program in a container of its own, by any engine that speaks Docker's protocol."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from timeloom.ports.ids import Ids, RandomIds
from timeloom.ports.sandbox import Broker, Limits, Output, Program, Ran, SandboxUnavailableError
from timeloom.sandbox.docker.cell import ContainerCell, Place, start_cell
from timeloom.sandbox.docker.container import Plan, fits
from timeloom.sandbox.docker.engine import NOT_FOUND, Engine, EngineError, Info
from timeloom.sandbox.docker.execution import execute
from timeloom.sandbox.docker.image import PROTOCOL_LABEL
from timeloom.sandbox.docker.pool import Pool
from timeloom.sandbox.docker.profile import SANDBOX_ID, DockerProfile, read_caps
from timeloom.sandbox.docker.sweeping import labels_of, sweep
from timeloom.sandbox.protocol import VERSION
from timeloom.sandbox.run_folder import Owner, RunFolders
from timeloom.sandbox.uncancelled import uncancelled

_MAPPED: Final = ("name=rootless", "name=userns")
_BUILD: Final = "build it with `python -m timeloom.sandbox.docker`"


class DockerSandbox:
    """Runs programs in containers; raises `ProfileError` for a profile that asks for what none may have."""

    def __init__(self, profile: DockerProfile | None = None, ids: Ids | None = None) -> None:
        self._profile = profile or DockerProfile()
        self._caps = read_caps(self._profile)
        self._engine = Engine(self._profile.socket_path())
        self._ids = ids or RandomIds()
        self._opening = asyncio.Lock()
        self._place: Place | None = None
        self._pool: Pool | None = None
        self._running: dict[Path, ContainerCell] = {}

    @property
    def name(self) -> str:
        return "docker"

    async def check(self) -> None:
        """Raises `SandboxUnavailableError` where programs cannot be isolated; one container is started to see."""
        await self._opened()

    async def warm(self) -> None:
        """Waits until all containers that are to wait for programs do."""
        await self._opened()
        assert self._pool is not None
        await self._pool.full()

    @asynccontextmanager
    async def run(self, program: Program, broker: Broker, output: Output) -> AsyncGenerator[Ran]:
        """Runs the program to its end when it is entered; what it left is there until it is exited."""
        place = await self._opened()
        cell = await self._cell(place, program.limits)
        self._running[cell.run.path] = cell
        try:
            yield await execute(cell, program, broker, output, self._profile.grace_s)
        finally:
            del self._running[cell.run.path]
            await uncancelled(cell.close())

    async def close(self) -> None:
        """Ends what runs or waits, and removes what is left of it."""
        async with self._opening:
            place, self._place = self._place, None
            pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()
        for cell in list(self._running.values()):
            await cell.kill()
        if place is not None:
            await asyncio.to_thread(place.folders.close)

    def _plan(self, place: Place, limits: Limits) -> Plan:
        owner = Owner(SANDBOX_ID, SANDBOX_ID) if os.geteuid() == 0 else Owner(os.geteuid(), os.getegid())
        return Plan(self._profile, self._caps, limits, owner, podman=place.is_podman)

    async def _cell(self, place: Place, limits: Limits) -> ContainerCell:
        """One that waits, if it is under the limits that this program is to be under; else a new one."""
        waiting = None
        if self._pool is not None and fits(limits, self._profile.warm_limits):
            waiting = await self._pool.take()
        return waiting or await start_cell(place, self._plan(place, limits), preload=False)

    async def _opened(self) -> Place:
        async with self._opening:
            if self._place is None:
                self._place = await self._open()
                self._pool = Pool(self._profile.warm, partial(self._waiting, self._place))
                self._pool.fill()
            return self._place

    async def _waiting(self, place: Place) -> ContainerCell:
        return await start_cell(place, self._plan(place, self._profile.warm_limits), preload=True)

    async def _open(self) -> Place:
        """All that cells need, after one was made to see that it can be."""
        try:
            _check_engine(await self._engine.info())
            await _check_image(self._engine, self._profile.image)
            root = self._profile.root().absolute()
            await sweep(self._engine, root)
            is_podman = await self._engine.is_podman()
        except EngineError as error:
            raise SandboxUnavailableError(f"the container engine does not answer as it should: {error}") from error
        folders = await asyncio.to_thread(RunFolders.open, root, self._ids)
        place = Place(self._engine, folders, self._ids, labels_of(root, folders.path), is_podman)
        try:
            cell = await start_cell(place, self._plan(place, self._profile.warm_limits), preload=False)
            await uncancelled(cell.close())
        except BaseException:
            folders.close()
            raise
        return place


def _check_engine(info: Info) -> None:
    if info.os_type != "linux":
        raise SandboxUnavailableError(f"programs need containers of Linux, the engine has those of {info.os_type}")
    if not (info.memory_limit and info.pids_limit):
        raise SandboxUnavailableError("the container engine cannot limit memory or processes; use one that can")
    if any(option.startswith(_MAPPED) for option in info.security_options or ()):
        raise SandboxUnavailableError(
            "the container engine gives containers other users than this machine has (rootless, or userns-remap), so"
            " they could not share folders; use one that does not, or the local sandbox, which needs no root"
        )


async def _check_image(engine: Engine, image: str) -> None:
    try:
        labels = await engine.image_labels(image)
    except EngineError as error:
        if error.status != NOT_FOUND:
            raise
        raise SandboxUnavailableError(f"the container engine has no image {image!r}; {_BUILD}") from error
    if labels.get(PROTOCOL_LABEL) != str(VERSION):
        raise SandboxUnavailableError(f"the image {image!r} was not made for this version of timeloom; {_BUILD}")
