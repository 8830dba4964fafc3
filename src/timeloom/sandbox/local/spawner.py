"""Starts bubblewrap from one dedicated thread that lives as long as the sandbox is open.

A sandbox dies with the thread that started it, so nothing outlives a killed supervisor; a thread that ended earlier
would kill its sandboxes. If timeloom runs as root, this thread drops all privileges before it starts anything. It could
then no longer reach private folders, so it has a separate mount namespace that binds them at a readable path.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import platform
import queue
import resource
import stat
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.folders.run_folder import Owner
from timeloom.sandbox.local.orphans import kill_young

T = TypeVar("T")

STAGE: Final = Path("/sys")
"""Mount point for those folders in the spawner's namespace: it exists on every machine, and no program sees it."""

_CLONE_NEWNS: Final = 0x0002_0000
_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_SLAVE: Final = 0x8_0000
_MNT_DETACH: Final = 2

_OF_THE_KERNEL: Final = frozenset(
    {"bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs"}
    | {"pstore", "securityfs", "sysfs", "tracefs"}
)
"""File system types that neither bubblewrap nor a program needs."""


class _Numbers(NamedTuple):
    setgroups: int
    setresgid: int
    setresuid: int


_SYSTEM_CALLS: Final = {"x86_64": _Numbers(116, 119, 117), "aarch64": _Numbers(159, 149, 147)}


@dataclass(frozen=True, slots=True)
class Spawning:
    """A process to start: its command, standard streams and inherited descriptors; its environment is empty."""

    command: tuple[str, ...]
    stdin: int
    stdout: int
    stderr: int
    handed: tuple[int, ...]


class Spawner:
    """Starts processes as the given user, one at a time, in a thread that ends with `close`."""

    def __init__(self, owner: Owner, staged: Sequence[Path]) -> None:
        self._owner = owner
        self._staged = {path: STAGE / str(at) for at, path in enumerate(staged)} if not owner.is_self else {}
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="sandbox-spawner", daemon=True)

    async def start(self) -> None:
        """Start the thread; raise `SandboxUnavailableError` if the mount namespace cannot be created."""
        self._thread.start()
        await self._in_thread(self._prepare)

    def seen(self, path: Path) -> Path:
        """Map a host path to its path in the spawner's mount namespace."""
        for place, stage in self._staged.items():
            if path.is_relative_to(place):
                return stage / path.relative_to(place)
        return path

    async def spawn(self, spawning: Spawning) -> "subprocess.Popen[bytes]":
        """Start the process; it is killed when this thread ends, or if the caller is cancelled."""
        starting = asyncio.ensure_future(self._in_thread(lambda: _popen(spawning)))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_kill)
            raise

    def close(self) -> None:
        """End the thread, which kills every process it started."""
        self._closed = True
        if self._thread.ident is not None:
            self._orders.put(None)
            self._thread.join()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise SandboxUnavailableError("the sandbox was closed")
        future: Future[T] = Future()
        self._orders.put(lambda: _fulfil(future, work))
        return await asyncio.wrap_future(future)

    def _work(self) -> None:
        while order := self._orders.get():
            order()

    async def limit(self, pids: Sequence[int], limits: Mapping[int, int]) -> None:
        """Set rlimits of processes of the user."""
        try:
            _limit(pids, limits)
        except PermissionError:
            # A root without all capabilities; the thread runs as the same user as these processes.
            await self._in_thread(lambda: _limit(pids, limits))

    def _prepare(self) -> None:
        if self._owner.is_self:
            return
        try:
            self._stage()
            _give_up_rights(self._owner)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            raise SandboxUnavailableError(
                f"this root user may not make mount namespaces ({errno.errorcode.get(error.errno or 0, 'unknown')}); "
                "run as another user, or use the docker sandbox"
            ) from error

    def _stage(self) -> None:
        opened: list[tuple[int, Path]] = []
        try:
            _call("unshare", _CLONE_NEWNS)
            # Unmounts outside propagate here; mounts here stay invisible outside.
            _mount("none", Path("/"), "", _MS_REC | _MS_SLAVE)
            # By descriptor, because the mount at BIND_ROOT may hide paths that are still to be bound.
            opened += [(os.open(path, os.O_PATH | os.O_CLOEXEC), stage) for path, stage in self._staged.items()]
            _unmount_kernels()
            _mount("tmpfs", STAGE, "tmpfs", 0, b"mode=755,size=1m")
            for descriptor, stage in opened:
                if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                    stage.mkdir()
                else:
                    stage.touch()
                _mount(f"/proc/self/fd/{descriptor}", stage, "", _MS_BIND | _MS_REC)
        finally:
            for descriptor, _ in opened:
                os.close(descriptor)


def _popen(spawning: Spawning) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        spawning.command,
        stdin=spawning.stdin,
        stdout=spawning.stdout,
        stderr=spawning.stderr,
        pass_fds=spawning.handed,
        env={},
        cwd="/",
    )


def _limit(pids: Sequence[int], limits: Mapping[int, int]) -> None:
    for pid in pids:
        for resource_number, value in limits.items():
            _, most = resource.prlimit(pid, resource_number)
            # The hard limit of this process may be lower.
            least = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.prlimit(pid, resource_number, (least, least))


def _kill(starting: "asyncio.Future[subprocess.Popen[bytes]]") -> None:
    """Kill a process whose caller was cancelled."""
    if not starting.cancelled() and starting.exception() is None:
        kill_young(starting.result())


def _fulfil(future: "Future[T]", work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - the caller gets it through the future
        future.set_exception(error)


def _give_up_rights(owner: Owner) -> None:
    """Switch only this thread to that user; the C library would switch all threads, so use raw system calls."""
    numbers = _SYSTEM_CALLS[platform.machine()]
    _call("syscall", ctypes.c_long(numbers.setgroups), ctypes.c_long(0), None)
    _call("syscall", ctypes.c_long(numbers.setresgid), *[ctypes.c_long(owner.gid)] * 3)
    _call("syscall", ctypes.c_long(numbers.setresuid), *[ctypes.c_long(owner.uid)] * 3)


def _unmount_kernels() -> None:
    """Unmount the kernel's file systems in this namespace, because bubblewrap rereads all mounts for each mount."""
    for line in Path("/proc/self/task", str(threading.get_native_id()), "mounts").read_text("utf-8").splitlines():
        _, place, kind, *_ = line.split(" ")
        if kind in _OF_THE_KERNEL:
            # A nested mount is gone with its parent, and some mounts cannot be removed.
            with contextlib.suppress(OSError):
                _call("umount2", place.encode(), _MNT_DETACH)


def _mount(source: str, target: Path, kind: str, flags: int, data: bytes | None = None) -> None:
    _call("mount", source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data)


def _call(name: str, *arguments: object) -> None:
    """Call a C library function and raise `OSError` if it fails."""
    if ctypes.CDLL(None, use_errno=True)[name](*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
