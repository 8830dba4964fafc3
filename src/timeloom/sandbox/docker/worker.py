"""Starts and controls one container whose interpreter waits for its program."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from timeloom.platform.tasks import uncancelled
from timeloom.ports.ids import Ids
from timeloom.ports.sandbox import Limits, SandboxUnavailableError
from timeloom.sandbox.broker_socket import Door
from timeloom.sandbox.captured_output import Printed, StreamName
from timeloom.sandbox.docker.cgroup import ContainerGroup, group_of
from timeloom.sandbox.docker.container_spec import DOOR, IN_MEMORY, Container, Plan, describe
from timeloom.sandbox.docker.engine import Attached, Engine, EngineError
from timeloom.sandbox.docker.identity import check_identity
from timeloom.sandbox.folders.run_folder import Owner, RunFolder, RunFolders
from timeloom.sandbox.processes.process_tree import Tree

_STREAMS: Final[tuple[StreamName, ...]] = ("stdout", "stderr")
_NOT_STARTED: Final = 125
_READ_S: Final = 0.5
_GONE_S: Final = 20.0
_WORDS_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Place:
    """Everything that the containers of one sandbox share."""

    engine: Engine
    folders: RunFolders
    ids: Ids
    labels: Mapping[str, str]
    is_podman: bool


@dataclass(slots=True)
class ContainerCell:
    """A container that waits for one program, runs it, and is then removed."""

    engine: Engine
    limits: Limits
    owner: Owner
    run: RunFolder
    door: Door
    container: str = ""
    first: int = 0
    """Host pid of the first process of the container: all other processes end with it."""

    group: ContainerGroup | None = None
    streams: dict[StreamName, int] = field(default_factory=dict[StreamName, int])
    in_memory: tuple[int, ...] = ()
    ended: "asyncio.Task[int] | None" = None
    _pumping: "asyncio.Task[None] | None" = None
    _opened: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    _code: int = _NOT_STARTED
    _closing: "asyncio.Future[None] | None" = None

    def tree(self) -> Tree:
        """Return its process tree."""
        return Tree(self.first)

    def is_waiting(self) -> bool:
        """Return whether the container still runs; an engine restart or another client may have ended it."""
        return self.ended is not None and not self.ended.done()

    def print_to(self, printed: Printed) -> None:
        """Capture its output from now on; discard what libraries printed while they were loaded."""
        for name in _STREAMS:
            stream = self.streams.pop(name)
            os.set_blocking(stream, False)
            with contextlib.suppress(BlockingIOError):
                while os.read(stream, _WORDS_BYTES):
                    pass
            printed.read(name, stream)

    async def exited(self) -> None:
        """Wait until the program has ended."""
        assert self.ended is not None
        self._code = await asyncio.shield(self.ended)

    def exit_code(self) -> int:
        """Return the exit code of the ended program, as shells count it."""
        return self._code

    def ask_to_end(self) -> None:
        """Send SIGTERM to all processes of the program."""
        for pid in self.tree().pids()[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    async def kill(self) -> None:
        """Send SIGKILL to all processes and return when all of them are gone."""
        if self.ended is None:
            return
        if not self.ended.done():
            killing = asyncio.create_task(self.engine.kill(self.container, "SIGKILL"))
            await asyncio.wait((killing,), timeout=_READ_S)
            if not killing.done():
                # The engine waits for its output to be read, but reading stops once the output limit is exceeded.
                await self._opened.aclose()
            await killing
        async with asyncio.timeout(_GONE_S):
            await self.exited()
        if self.group is not None and await self.engine.was_out_of_memory(self.container):
            self.group.note_out_of_memory()

    async def close(self) -> None:
        """Remove the container and its host resources; a second caller waits for the first."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        # First, because the engine waits for unread output.
        await self._opened.aclose()
        # Removing a container kills it first.
        if self.container:
            await self.engine.remove(self.container)
        for task in (self.ended, self._pumping):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self.door.close()
        for descriptor in (*self.streams.values(), *self.in_memory):
            os.close(descriptor)
        self.streams.clear()
        self.in_memory = ()
        await asyncio.to_thread(self.run.remove)

    async def start(self, plan: Plan, labels: Mapping[str, str], token: str, *, preload: bool) -> None:
        """Create and start the container, and wait until its interpreter is ready."""
        described = describe(plan, self.run, labels, preload=preload)
        # Uncancelled, because without its id the container could not be removed.
        await uncancelled(self._create(described))
        attached = await self._opened.enter_async_context(self.engine.attach(self.container))
        await self._pump(attached)
        await self.engine.start(self.container)
        self.ended = asyncio.create_task(self.engine.wait(self.container))
        self.first = (await self.engine.state(self.container)).pid
        self.group = group_of(self.first)
        await attached.say(token.encode() + b"\n")
        await self._ready()
        check_identity(self.tree().pids(), self.owner)
        with contextlib.suppress(OSError):
            self.in_memory = tuple(
                os.open(f"/proc/{self.first}/root{folder}", os.O_PATH | os.O_CLOEXEC) for folder in IN_MEMORY
            )

    async def _create(self, described: Container) -> None:
        self.container = await self.engine.create(described)

    async def _pump(self, attached: Attached) -> None:
        """Copy the container's output to two streams, which are read like the pipes of a local program."""
        writers: dict[StreamName, asyncio.StreamWriter] = {}
        for name in _STREAMS:
            reading, writing = socket.socketpair()
            # Before anything that can be cancelled.
            self.streams[name] = reading.detach()
            _, writers[name] = await asyncio.open_connection(sock=writing)
            self._opened.callback(writers[name].transport.abort)
        self._pumping = asyncio.create_task(_pumped(attached, writers))

    async def _ready(self) -> None:
        """Wait until the interpreter is ready; raise with the reason if it ends first."""
        assert self.ended is not None
        ready = asyncio.ensure_future(self.door.ready())
        try:
            await asyncio.wait((ready, self.ended), return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                raise SandboxUnavailableError(f"a container ended before its interpreter waited: {await self._words()}")
            await ready
        finally:
            ready.cancel()

    async def _words(self) -> str:
        """Return the standard error of a container that has ended."""
        assert self._pumping is not None
        await asyncio.wait((self._pumping,), timeout=_READ_S)
        os.set_blocking(self.streams["stderr"], False)
        try:
            return os.read(self.streams["stderr"], _WORDS_BYTES).decode("utf-8", "replace").strip()
        except BlockingIOError:
            return "it said nothing"


async def start_cell(place: Place, plan: Plan, *, preload: bool) -> ContainerCell:
    """Start a container and return its worker when ready; raise `SandboxUnavailableError` on failure."""
    run = place.folders.make(plan.owner)
    token = f"{place.ids.bits():016x}{place.ids.bits():016x}"
    door = await _door(run, token, plan.peers())
    cell = ContainerCell(place.engine, plan.limits, plan.owner, run, door)
    try:
        async with asyncio.timeout(plan.profile.start_s):
            await cell.start(plan, place.labels, token, preload=preload)
    except TimeoutError:
        await uncancelled(cell.close())
        raise SandboxUnavailableError(f"a container did not start within {plan.profile.start_s:g} s") from None
    except EngineError as error:
        await uncancelled(cell.close())
        said = str(error).replace(str(run.path), "the run folder")
        raise SandboxUnavailableError(f"the container engine refused a container: {said}") from error
    except BaseException:
        await uncancelled(cell.close())
        raise
    return cell


async def _door(run: RunFolder, token: str, uids: frozenset[int]) -> Door:
    """Open the broker socket in the run folder; on cancellation, remove both."""
    opening = asyncio.ensure_future(Door.open(run.sock / DOOR, token=token, uids=uids))
    try:
        return await asyncio.shield(opening)
    except BaseException:
        if not opening.done() or opening.exception() is None:
            await (await opening).close()
        run.remove()
        raise


async def _pumped(attached: Attached, writers: Mapping[StreamName, asyncio.StreamWriter]) -> None:
    try:
        async for name, piece in attached.hear():
            writers[name].write(piece)
            await writers[name].drain()
    except OSError:
        # The reading end is closed.
        pass
    finally:
        for writer in writers.values():
            writer.close()
