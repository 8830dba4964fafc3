"""Runs each program in a separate container of an engine that implements the Docker API."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from timeloom.platform.tasks import run_to_completion
from timeloom.ports.ids import Ids, RandomIds
from timeloom.ports.sandbox import Broker, ExecutionLimits, OutputSink, Program, ProgramResult, SandboxUnavailableError
from timeloom.sandbox.docker.cleanup import remove_dead_containers, supervisor_labels
from timeloom.sandbox.docker.container_spec import ContainerPlan, can_serve
from timeloom.sandbox.docker.engine import NOT_FOUND, ContainerEngine, EngineError, EngineInfo
from timeloom.sandbox.docker.execution import execute_program
from timeloom.sandbox.docker.image import PROTOCOL_LABEL
from timeloom.sandbox.docker.profile import DockerProfile, read_limits
from timeloom.sandbox.docker.users import choose_users, write_account_files
from timeloom.sandbox.docker.worker import DockerWorker, DockerWorkerConfig, start_worker
from timeloom.sandbox.folders.run_folder import RunFolders
from timeloom.sandbox.protocol import VERSION
from timeloom.sandbox.shutdown import ActiveRun, CancelOnClose
from timeloom.sandbox.warm_pool import WarmPool

_REMAPPED_USERS: Final = ("name=rootless", "name=userns")
_BUILD: Final = "build it with `python -P -m timeloom.sandbox.docker`"


class DockerSandbox:
    """Runs programs in containers; raises `ProfileError` for a profile with options that are not allowed."""

    def __init__(self, profile: DockerProfile | None = None, ids: Ids | None = None) -> None:
        self._profile = profile or DockerProfile()
        self._profile_limits = read_limits(self._profile)
        self._engine = ContainerEngine(self._profile.socket_path())
        self._ids = ids or RandomIds()
        self._open_lock = asyncio.Lock()
        self._config: DockerWorkerConfig | None = None
        self._pool: WarmPool[DockerWorker] | None = None
        self._work = CancelOnClose()
        self._active_runs: list[ActiveRun] = []

    @property
    def name(self) -> str:
        return "docker"

    async def check(self) -> None:
        """Raise `SandboxUnavailableError` if programs cannot be isolated; starts one container to find out."""
        await self._ensure_open()

    async def warm(self) -> None:
        """Wait until all containers of the warm pool are ready."""
        await self._ensure_open()
        assert self._pool is not None
        await self._pool.wait_full()

    @asynccontextmanager
    async def run(self, program: Program, broker: Broker, output: OutputSink) -> AsyncGenerator[ProgramResult]:
        """Run the program to its end on enter; its files exist until exit."""
        config = await self._ensure_open()
        active = ActiveRun()
        self._active_runs.append(active)
        try:
            yield await self._work.run(self._execute(config, active, program, broker, output))
        finally:
            try:
                await run_to_completion(active.close())
            finally:
                # Not before: `close` waits for the runs in this list.
                self._active_runs.remove(active)

    async def close(self) -> None:
        """Kill all programs and containers and remove their files; pending runs raise `SandboxUnavailableError`."""
        await self._work.close()
        async with self._open_lock:
            config, self._config = self._config, None
            pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()
        for active in list(self._active_runs):
            await active.close()
        if config is not None:
            await asyncio.to_thread(config.folders.close)

    async def _execute(
        self, config: DockerWorkerConfig, active: ActiveRun, program: Program, broker: Broker, output: OutputSink
    ) -> ProgramResult:
        worker = active.worker = await self._acquire_worker(config, program.limits)
        return await execute_program(worker, program, broker, output, self._profile.grace_s)

    def _build_plan(self, config: DockerWorkerConfig, limits: ExecutionLimits) -> ContainerPlan:
        return ContainerPlan(
            self._profile, self._profile_limits, limits, config.users, config.accounts, is_podman=config.is_podman
        )

    async def _acquire_worker(self, config: DockerWorkerConfig, limits: ExecutionLimits) -> DockerWorker:
        """Return a warm worker if it has the limits of this program, otherwise start a new one."""
        warm = None
        if self._pool is not None and can_serve(limits, self._profile.warm_limits):
            warm = await self._pool.acquire()
        return warm or await start_worker(config, self._build_plan(config, limits), preload=False)

    async def _ensure_open(self) -> DockerWorkerConfig:
        async with self._open_lock:
            self._work.check_open()
            if self._config is None:
                self._config = await self._prepare_workers()
                self._pool = WarmPool(self._profile.warm, partial(self._start_warm_worker, self._config))
                self._pool.start_refill()
            return self._config

    async def _start_warm_worker(self, config: DockerWorkerConfig) -> DockerWorker:
        return await start_worker(config, self._build_plan(config, self._profile.warm_limits), preload=True)

    async def _prepare_workers(self) -> DockerWorkerConfig:
        """Return the configuration for workers, after one container was started as a test."""
        try:
            _check_engine(await self._engine.info())
            await _check_image(self._engine, self._profile.image)
            root = self._profile.root().absolute()
            await remove_dead_containers(self._engine, root)
            is_podman = await self._engine.is_podman()
        except EngineError as error:
            raise SandboxUnavailableError(f"the container engine does not answer as it should: {error}") from error
        opening = asyncio.ensure_future(asyncio.to_thread(RunFolders.open, root, self._ids))
        try:
            folders = await asyncio.shield(opening)
            users = choose_users()
            config = DockerWorkerConfig(
                engine=self._engine,
                folders=folders,
                ids=self._ids,
                labels=supervisor_labels(root, folders.path),
                users=users,
                accounts=write_account_files(folders.path, users),
                is_podman=is_podman,
            )
            worker = await start_worker(config, self._build_plan(config, self._profile.warm_limits), preload=False)
            await run_to_completion(worker.close())
        except BaseException:
            # Also if this task was cancelled while the folder was being created.
            (await run_to_completion(opening)).close()
            raise
        return config


def _check_engine(info: EngineInfo) -> None:
    if info.os_type != "linux":
        raise SandboxUnavailableError(f"programs need containers of Linux, the engine has those of {info.os_type}")
    if not (info.memory_limit and info.pids_limit):
        raise SandboxUnavailableError("the container engine cannot limit memory or processes; use one that can")
    if any(option.startswith(_REMAPPED_USERS) for option in info.security_options or ()):
        raise SandboxUnavailableError(
            "the container engine gives containers other users than this machine has (rootless, or userns-remap), so"
            " they could not share folders; use one that does not, or the local sandbox, which needs no root"
        )


async def _check_image(engine: ContainerEngine, image: str) -> None:
    try:
        labels = await engine.image_labels(image)
    except EngineError as error:
        if error.status != NOT_FOUND:
            raise
        raise SandboxUnavailableError(f"the container engine has no image {image!r}; {_BUILD}") from error
    if labels.get(PROTOCOL_LABEL) != str(VERSION):
        raise SandboxUnavailableError(f"the image {image!r} was not made for this version of timeloom; {_BUILD}")
