"""Starts and controls one isolated interpreter that waits for its program."""

import asyncio
import contextlib
import os
import platform
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from timeloom.platform.tasks import uncancelled
from timeloom.ports.sandbox import Limits, SandboxUnavailableError
from timeloom.sandbox.folders.run_folder import Owner
from timeloom.sandbox.local.bwrap_args import IN_MEMORY, Host, command, own_arguments, resource_limits
from timeloom.sandbox.local.errors import refusal
from timeloom.sandbox.local.host_resources import Berth, Berths
from timeloom.sandbox.local.identity import check_identity, check_isolated
from timeloom.sandbox.local.orphans import kill_young
from timeloom.sandbox.local.pipes import Pipes, read_until_closed, wait_readable
from timeloom.sandbox.local.spawner import Spawner, Spawning
from timeloom.sandbox.processes.process_tree import Tree
from timeloom.sandbox.seccomp import Machine, uncounted_filter

_INFO_BYTES: Final = 4096
_GONE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Place:
    """Everything that the workers of one sandbox share."""

    bubblewrap: Path
    host: Host
    arguments: tuple[str, ...]
    """The bubblewrap arguments that are the same for all workers."""

    filter: bytes
    owner: Owner
    spawner: Spawner
    berths: Berths
    start_s: float


@dataclass(slots=True)
class Cell:
    """An isolated interpreter that waits for one program, runs it, and is then closed."""

    place: Place
    berth: Berth
    limits: Limits
    monitor: "subprocess.Popen[bytes] | None" = None
    first: int = 0
    """Host pid of the first process of its pid namespace: all other processes end with it."""

    first_handle: int | None = None
    monitor_handle: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    in_memory: tuple[int, ...] = ()
    _closing: "asyncio.Future[None] | None" = None

    def is_waiting(self) -> bool:
        """Return whether its interpreter is still alive."""
        return self.monitor is not None and self.monitor.poll() is None

    def tree(self) -> Tree:
        """Return its process tree."""
        return Tree(self.first)

    async def limit_to(self, limits: Limits) -> None:
        """Replace the limits that it was started with; its program must not have started."""
        if limits != self.limits:
            await self.place.spawner.limit(self.tree().pids(), resource_limits(limits))
            if self.berth.group is not None:
                self.berth.group.limit(limits)
            self.limits = limits

    async def exited(self) -> None:
        """Wait until the program has ended."""
        assert self.monitor_handle is not None
        await wait_readable(self.monitor_handle)

    def exit_code(self) -> int:
        """Return the exit code of the ended program, as shells count it."""
        assert self.monitor is not None
        code = self.monitor.wait()
        return 128 - code if code < 0 else code

    def ask_to_end(self) -> None:
        """Send SIGTERM to all processes of the program."""
        for pid in self.tree().pids()[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    async def kill(self) -> None:
        """Send SIGKILL to all processes and return when all of them are gone."""
        if self.first_handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.first_handle, signal.SIGKILL)
        elif self.monitor is not None:
            kill_young(self.monitor)
        if self.monitor is not None and self.monitor_handle is not None:
            if self.monitor.poll() is None:
                self.monitor.kill()
            await wait_readable(self.monitor_handle)
            self.monitor.wait()
        if self.first_handle is not None:
            async with asyncio.timeout(_GONE_S):
                await wait_readable(self.first_handle)

    async def close(self) -> None:
        """Kill its processes and remove its host resources; a second caller waits for the first."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self.kill()
        for descriptor in (self.first_handle, self.monitor_handle, self.stdout, self.stderr, *self.in_memory):
            if descriptor is not None:
                os.close(descriptor)
        self.first_handle = self.monitor_handle = self.stdout = self.stderr = None
        self.in_memory = ()
        await self.berth.close()


async def start_cell(place: Place, limits: Limits, preload: Sequence[str]) -> Cell:
    """Start a worker and return it when its interpreter is ready; raise `SandboxUnavailableError` on failure."""
    cell = Cell(place, await place.berths.take(), limits)
    # Host resources are prepared in advance, with the default limits.
    if cell.berth.group is not None and limits != Limits():
        cell.berth.group.limit(limits)
    try:
        async with asyncio.timeout(place.start_s):
            await _start(cell, preload)
    except TimeoutError:
        await uncancelled(cell.close())
        raise SandboxUnavailableError(f"an isolated Python did not start within {place.start_s:g} s") from None
    except BaseException:
        await uncancelled(cell.close())
        raise
    return cell


async def _start(cell: Cell, preload: Sequence[str]) -> None:
    place, berth = cell.place, cell.berth
    with Pipes() as pipes:
        arguments = [*place.arguments, *own_arguments(place.host, berth.run, place.spawner.seen)]
        info, block = pipes.to_us(), pipes.to_them()
        rules = [pipes.filled(each) for each in _filters(cell)]
        for each in rules:
            arguments += ["--add-seccomp-fd", str(each)]
        arguments += ["--info-fd", str(info.theirs), "--block-fd", str(block.theirs)]
        given = pipes.filled(b"".join(each.encode() + b"\0" for each in arguments))
        stdin = pipes.filled(berth.token.encode() + b"\n")
        out, err = pipes.to_us(), pipes.to_us()
        whole = (str(place.bubblewrap), "--args", str(given), "--", *command(place.host, preload))
        handed = (*rules, info.theirs, block.theirs, given)
        cell.monitor = await place.spawner.spawn(Spawning(whole, stdin, out.theirs, err.theirs, handed))
        cell.monitor_handle = os.pidfd_open(cell.monitor.pid)
        pipes.close_theirs()
        cell.stdout, cell.stderr = pipes.keep(out), pipes.keep(err)
        await _hold(cell, info.ours)
        os.write(block.ours, b"\0")
    # Moving processes into a control group takes as long as starting the interpreter, so do both at once.
    grouping = asyncio.ensure_future(asyncio.to_thread(_enclose, cell)) if berth.group else None
    try:
        await _ready(cell)
    finally:
        if grouping is not None:
            await uncancelled(grouping)


def _filters(cell: Cell) -> tuple[bytes, ...]:
    """Return its seccomp filters; stricter ones if no control group counts its memory."""
    group = cell.berth.group
    if group is not None and group.counts_memory:
        return (cell.place.filter,)
    return cell.place.filter, uncounted_filter(cast(Machine, platform.machine()))


async def _hold(cell: Cell, info: int) -> None:
    """Open a handle on the first process before it runs anything, verify its identity, and limit it."""
    said = b""
    while b"}" not in said:
        await wait_readable(info)
        piece = os.read(info, _INFO_BYTES)
        if not piece:
            raise refusal(await _last_words(cell))
        said += piece
    first = _child_pid(said)
    try:
        # Before the handle is opened: `kill` later kills the process behind that handle.
        check_identity(first, cell.place.owner)
        cell.first, cell.first_handle = first, os.pidfd_open(first)
        await cell.place.spawner.limit([cell.first], resource_limits(cell.limits))
        _sacrifice(cell.first)
    except (FileNotFoundError, ProcessLookupError):
        raise refusal(await _last_words(cell)) from None


def _sacrifice(pid: int) -> None:
    """Make this process the first victim when the whole machine runs out of memory."""
    Path(f"/proc/{pid}/oom_score_adj").write_text("1000", encoding="ascii")


def _child_pid(info: bytes) -> int:
    """Parse the number after `child-pid`; the surrounding text differs between bubblewrap versions."""
    digits = info.partition(b'"child-pid":')[2].lstrip().partition(b",")[0].partition(b"\n")[0]
    return int(digits)


def _enclose(cell: Cell) -> None:
    """Move all its processes into its control group; repeat for those that they start meanwhile."""
    assert cell.berth.group
    inside: set[int] = set()
    while outside := [pid for pid in cell.tree().pids() if pid not in inside]:
        for pid in outside:
            try:
                cell.berth.group.add(pid)
            except FileNotFoundError:
                raise SandboxUnavailableError(
                    "somebody has removed the control group of a program; try again"
                ) from None
        inside.update(outside)


async def _ready(cell: Cell) -> None:
    """Wait until the interpreter is ready; raise with the reason if it ends first."""
    assert cell.monitor_handle is not None
    ready = asyncio.ensure_future(cell.berth.door.ready())
    ended = asyncio.ensure_future(wait_readable(cell.monitor_handle))
    try:
        await asyncio.wait((ready, ended), return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise refusal(await _last_words(cell))
        await ready
    finally:
        for each in (ready, ended):
            each.cancel()
    interpreter = cell.tree().pids()[-1]
    check_isolated(interpreter)
    # Kept open, so that their usage can be measured regardless of what the program does.
    cell.in_memory = tuple(
        os.open(f"/proc/{interpreter}/root{folder}", os.O_PATH | os.O_CLOEXEC) for folder in IN_MEMORY
    )


async def _last_words(cell: Cell) -> str:
    """Return the standard error of a process that has ended."""
    assert cell.stderr is not None
    return await read_until_closed(cell.stderr)
