"""Builds the bubblewrap arguments, which define a program's view of this machine."""

import math
import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timeloom.ports.sandbox import MIB, ExecutionLimits
from timeloom.sandbox.folders.run_folder import RunFolder
from timeloom.sandbox.local.host_resources import SOCKET_NAME
from timeloom.sandbox.local.interpreter import SETUP_FILE, START_FILE, SYSTEM_FOLDERS, Interpreter

WORKSPACE: Final = Path("/workspace")
TMP: Final = "/tmp"
SHM: Final = "/dev/shm"
IN_MEMORY: Final = (TMP, SHM)
"""The in-memory file systems that a program can write to."""

ADDRESS_SPACE_BYTES: Final = 1024 * MIB
"""Address space of a process beyond its memory limit. A smaller value breaks libraries that reserve memory without
using it. With a larger one, the watchdog kills a program that asks for too much, where it would have got an
exception."""

EXTRA_CPU_S: Final = 10
"""Processor seconds of a process beyond the limit of its program: a safety net in case the watchdog fails."""

_HIDDEN: Final = ("/proc/cmdline", "/proc/kcore", "/proc/keys")
_ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": f"{WORKSPACE}/work",
    "TMPDIR": TMP,
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": f"{TMP}/matplotlib",
    # Every library thread counts as a process, and more threads get no more processor time.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

PathMapper = Callable[[Path], Path]
"""Maps a host path to its path in the mount namespace where bubblewrap starts."""


@dataclass(frozen=True, slots=True)
class GuestView:
    """The parts of this machine that every program sees, and the user it sees itself as."""

    interpreter: Interpreter
    etc: Path
    """The guest's `/etc`, which also contains the compiled start files of the interpreter."""

    fonts: Path
    """A folder with matplotlib's font list, once it has been created."""

    uid: int
    gid: int
    tmp_bytes: int


def shared_arguments(guest: GuestView, map_path: PathMapper) -> Iterator[str]:
    """Yield the arguments that are the same for every program; they come first."""
    yield from ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net")
    yield from ("--unshare-cgroup", "--uid", str(guest.uid), "--gid", str(guest.gid), "--hostname", "sandbox")
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL")
    yield from _system_binds()
    yield from _mounts(guest.tmp_bytes)
    # After the mounts, because an interpreter may lie under `/tmp`.
    for part in guest.interpreter.parts:
        yield from ("--ro-bind", str(map_path(part)), str(part))
    for link, target in guest.interpreter.links:
        yield from ("--symlink", str(target), str(link))
    yield from ("--ro-bind", str(map_path(guest.etc)), "/etc")
    for name, value in _ENVIRONMENT.items():
        yield from ("--setenv", name, value)


def run_arguments(guest: GuestView, run: RunFolder, map_path: PathMapper) -> Iterator[str]:
    """Yield the arguments of one execution: its folders."""
    for font_list in guest.fonts.iterdir():
        yield from ("--ro-bind", str(map_path(font_list)), f"{_ENVIRONMENT['MPLCONFIGDIR']}/{font_list.name}")
    yield from ("--bind", str(map_path(run.work)), str(WORKSPACE / "work"))
    yield from ("--bind", str(map_path(run.out)), str(WORKSPACE / "out"))
    yield from ("--ro-bind", str(map_path(run.sock)), str(WORKSPACE / "sock"))
    # The root is an in-memory file system without a size limit.
    yield from ("--remount-ro", "/", "--chdir", str(WORKSPACE / "work"))


def interpreter_command(guest: GuestView, preload: Sequence[str]) -> Iterator[str]:
    """Yield the command to run in the sandbox: an interpreter that waits for its program."""
    yield from (str(guest.interpreter.python), "-I", "-S", f"/etc/{START_FILE}", f"/etc/{SETUP_FILE}")
    yield str(WORKSPACE / "sock" / SOCKET_NAME)
    if preload:
        yield from ("--preload", ",".join(preload))


def resource_limits(limits: ExecutionLimits) -> dict[int, int]:
    """Return the rlimits of each process; set inside the user namespace, or they would count all its processes.

    The process limit is one higher than the program's, for pid 1 of its namespace.
    """
    return {
        resource.RLIMIT_AS: limits.memory_bytes + ADDRESS_SPACE_BYTES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: math.ceil(limits.cpu_s) + EXTRA_CPU_S,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_NPROC: limits.processes + 1,
    }


def _system_binds() -> Iterator[str]:
    for folder in SYSTEM_FOLDERS:
        if folder.is_symlink():
            yield from ("--symlink", str(folder.readlink()), str(folder))
        elif folder.is_dir():
            yield from ("--ro-bind", str(folder), str(folder))


def _mounts(tmp_bytes: int) -> Iterator[str]:
    yield from ("--proc", "/proc")
    # Pid 1 is bubblewrap itself and runs without the seccomp filter; a program that could write to its memory would
    # escape the filter.
    yield from ("--tmpfs", "/proc/1", "--remount-ro", "/proc/1")
    for name in (name for name in _HIDDEN if Path(name).exists()):
        # The mount forbids devices, so the file cannot be opened.
        yield from ("--ro-bind", "/dev/null", name)
    # A writable `/proc` would let a program protect itself from the OOM killer.
    yield from ("--remount-ro", "/proc")
    # Not `--dev`, which also creates terminals and a second user namespace for them.
    yield from ("--tmpfs", "/dev")
    for name in ("null", "full", "random", "urandom"):
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    # It reads the same, but shared mappings of the real `/dev/zero` are memory that no process is charged for.
    yield from ("--dev-bind", "/dev/full", "/dev/zero")
    for target, name in (("/proc/self/fd", "fd"), ("fd/0", "stdin"), ("fd/1", "stdout"), ("fd/2", "stderr")):
        yield from ("--symlink", target, f"/dev/{name}")
    for folder in IN_MEMORY:
        yield from ("--perms", "1777", "--size", str(tmp_bytes), "--tmpfs", folder)
    yield from ("--remount-ro", "/dev")
