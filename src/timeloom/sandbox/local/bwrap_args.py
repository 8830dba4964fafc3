"""Arguments of bubblewrap: what a program sees of this machine, and what it is kept apart from."""

import math
import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timeloom.ports.sandbox import MIB, Limits
from timeloom.sandbox.folders.run_folder import RunFolder
from timeloom.sandbox.local.host_resources import SOCKET
from timeloom.sandbox.local.interpreter import SETUP_FILE, START_FILE, SYSTEM_FOLDERS, Interpreter

WORKSPACE: Final = Path("/workspace")
TMP: Final = "/tmp"
SHM: Final = "/dev/shm"
IN_MEMORY: Final = (TMP, SHM)
"""The file systems in memory that a program can write to."""

ADDRESS_SPACE_BYTES: Final = 1024 * MIB
"""What a process may address beyond the memory it may have. Less breaks libraries that reserve and do not use; with
more, a program that asks for too much is killed by the watchdog where an exception would have told it."""

EXTRA_CPU_S: Final = 10
"""Processor time of a process beyond what a program has: the watchdog comes first, this is for when it cannot."""

_HIDDEN: Final = ("/proc/cmdline", "/proc/kcore", "/proc/keys")
_ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": f"{WORKSPACE}/work",
    "TMPDIR": TMP,
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": f"{TMP}/matplotlib",
    # Every thread of a library counts as a process, and there is no more processor for many than for one.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

Seen = Callable[[Path], Path]
"""Where a path of this machine lies for who starts bubblewrap."""


@dataclass(frozen=True, slots=True)
class Host:
    """What of this machine every program sees, and as whom it sees itself."""

    interpreter: Interpreter
    etc: Path
    """What programs have as `/etc`, with the interpreter's first programs in it."""

    fonts: Path
    """A folder with matplotlib's list of fonts, when it was made."""

    uid: int
    gid: int
    tmp_bytes: int


def shared_arguments(host: Host, seen: Seen) -> Iterator[str]:
    """Those that are the same for every program; they come first."""
    yield from ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net")
    yield from ("--unshare-cgroup", "--uid", str(host.uid), "--gid", str(host.gid), "--hostname", "sandbox")
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL")
    yield from _system()
    yield from _mounts(host.tmp_bytes)
    # After the mounts, because an interpreter may lie under `/tmp`.
    for part in host.interpreter.parts:
        yield from ("--ro-bind", str(seen(part)), str(part))
    for place, target in host.interpreter.links:
        yield from ("--symlink", str(target), str(place))
    yield from ("--ro-bind", str(seen(host.etc)), "/etc")
    for name, value in _ENVIRONMENT.items():
        yield from ("--setenv", name, value)


def own_arguments(host: Host, run: RunFolder, seen: Seen) -> Iterator[str]:
    """Those of one execution: its folders."""
    for font_list in host.fonts.iterdir():
        yield from ("--ro-bind", str(seen(font_list)), f"{_ENVIRONMENT['MPLCONFIGDIR']}/{font_list.name}")
    yield from ("--bind", str(seen(run.work)), str(WORKSPACE / "work"))
    yield from ("--bind", str(seen(run.out)), str(WORKSPACE / "out"))
    yield from ("--ro-bind", str(seen(run.sock)), str(WORKSPACE / "sock"))
    # The root itself is a file system in memory without a limit.
    yield from ("--remount-ro", "/", "--chdir", str(WORKSPACE / "work"))


def command(host: Host, preload: Sequence[str]) -> Iterator[str]:
    """What is run in the sandbox: an interpreter that waits for its program."""
    yield from (str(host.interpreter.python), "-I", "-S", f"/etc/{START_FILE}", f"/etc/{SETUP_FILE}")
    yield str(WORKSPACE / "sock" / SOCKET)
    if preload:
        yield from ("--preload", ",".join(preload))


def resource_limits(limits: Limits) -> dict[int, int]:
    """The limits of each process; set when it has its user namespace, because before that all of a user's would count.

    One process more than the program's: the first of its namespace.
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


def _system() -> Iterator[str]:
    for folder in SYSTEM_FOLDERS:
        if folder.is_symlink():
            yield from ("--symlink", str(folder.readlink()), str(folder))
        elif folder.is_dir():
            yield from ("--ro-bind", str(folder), str(folder))


def _mounts(tmp_bytes: int) -> Iterator[str]:
    yield from ("--proc", "/proc")
    # The first process is bubblewrap's and runs without the filter of system calls; who could write to its memory
    # would be rid of it too.
    yield from ("--tmpfs", "/proc/1", "--remount-ro", "/proc/1")
    for name in (name for name in _HIDDEN if Path(name).exists()):
        # A device where devices are not allowed cannot be opened.
        yield from ("--ro-bind", "/dev/null", name)
    # Who could write there could make the kernel spare it when memory runs out.
    yield from ("--remount-ro", "/proc")
    # Not by `--dev`, which makes terminals too, and for them another user namespace.
    yield from ("--tmpfs", "/dev")
    for name in ("null", "full", "random", "urandom"):
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    # It reads alike; but what is mapped of the real one, and shared, is memory that no process counts as its own.
    yield from ("--dev-bind", "/dev/full", "/dev/zero")
    for target, name in (("/proc/self/fd", "fd"), ("fd/0", "stdin"), ("fd/1", "stdout"), ("fd/2", "stderr")):
        yield from ("--symlink", target, f"/dev/{name}")
    for folder in IN_MEMORY:
        yield from ("--perms", "1777", "--size", str(tmp_bytes), "--tmpfs", folder)
    yield from ("--remount-ro", "/dev")
