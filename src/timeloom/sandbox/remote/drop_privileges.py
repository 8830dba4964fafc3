"""Irrevocably drops all privileges of a process that an untrusted program does not need.

A task has no user namespaces and shares its network among all its containers. Instead of namespaces, isolation uses
another user, the seccomp filter (Unix sockets only) and, if the kernel has it, Landlock.
"""

import ctypes
import math
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import msgspec

from timeloom.ports.sandbox import MIB, ExecutionLimits
from timeloom.sandbox.remote.landlock import restrict_paths
from timeloom.sandbox.seccomp import Machine, seccomp_filter

ADDRESS_SPACE_BYTES: Final = 1024 * MIB
"""Address space of a process beyond its memory limit; less breaks libraries that reserve memory without using it."""

_EXTRA_CPU_S: Final = 10
_INSTRUCTION_BYTES: Final = 8
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_SECCOMP: Final = 22
_PR_CAPBSET_DROP: Final = 24
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2
_CAPABILITIES: Final = 64
_CAPABILITY_VERSION: Final = 0x2008_0522

_READABLE: Final = (
    *("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/localtime", "/etc/fonts", "/etc/mime.types"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system/cpu"),
    *("/dev/zero", "/dev/random", "/dev/urandom"),
)
_SELF_PROC_FILES: Final = (
    "cmdline",
    "cgroup",
    "comm",
    "environ",
    "limits",
    "maps",
    "mem",
    "mountinfo",
    "smaps",
    "stat",
    "statm",
    "status",
)
"""Files in its `/proc/self` that the interpreter may read; not `net`, which reveals the task's network."""

_WRITABLE: Final = ("/dev/null", "/dev/full", "/dev/shm")
_library: Final = ctypes.CDLL(None, use_errno=True)


class ConfinementSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where and as which user a program runs, and its limits."""

    uid: int
    work: str
    out: str
    bootstrap: str
    socket: str
    limits: ExecutionLimits


def confine_process(spec: ConfinementSpec) -> None:
    """Confine this process like a program; if it raises, no program may run in the process."""
    os.setsid()
    os.umask(0o022)
    os.chdir(spec.work)
    # When the task runs out of memory, the kernel kills the program first.
    Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    _switch_user(spec.uid)
    for kind, most in resource_limits(spec.limits).items():
        resource.setrlimit(kind, (most, most))
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    # After the change of user, which resets it.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    readable = {*_READABLE, *_interpreter_paths(), *(f"/proc/self/{name}" for name in _SELF_PROC_FILES), spec.bootstrap}
    restrict_paths(sorted(readable), (*_WRITABLE, spec.work, spec.out), listed=("/proc",))
    _install_seccomp_filter()
    if 0 in {*os.getresuid(), *os.getresgid()} or os.getgroups():
        raise PermissionError("the executor still has rights of the supervisor")


def resource_limits(limits: ExecutionLimits) -> Mapping[int, int]:
    """Return the rlimits of each process; the user has no other processes in a task, so NPROC is exact."""
    return {
        resource.RLIMIT_AS: limits.memory_bytes + ADDRESS_SPACE_BYTES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: math.ceil(limits.cpu_s) + _EXTRA_CPU_S,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_NPROC: limits.processes,
    }


def adopt_orphans() -> None:
    """Become the subreaper: orphaned descendants of this process become its children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_parent_death_signal(by: signal.Signals) -> None:
    """Request a signal for this process when its parent has ended."""
    parent = os.getppid()
    _prctl(_PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:
        os.kill(os.getpid(), by)


def _switch_user(uid: int) -> None:
    """Switch to that user and the group of the same number, without capabilities and unable to regain any."""
    for capability in range(_CAPABILITIES):
        # Fails if the container may not drop them; then `no_new_privs` alone keeps them out of reach.
        _library.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if _library.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refused to take the capabilities away")


def _interpreter_paths() -> set[str]:
    """Return the paths of the interpreter and its packages."""
    prefixes = {sys.prefix, sys.base_prefix}
    return {f"{prefix}/{part}" for prefix in prefixes for part in ("bin", "lib", "lib64", "pyvenv.cfg")}


def _prctl(option: int, value: int) -> None:
    if _library.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"the kernel refused option {option} of a process")


def _install_seccomp_filter() -> None:
    rules = seccomp_filter(cast(Machine, platform.machine()))
    kept = ctypes.create_string_buffer(rules)
    program = struct.pack("HxxxxxxP", len(rules) // _INSTRUCTION_BYTES, ctypes.addressof(kept))
    if _library.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refused the filter of system calls")
