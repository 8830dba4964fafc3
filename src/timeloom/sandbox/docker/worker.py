"""Starts and controls one container whose interpreter waits for its program."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from timeloom.platform.tasks import acquire_or_release, cancel_to_completion, finishes_before, run_to_completion
from timeloom.ports.ids import Ids
from timeloom.ports.sandbox import ExecutionLimits, SandboxUnavailableError
from timeloom.sandbox.broker_socket import BrokerSocket
from timeloom.sandbox.captured_output import CapturedOutput, StreamName
from timeloom.sandbox.docker.cgroup import ContainerCgroup, find_container_cgroup
from timeloom.sandbox.docker.container_spec import (
    IN_MEMORY,
    SOCKET_NAME,
    ContainerPlan,
    ContainerSpec,
    describe_container,
)
from timeloom.sandbox.docker.engine import AttachedStreams, ContainerEngine, EngineError
from timeloom.sandbox.docker.identity import check_identity
from timeloom.sandbox.docker.users import AccountFiles, ContainerUsers
from timeloom.sandbox.folders.run_folder import FolderOwner, RunFolder, RunFolders
from timeloom.sandbox.processes.process_tree import ProcessTree

_STREAMS: Final[tuple[StreamName, ...]] = ("stdout", "stderr")
_NOT_STARTED: Final = 125
_READ_S: Final = 0.5
_GONE_S: Final = 20.0
_WORDS_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class DockerWorkerConfig:
    """Everything that the containers of one sandbox share."""

    engine: ContainerEngine
    folders: RunFolders
    ids: Ids
    labels: Mapping[str, str]
    users: ContainerUsers
    accounts: AccountFiles
    is_podman: bool


@dataclass(slots=True)
class DockerWorker:
    """A container that waits for one program, runs it, and is then removed."""

    engine: ContainerEngine
    limits: ExecutionLimits
    owner: FolderOwner
    run: RunFolder
    broker_socket: BrokerSocket
    container: str = ""
    init_pid: int = 0
    """Host pid of the first process of the container: all other processes end with it."""

    cgroup: ContainerCgroup | None = None
    streams: dict[StreamName, int] = field(default_factory=dict[StreamName, int])
    in_memory: tuple[int, ...] = ()
    exit_task: "asyncio.Task[int] | None" = None
    _pump_task: "asyncio.Task[None] | None" = None
    _exit_stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    _exit_code: int = _NOT_STARTED
    _closing: "asyncio.Future[None] | None" = None

    def tree(self) -> ProcessTree:
        """Return its process tree."""
        return ProcessTree(self.init_pid)

    def is_waiting(self) -> bool:
        """Return whether the container still runs; an engine restart or another client may have ended it."""
        return self.exit_task is not None and not self.exit_task.done()

    def capture_output(self, captured: CapturedOutput) -> None:
        """Capture its output from now on; discard what libraries printed while they were loaded."""
        for name in _STREAMS:
            stream = self.streams.pop(name)
            os.set_blocking(stream, False)
            with contextlib.suppress(BlockingIOError):
                while os.read(stream, _WORDS_BYTES):
                    pass
            captured.start_reading(name, stream)

    async def wait_exit(self) -> None:
        """Wait until the program has ended."""
        assert self.exit_task is not None
        self._exit_code = await asyncio.shield(self.exit_task)

    def exit_code(self) -> int:
        """Return the exit code of the ended program, as shells count it."""
        return self._exit_code

    def terminate(self) -> None:
        """Send SIGTERM to all processes of the program."""
        for pid in self.tree().pids()[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    async def kill(self) -> None:
        """Send SIGKILL to all processes and return when all of them are gone."""
        if self.exit_task is None:
            return
        if not self.exit_task.done():
            killing = asyncio.create_task(self.engine.kill(self.container, "SIGKILL"))
            await asyncio.wait((killing,), timeout=_READ_S)
            if not killing.done():
                # The engine waits for its output to be read, but reading stops once the output limit is exceeded.
                await self._exit_stack.aclose()
            await killing
        async with asyncio.timeout(_GONE_S):
            await self.wait_exit()
        if self.cgroup is not None and await self.engine.was_oom_killed(self.container):
            self.cgroup.record_oom_kill()

    async def close(self) -> None:
        """Remove the container and its host resources; a second caller waits for the first."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        # First, because the engine waits for unread output.
        await self._exit_stack.aclose()
        # Removing a container kills it first.
        if self.container:
            await self.engine.remove(self.container)
        for task in (self.exit_task, self._pump_task):
            if task is not None:
                await cancel_to_completion(task)
        await self.broker_socket.close()
        for descriptor in (*self.streams.values(), *self.in_memory):
            os.close(descriptor)
        self.streams.clear()
        self.in_memory = ()
        await asyncio.to_thread(self.run.remove)

    async def start(self, plan: ContainerPlan, labels: Mapping[str, str], token: str, *, preload: bool) -> None:
        """Create and start the container, and wait until its interpreter is ready."""
        spec = describe_container(plan, self.run, labels, preload=preload)
        # Uncancelled, because without its id the container could not be removed.
        await run_to_completion(self._create(spec))
        attached = await self._exit_stack.enter_async_context(self.engine.attach(self.container))
        await self._start_pump(attached)
        await self.engine.start(self.container)
        self.exit_task = asyncio.create_task(self.engine.wait(self.container))
        self.init_pid = (await self.engine.state(self.container)).pid
        self.cgroup = find_container_cgroup(self.init_pid)
        await attached.write_stdin(token.encode() + b"\n")
        await self._wait_ready()
        check_identity(self.tree().pids(), self.owner)
        with contextlib.suppress(OSError):
            self.in_memory = tuple(
                os.open(f"/proc/{self.init_pid}/root{folder}", os.O_PATH | os.O_CLOEXEC) for folder in IN_MEMORY
            )

    async def _create(self, spec: ContainerSpec) -> None:
        self.container = await self.engine.create(spec)

    async def _start_pump(self, attached: AttachedStreams) -> None:
        """Start the task that copies the container's output to `streams`, which are read like a program's pipes."""
        writers: dict[StreamName, asyncio.StreamWriter] = {}
        for name in _STREAMS:
            reading, writing = socket.socketpair()
            # Before anything that can be cancelled.
            self.streams[name] = reading.detach()
            _, writers[name] = await asyncio.open_connection(sock=writing)
            self._exit_stack.callback(writers[name].transport.abort)
        self._pump_task = asyncio.create_task(_copy_output(attached, writers))

    async def _wait_ready(self) -> None:
        """Wait until the interpreter is ready; raise with the reason if it ends first."""
        assert self.exit_task is not None
        if not await finishes_before(self.broker_socket.wait_ready(), self.exit_task):
            raise SandboxUnavailableError(
                f"a container ended before its interpreter waited: {await self._read_stderr()}"
            )

    async def _read_stderr(self) -> str:
        """Return the standard error of a container that has ended."""
        assert self._pump_task is not None
        await asyncio.wait((self._pump_task,), timeout=_READ_S)
        os.set_blocking(self.streams["stderr"], False)
        try:
            return os.read(self.streams["stderr"], _WORDS_BYTES).decode("utf-8", "replace").strip()
        except BlockingIOError:
            return "it said nothing"


