"""The container sandbox: each program in a container of its own, by any engine that speaks Docker's protocol."""

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
    """Runs programs in containers; raises `ProfileError` for a profile that asks for what none may have."""

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
        running = Running()
        self._running.append(running)
        try:
            yield await self._open.do(self._executed(place, running, program, broker, output))
        finally:
            try:
                await uncancelled(running.close())
            finally:
                # Not before: whoever closes the sandbox waits for it.
                self._running.remove(running)

    async def close(self) -> None:
        """Ends what runs or waits, and removes what is left of it; who waits for a program is told that it was so."""
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
        """One that waits, if it is under the limits that this program is to be under; else a new one."""
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
        """All that cells need, after one was made to see that it can be."""
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
            # Also where whoever waited was cancelled before there was a folder.
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
