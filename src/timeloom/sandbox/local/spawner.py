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
from timeloom.sandbox.folders.run_folder import FolderOwner
from timeloom.sandbox.local.orphans import kill_starting

T = TypeVar("T")

BIND_ROOT: Final = Path("/sys")
"""Mount point for those folders in the spawner's namespace: it exists on every machine, and no program sees it."""

_CLONE_NEWNS: Final = 0x0002_0000
_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_SLAVE: Final = 0x8_0000
_MNT_DETACH: Final = 2

_KERNEL_FILESYSTEMS: Final = frozenset(
    {"bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs"}
    | {"pstore", "securityfs", "sysfs", "tracefs"}
)
"""File system types that neither bubblewrap nor a program needs."""


class _SyscallNumbers(NamedTuple):
    setgroups: int
    setresgid: int
    setresuid: int


_SYSTEM_CALLS: Final = {"x86_64": _SyscallNumbers(116, 119, 117), "aarch64": _SyscallNumbers(159, 149, 147)}


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """A process to start: its command, standard streams and inherited descriptors; its environment is empty."""

    command: tuple[str, ...]
    stdin: int
    stdout: int
    stderr: int
    inherited: tuple[int, ...]


class Spawner:
    """Starts processes as the given user, one at a time, in a thread that ends with `close`."""

    def __init__(self, owner: FolderOwner, staged: Sequence[Path]) -> None:
        self._owner = owner
        self._bind_points = (
            {path: BIND_ROOT / str(at) for at, path in enumerate(staged)} if not owner.is_current_user else {}
        )
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run_jobs, name="sandbox-spawner", daemon=True)

    async def start(self) -> None:
        """Start the thread; raise `SandboxUnavailableError` if the mount namespace cannot be created."""
        self._thread.start()
        await self._run_in_thread(self._prepare_thread)

    def map_path(self, path: Path) -> Path:
        """Map a host path to its path in the spawner's mount namespace."""
        for host_path, stage in self._bind_points.items():
            if path.is_relative_to(host_path):
                return stage / path.relative_to(host_path)
        return path

    async def spawn(self, request: SpawnRequest) -> "subprocess.Popen[bytes]":
        """Start the process; it is killed when this thread ends, or if the caller is cancelled."""
        starting = asyncio.ensure_future(self._run_in_thread(lambda: _popen(request)))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_kill_abandoned)
            raise

    def close(self) -> None:
        """End the thread, which kills every process it started."""
        self._closed = True
        if self._thread.ident is not None:
            self._jobs.put(None)
            self._thread.join()

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise SandboxUnavailableError("the sandbox was closed")
        future: Future[T] = Future()
        self._jobs.put(lambda: _complete(future, work))
        return await asyncio.wrap_future(future)

    def _run_jobs(self) -> None:
        while job := self._jobs.get():
            job()

    async def set_limits(self, pids: Sequence[int], limits: Mapping[int, int]) -> None:
        """Set rlimits of processes of the user."""
        try:
            _set_limits(pids, limits)
        except PermissionError:
            # A root without all capabilities; the thread runs as the same user as these processes.
            await self._run_in_thread(lambda: _set_limits(pids, limits))

    def _prepare_thread(self) -> None:
        if self._owner.is_current_user:
            return
        try:
            self._bind_folders()
            _drop_privileges(self._owner)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            raise SandboxUnavailableError(
                f"this root user may not make mount namespaces ({errno.errorcode.get(error.errno or 0, 'unknown')}); "
                "run as another user, or use the docker sandbox"
            ) from error

    def _bind_folders(self) -> None:
        opened: list[tuple[int, Path]] = []
        try:
            _call_libc("unshare", _CLONE_NEWNS)
            # Unmounts outside propagate here; mounts here stay invisible outside.
            _mount("none", Path("/"), "", _MS_REC | _MS_SLAVE)
            # By descriptor, because the mount at BIND_ROOT may hide paths that are still to be bound.
            opened += [(os.open(path, os.O_PATH | os.O_CLOEXEC), stage) for path, stage in self._bind_points.items()]
            _unmount_kernel_filesystems()
            _mount("tmpfs", BIND_ROOT, "tmpfs", 0, b"mode=755,size=1m")
            for descriptor, stage in opened:
                if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                    stage.mkdir()
                else:
                    stage.touch()
                _mount(f"/proc/self/fd/{descriptor}", stage, "", _MS_BIND | _MS_REC)
        finally:
            for descriptor, _ in opened:
                os.close(descriptor)


def _popen(request: SpawnRequest) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        request.command,
        stdin=request.stdin,
        stdout=request.stdout,
        stderr=request.stderr,
        pass_fds=request.inherited,
        env={},
        cwd="/",
    )


def _set_limits(pids: Sequence[int], limits: Mapping[int, int]) -> None:
    for pid in pids:
        for resource_number, value in limits.items():
            _, most = resource.prlimit(pid, resource_number)
            # The hard limit of this process may be lower.
            least = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.prlimit(pid, resource_number, (least, least))


def _kill_abandoned(starting: "asyncio.Future[subprocess.Popen[bytes]]") -> None:
    """Kill a process whose caller was cancelled."""
    if not starting.cancelled() and starting.exception() is None:
        kill_starting(starting.result())


def _complete(future: "Future[T]", work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - the caller gets it through the future
        future.set_exception(error)


def _drop_privileges(owner: FolderOwner) -> None:
    """Switch only this thread to that user; the C library would switch all threads, so use raw system calls."""
    numbers = _SYSTEM_CALLS[platform.machine()]
    _call_libc("syscall", ctypes.c_long(numbers.setgroups), ctypes.c_long(0), None)
    _call_libc("syscall", ctypes.c_long(numbers.setresgid), *[ctypes.c_long(owner.gid)] * 3)
    _call_libc("syscall", ctypes.c_long(numbers.setresuid), *[ctypes.c_long(owner.uid)] * 3)


def _unmount_kernel_filesystems() -> None:
    """Unmount the kernel's file systems in this namespace, because bubblewrap rereads all mounts for each mount."""
    for line in Path("/proc/self/task", str(threading.get_native_id()), "mounts").read_text("utf-8").splitlines():
        _, mount_point, kind, *_ = line.split(" ")
        if kind in _KERNEL_FILESYSTEMS:
            # A nested mount is gone with its parent, and some mounts cannot be removed.
            with contextlib.suppress(OSError):
                _call_libc("umount2", mount_point.encode(), _MNT_DETACH)


def _mount(source: str, target: Path, kind: str, flags: int, data: bytes | None = None) -> None:
    _call_libc("mount", source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data)


def _call_libc(name: str, *arguments: object) -> None:
    """Call a C library function and raise `OSError` if it fails."""
    if ctypes.CDLL(None, use_errno=True)[name](*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