async def start_worker(config: DockerWorkerConfig, plan: ContainerPlan, *, preload: bool) -> DockerWorker:
    """Start a container and return its worker when ready; raise `SandboxUnavailableError` on failure."""
    run = config.folders.create(plan.users.program)
    token = f"{config.ids.bits():016x}{config.ids.bits():016x}"
    broker_socket = await _open_broker_socket(run, token, plan.peer_uids())
    worker = DockerWorker(config.engine, plan.limits, plan.users.program, run, broker_socket)
    try:
        async with asyncio.timeout(plan.profile.start_s):
            await worker.start(plan, config.labels, token, preload=preload)
    except TimeoutError:
        await run_to_completion(worker.close())
        raise SandboxUnavailableError(f"a container did not start within {plan.profile.start_s:g} s") from None
    except EngineError as error:
        await run_to_completion(worker.close())
        message = str(error).replace(str(run.path), "the run folder")
        raise SandboxUnavailableError(f"the container engine refused a container: {message}") from error
    except BaseException:
        await run_to_completion(worker.close())
        raise
    return worker


async def _open_broker_socket(run: RunFolder, token: str, uids: frozenset[int]) -> BrokerSocket:
    """Open the broker socket in the run folder; on cancellation, remove both."""
    try:
        opening = BrokerSocket.open(run.sock / SOCKET_NAME, token=token, uids=uids)
        return await acquire_or_release(opening, BrokerSocket.close)
    except BaseException:
        run.remove()
        raise


async def _copy_output(attached: AttachedStreams, writers: Mapping[StreamName, asyncio.StreamWriter]) -> None:
    try:
        async for name, piece in attached.read_output():
            writers[name].write(piece)
            await writers[name].drain()
    except OSError:
        # The reading end is closed.
        pass
    finally:
        for writer in writers.values():
            writer.close()
