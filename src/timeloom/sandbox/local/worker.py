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

from timeloom.platform.tasks import finishes_before, run_to_completion
from timeloom.ports.sandbox import ExecutionLimits, SandboxUnavailableError
from timeloom.sandbox.folders.run_folder import FolderOwner
from timeloom.sandbox.local.bwrap_args import IN_MEMORY, GuestView, interpreter_command, resource_limits, run_arguments
from timeloom.sandbox.local.errors import startup_error, translate_limit_errors
from timeloom.sandbox.local.host_resources import HostResourcePool, HostResources
from timeloom.sandbox.local.identity import check_identity, check_isolated
from timeloom.sandbox.local.orphans import kill_starting
from timeloom.sandbox.local.pipes import Pipes, read_until_closed
from timeloom.sandbox.local.spawner import Spawner, SpawnRequest
from timeloom.sandbox.processes.process_tree import ProcessTree
from timeloom.sandbox.readable import wait_readable
from timeloom.sandbox.seccomp import Machine, uncounted_memory_filter

_INFO_BYTES: Final = 4096
_GONE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class LocalWorkerConfig:
    """Everything that the workers of one sandbox share."""

    bubblewrap: Path
    guest: GuestView
    arguments: tuple[str, ...]
    """The bubblewrap arguments that are the same for all workers."""

    filter: bytes
    owner: FolderOwner
    spawner: Spawner
    resources: HostResourcePool
    start_s: float


