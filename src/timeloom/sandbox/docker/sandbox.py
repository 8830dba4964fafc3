"""Runs each program in a separate container of an engine that implements the Docker API."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from timeloom.platform.tasks import uncancelled
from timeloom.ports.ids import Ids, RandomIds
from timeloom.ports.sandbox import Broker, Limits, Output, Program, Ran, SandboxUnavailableError
from timeloom.sandbox.docker.cleanup import labels_of, sweep
from timeloom.sandbox.docker.container_spec import Plan, fits
from timeloom.sandbox.docker.engine import NOT_FOUND, Engine, EngineError, Info
from timeloom.sandbox.docker.execution import execute
from timeloom.sandbox.docker.image import PROTOCOL_LABEL
from timeloom.sandbox.docker.profile import SANDBOX_ID, DockerProfile, read_caps
from timeloom.sandbox.docker.worker import ContainerCell, Place, start_cell
from timeloom.sandbox.folders.run_folder import Owner, RunFolders
from timeloom.sandbox.protocol import VERSION
from timeloom.sandbox.shutdown import Running, UntilClosed
from timeloom.sandbox.warm_pool import Pool

_MAPPED: Final = ("name=rootless", "name=userns")
_BUILD: Final = "build it with `python -m timeloom.sandbox.docker`"


class DockerSandbox:
    """Runs programs in containers; raises `ProfileError` for a profile with options that are not allowed."""

    def __init__(self, profile: DockerProfile | None = None, ids: Ids | None = None) -> None:
        self._profile = profile or DockerProfile()
        self._caps = read_caps(self._profile)
        self._engine = Engine(self._profile.socket_path())
        self._ids = ids or RandomIds()
        self._opening = asyncio.Lock()
        self._place: Place | None = None
        self._pool: Pool[ContainerCell] | None = None
        self._open = UntilClosed()
        self._running: list[Running] = []

    @property
    def name(self) -> str:
        return "docker"

    async def check(self) -> None:
        """Raise `SandboxUnavailableError` if programs cannot be isolated; starts one container to find out."""
        await self._opened()

    async def warm(self) -> None:
        """Wait until all containers of the warm pool are ready."""
        await self._opened()
        assert self._pool is not None
        await self._pool.full()

    @asynccontextmanager
    async def run(self, program: Program, broker: Broker, output: Output) -> AsyncGenerator[Ran]:
        """Run the program to its end on enter; its files exist until exit."""
        place = await self._opened()
        running = Running()
        self._running.append(running)
        try:
            yield await self._open.do(self._executed(place, running, program, broker, output))
        finally:
            try:
                await uncancelled(running.close())
            finally:
                # Not before: `close` waits for the runs in this list.
                self._running.remove(running)

    async def close(self) -> None:
        """Kill all programs and containers and remove their files; pending runs raise `SandboxUnavailableError`."""
        await self._open.close()
        async with self._opening:
            place, self._place = self._place, None
            pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()
        for running in list(self._running):
            await running.close()
        if place is not None:
            await asyncio.to_thread(place.folders.close)

    async def _executed(self, place: Place, running: Running, program: Program, broker: Broker, output: Output) -> Ran:
        cell = running.cell = await self._cell(place, program.limits)
        return await execute(cell, program, broker, output, self._profile.grace_s)

    def _plan(self, place: Place, limits: Limits) -> Plan:
        owner = Owner(SANDBOX_ID, SANDBOX_ID) if os.geteuid() == 0 else Owner(os.geteuid(), os.getegid())
        return Plan(self._profile, self._caps, limits, owner, podman=place.is_podman)

    async def _cell(self, place: Place, limits: Limits) -> ContainerCell:
        """Return a warm worker if it has the limits of this program, otherwise start a new one."""
        waiting = None
        if self._pool is not None and fits(limits, self._profile.warm_limits):
            waiting = await self._pool.take()
        return waiting or await start_cell(place, self._plan(place, limits), preload=False)

    async def _opened(self) -> Place:
        async with self._opening:
            self._open.check()
            if self._place is None:
                self._place = await self._make_place()
                self._pool = Pool(self._profile.warm, partial(self._waiting, self._place))
                self._pool.fill()
            return self._place

    async def _waiting(self, place: Place) -> ContainerCell:
        return await start_cell(place, self._plan(place, self._profile.warm_limits), preload=True)

    async def _make_place(self) -> Place:
        """Return the configuration for workers, after one container was started as a test."""
        try:
            _check_engine(await self._engine.info())
            await _check_image(self._engine, self._profile.image)
            root = self._profile.root().absolute()
            await sweep(self._engine, root)
            is_podman = await self._engine.is_podman()
        except EngineError as error:
            raise SandboxUnavailableError(f"the container engine does not answer as it should: {error}") from error
        opening = asyncio.ensure_future(asyncio.to_thread(RunFolders.open, root, self._ids))
        try:
            folders = await asyncio.shield(opening)
            place = Place(self._engine, folders, self._ids, labels_of(root, folders.path), is_podman)
            cell = await start_cell(place, self._plan(place, self._profile.warm_limits), preload=False)
            await uncancelled(cell.close())
        except BaseException:
            # Also if this task was cancelled while the folder was being created.
            (await uncancelled(opening)).close()
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
