"""The spawner: the one thread that starts bubblewrap, for as long as the sandbox is open.

A sandbox dies with the thread that started it, so that nothing outlives a supervisor that is killed; a thread that
ended earlier would take its sandboxes along. Where we are root, this thread has given up all rights before it starts
anything, and then could not reach folders that are closed to others: so it has a mount namespace of its own, which ends
with it, where they lie at a place that is open.
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
"""What the spawner's own namespace covers with its folders: it is everywhere, and no program is shown it."""

_CLONE_NEWNS: Final = 0x0002_0000
_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_SLAVE: Final = 0x8_0000
_MNT_DETACH: Final = 2

_OF_THE_KERNEL: Final = frozenset(
    {"bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs"}
    | {"pstore", "securityfs", "sysfs", "tracefs"}
)
"""Kinds of file systems of which neither bubblewrap nor a program needs anything."""


class _Numbers(NamedTuple):
    setgroups: int
    setresgid: int
    setresuid: int


_SYSTEM_CALLS: Final = {"x86_64": _Numbers(116, 119, 117), "aarch64": _Numbers(159, 149, 147)}


@dataclass(frozen=True, slots=True)
class Spawning:
    """A process to be started with an empty environment, its standard streams, and further descriptors to hand on."""

    command: tuple[str, ...]
    stdin: int
    stdout: int
    stderr: int
    handed: tuple[int, ...]


class Spawner:
    """Starts processes as that user, one after the other, in a thread that ends when it is closed."""

    def __init__(self, owner: Owner, staged: Sequence[Path]) -> None:
        self._owner = owner
        self._staged = {path: STAGE / str(at) for at, path in enumerate(staged)} if not owner.is_self else {}
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="sandbox-spawner", daemon=True)

    async def start(self) -> None:
        """Begins; raises `SandboxUnavailableError` where the namespace cannot be made."""
        self._thread.start()
        await self._in_thread(self._prepare)

    def seen(self, path: Path) -> Path:
        """Where a staged path, or one below it, lies for what is started."""
        for place, stage in self._staged.items():
            if path.is_relative_to(place):
                return stage / path.relative_to(place)
        return path

    async def spawn(self, spawning: Spawning) -> "subprocess.Popen[bytes]":
        """Starts the process; it is killed when this thread ends, or when who waits for it is cancelled."""
        starting = asyncio.ensure_future(self._in_thread(lambda: _popen(spawning)))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_kill)
            raise

    def close(self) -> None:
        """Ends the thread, and with it whatever it started."""
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
        """Sets limits of resources for processes of the user."""
        try:
            _limit(pids, limits)
        except PermissionError:
            # A root that may not do all that root may; this thread is the same user's as they are.
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
            # What is unmounted outside goes here too; what is mounted here is not seen outside.
            _mount("none", Path("/"), "", _MS_REC | _MS_SLAVE)
            # By descriptor, because the stage may cover what is still to be staged.
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
            # Whoever started us may have been given less than that.
            least = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.prlimit(pid, resource_number, (least, least))


def _kill(starting: "asyncio.Future[subprocess.Popen[bytes]]") -> None:
    """Ends what was started for nobody."""
    if not starting.cancelled() and starting.exception() is None:
        kill_young(starting.result())


def _fulfil(future: "Future[T]", work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - it is raised where the work was asked for
        future.set_exception(error)


def _give_up_rights(owner: Owner) -> None:
    """Makes this thread, and no other, that user's: the C library would change all threads, the kernel changes one."""
    numbers = _SYSTEM_CALLS[platform.machine()]
    _call("syscall", ctypes.c_long(numbers.setgroups), ctypes.c_long(0), None)
    _call("syscall", ctypes.c_long(numbers.setresgid), *[ctypes.c_long(owner.gid)] * 3)
    _call("syscall", ctypes.c_long(numbers.setresuid), *[ctypes.c_long(owner.uid)] * 3)


def _unmount_kernels() -> None:
    """Takes the kernel's own file systems out of this namespace: for each mount bubblewrap reads the list of all."""
    for line in Path("/proc/self/task", str(threading.get_native_id()), "mounts").read_text("utf-8").splitlines():
        _, place, kind, *_ = line.split(" ")
        if kind in _OF_THE_KERNEL:
            # One that lies below another went with it; and some may not be taken out.
            with contextlib.suppress(OSError):
                _call("umount2", place.encode(), _MNT_DETACH)


def _mount(source: str, target: Path, kind: str, flags: int, data: bytes | None = None) -> None:
    _call("mount", source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data)


def _call(name: str, *arguments: object) -> None:
    """A function of the C library that says by -1 that it failed."""
    if ctypes.CDLL(None, use_errno=True)[name](*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