@dataclass(slots=True)
class LocalWorker:
    """An isolated interpreter that waits for one program, runs it, and is then closed."""

    config: LocalWorkerConfig
    resources: HostResources
    limits: ExecutionLimits
    monitor: "subprocess.Popen[bytes] | None" = None
    init_pid: int = 0
    """Host pid of the first process of its pid namespace: all other processes end with it."""

    init_handle: int | None = None
    monitor_handle: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    in_memory: tuple[int, ...] = ()
    _closing: "asyncio.Future[None] | None" = None

    def is_waiting(self) -> bool:
        """Return whether its interpreter is still alive."""
        return self.monitor is not None and self.monitor.poll() is None

    def tree(self) -> ProcessTree:
        """Return its process tree."""
        return ProcessTree(self.init_pid)

    async def apply_limits(self, limits: ExecutionLimits) -> None:
        """Replace the limits that it was started with; its program must not have started."""
        if limits != self.limits:
            with translate_limit_errors(limits):
                await self.config.spawner.set_limits(self.tree().pids(), resource_limits(limits))
                if self.resources.cgroup is not None:
                    self.resources.cgroup.set_limits(limits)
            self.limits = limits

    async def wait_exit(self) -> None:
        """Wait until the program has ended."""
        assert self.monitor_handle is not None
        await wait_readable(self.monitor_handle)

    def exit_code(self) -> int:
        """Return the exit code of the ended program, as shells count it."""
        assert self.monitor is not None
        code = self.monitor.wait()
        return 128 - code if code < 0 else code

    def terminate(self) -> None:
        """Send SIGTERM to all processes of the program."""
        for pid in self.tree().pids()[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    async def kill(self) -> None:
        """Send SIGKILL to all processes and return when all of them are gone."""
        if self.init_handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.init_handle, signal.SIGKILL)
        elif self.monitor is not None:
            kill_starting(self.monitor)
        if self.monitor is not None and self.monitor_handle is not None:
            if self.monitor.poll() is None:
                self.monitor.kill()
            await wait_readable(self.monitor_handle)
            self.monitor.wait()
        if self.init_handle is not None:
            async with asyncio.timeout(_GONE_S):
                await wait_readable(self.init_handle)

    async def close(self) -> None:
        """Kill its processes and remove its host resources; a second caller waits for the first."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self.kill()
        for descriptor in (self.init_handle, self.monitor_handle, self.stdout, self.stderr, *self.in_memory):
            if descriptor is not None:
                os.close(descriptor)
        self.init_handle = self.monitor_handle = self.stdout = self.stderr = None
        self.in_memory = ()
        await self.resources.close()


async def start_worker(config: LocalWorkerConfig, limits: ExecutionLimits, preload: Sequence[str]) -> LocalWorker:
    """Start a worker and return it when its interpreter is ready; raise `SandboxUnavailableError` on failure."""
    worker = LocalWorker(config, await config.resources.acquire(), limits)
    try:
        # Host resources are prepared in advance, with the default limits.
        if worker.resources.cgroup is not None and limits != ExecutionLimits():
            with translate_limit_errors(limits):
                worker.resources.cgroup.set_limits(limits)
        async with asyncio.timeout(config.start_s):
            await _start_interpreter(worker, preload)
    except TimeoutError:
        await run_to_completion(worker.close())
        raise SandboxUnavailableError(f"an isolated Python did not start within {config.start_s:g} s") from None
    except BaseException:
        await run_to_completion(worker.close())
        raise
    return worker


async def _start_interpreter(worker: LocalWorker, preload: Sequence[str]) -> None:
    config, resources = worker.config, worker.resources
    with Pipes() as pipes:
        arguments = [*config.arguments, *run_arguments(config.guest, resources.run, config.spawner.map_path)]
        info, block = pipes.open_reader(), pipes.open_writer()
        rules = [pipes.open_filled(each) for each in _seccomp_filters(worker)]
        for each in rules:
            arguments += ["--add-seccomp-fd", str(each)]
        arguments += ["--info-fd", str(info.theirs), "--block-fd", str(block.theirs)]
        argument_pipe = pipes.open_filled(b"".join(each.encode() + b"\0" for each in arguments))
        stdin = pipes.open_filled(resources.token.encode() + b"\n")
        out, err = pipes.open_reader(), pipes.open_reader()
        command_line = (
            str(config.bubblewrap),
            "--args",
            str(argument_pipe),
            "--",
            *interpreter_command(config.guest, preload),
        )
        inherited = (*rules, info.theirs, block.theirs, argument_pipe)
        worker.monitor = await config.spawner.spawn(
            SpawnRequest(command_line, stdin, out.theirs, err.theirs, inherited)
        )
        worker.monitor_handle = os.pidfd_open(worker.monitor.pid)
        pipes.close_theirs()
        worker.stdout, worker.stderr = pipes.keep(out), pipes.keep(err)
        await _attach_init(worker, info.ours)
        os.write(block.ours, b"\0")
    # Moving processes into a control group takes as long as starting the interpreter, so do both at once.
    cgroup_task = asyncio.ensure_future(asyncio.to_thread(_join_cgroup, worker)) if resources.cgroup else None
    try:
        await _wait_ready(worker)
    finally:
        if cgroup_task is not None:
            await run_to_completion(cgroup_task)


def _seccomp_filters(worker: LocalWorker) -> tuple[bytes, ...]:
    """Return its seccomp filters; stricter ones if no control group counts its memory."""
    group = worker.resources.cgroup
    if group is not None and group.counts_memory:
        return (worker.config.filter,)
    return worker.config.filter, uncounted_memory_filter(cast(Machine, platform.machine()))


async def _attach_init(worker: LocalWorker, info: int) -> None:
    """Open a handle on the first process before it runs anything, verify its identity, and limit it."""
    data = b""
    while b"}" not in data:
        await wait_readable(info)
        piece = os.read(info, _INFO_BYTES)
        if not piece:
            raise startup_error(await _read_stderr(worker))
        data += piece
    init_pid = _parse_child_pid(data)
    try:
        # Before the handle is opened: `kill` later kills the process behind that handle.
        check_identity(init_pid, worker.config.owner)
        worker.init_pid, worker.init_handle = init_pid, os.pidfd_open(init_pid)
        with translate_limit_errors(worker.limits):
            await worker.config.spawner.set_limits([worker.init_pid], resource_limits(worker.limits))
        _prefer_oom_kill(worker.init_pid)
    except (FileNotFoundError, ProcessLookupError):
        raise startup_error(await _read_stderr(worker)) from None


def _prefer_oom_kill(pid: int) -> None:
    """Make this process the first victim when the whole machine runs out of memory."""
    Path(f"/proc/{pid}/oom_score_adj").write_text("1000", encoding="ascii")


def _parse_child_pid(info: bytes) -> int:
    """Parse the number after `child-pid`; the surrounding text differs between bubblewrap versions."""
    digits = info.partition(b'"child-pid":')[2].lstrip().partition(b",")[0].partition(b"\n")[0]
    return int(digits)


def _join_cgroup(worker: LocalWorker) -> None:
    """Move all its processes into its control group; repeat for those that they start meanwhile."""
    assert worker.resources.cgroup
    inside: set[int] = set()
    while outside := [pid for pid in worker.tree().pids() if pid not in inside]:
        for pid in outside:
            try:
                worker.resources.cgroup.add_process(pid)
            except FileNotFoundError:
                raise SandboxUnavailableError("the control group of a program was removed; try again") from None
        inside.update(outside)


async def _wait_ready(worker: LocalWorker) -> None:
    """Wait until the interpreter is ready; raise with the reason if it ends first."""
    assert worker.monitor_handle is not None
    if not await finishes_before(worker.resources.broker_socket.wait_ready(), wait_readable(worker.monitor_handle)):
        raise startup_error(await _read_stderr(worker))
    interpreter = worker.tree().pids()[-1]
    check_isolated(interpreter)
    # Kept open, so that their usage can be measured regardless of what the program does.
    worker.in_memory = tuple(
        os.open(f"/proc/{interpreter}/root{folder}", os.O_PATH | os.O_CLOEXEC) for folder in IN_MEMORY
    )


async def _read_stderr(worker: LocalWorker) -> str:
    """Return the standard error of a process that has ended."""
    assert worker.stderr is not None
    return await read_until_closed(worker.stderr)
