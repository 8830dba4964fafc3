"""Builds the seccomp filter (BPF) that every sandboxed program runs under.

The filter denies calls that a program which computes and writes files never needs: the network, the memory of other
processes, mounts, namespaces, and the parts of the kernel where most vulnerabilities were found. Some calls fail with
ENOSYS instead of EPERM, because libraries then fall back to other calls.
"""

import errno
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

Machine = Literal["x86_64", "aarch64"]


@dataclass(frozen=True, slots=True)
class DeniedSyscall:
    """A denied system call: its number on each machine (None if the machine lacks it) and its error."""

    name: str
    x86_64: int | None
    aarch64: int | None
    error: int = errno.EPERM


def _same_numbers(first: int, *names: str) -> tuple[DeniedSyscall, ...]:
    """Return denied calls with consecutive numbers that are the same on all machines."""
    return tuple(DeniedSyscall(name, first + at, first + at) for at, name in enumerate(names))


DENIED_SYSCALLS: Final[tuple[DeniedSyscall, ...]] = (
    # other processes
    DeniedSyscall("ptrace", 101, 117),
    DeniedSyscall("process_vm_readv", 310, 270),
    DeniedSyscall("process_vm_writev", 311, 271),
    DeniedSyscall("kcmp", 312, 272),
    *_same_numbers(438, "pidfd_getfd"),
    *_same_numbers(440, "process_madvise"),
    # mounts and namespaces
    DeniedSyscall("mount", 165, 40),
    DeniedSyscall("umount2", 166, 39),
    DeniedSyscall("pivot_root", 155, 41),
    DeniedSyscall("chroot", 161, 51),
    *_same_numbers(428, "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick"),
    *_same_numbers(442, "mount_setattr"),
    *_same_numbers(457, "statmount", "listmount"),
    DeniedSyscall("unshare", 272, 97),
    DeniedSyscall("setns", 308, 268),
    DeniedSyscall("name_to_handle_at", 303, 264),
    DeniedSyscall("open_by_handle_at", 304, 265),
    # parts of the kernel with a history of vulnerabilities
    *_same_numbers(425, "io_uring_setup", "io_uring_enter", "io_uring_register"),
    DeniedSyscall("io_setup", 206, 0, errno.ENOSYS),
    DeniedSyscall("add_key", 248, 217),
    DeniedSyscall("request_key", 249, 218),
    DeniedSyscall("keyctl", 250, 219),
    DeniedSyscall("bpf", 321, 280),
    DeniedSyscall("perf_event_open", 298, 241),
    DeniedSyscall("userfaultfd", 323, 282),
    DeniedSyscall("fanotify_init", 300, 262),
    # all programs of a user share a small number of these
    DeniedSyscall("inotify_init", 253, None, errno.ENOSYS),
    DeniedSyscall("inotify_init1", 294, 26, errno.ENOSYS),
    DeniedSyscall("lookup_dcookie", 212, 18),
    DeniedSyscall("modify_ldt", 154, None),
    DeniedSyscall("personality", 135, 92),
    DeniedSyscall("remap_file_pages", 216, 234),
    DeniedSyscall("migrate_pages", 256, 238),
    DeniedSyscall("move_pages", 279, 239),
    DeniedSyscall("mbind", 237, 235, errno.ENOSYS),
    DeniedSyscall("set_mempolicy", 238, 237, errno.ENOSYS),
    # memory that belongs to no process, which an account by process would miss
    DeniedSyscall("memfd_create", 319, 279, errno.ENOSYS),
    DeniedSyscall("memfd_secret", 447, 447, errno.ENOSYS),
    DeniedSyscall("shmget", 29, 194, errno.ENOSYS),
    DeniedSyscall("msgget", 68, 186, errno.ENOSYS),
    DeniedSyscall("semget", 64, 190, errno.ENOSYS),
    DeniedSyscall("mq_open", 240, 180, errno.ENOSYS),
    # can send descriptors through a socket, where deleted files use disk space unseen: the filter cannot inspect the
    # message, and programs can use `send` and `write` instead
    DeniedSyscall("sendmsg", 46, 211),
    DeniedSyscall("sendmmsg", 307, 269),
    # reserves gigabytes of disk space before the next check of the watchdog
    DeniedSyscall("fallocate", 285, 47, errno.EOPNOTSUPP),
    # the machine
    DeniedSyscall("init_module", 175, 105),
    DeniedSyscall("finit_module", 313, 273),
    DeniedSyscall("delete_module", 176, 106),
    DeniedSyscall("kexec_load", 246, 104),
    DeniedSyscall("kexec_file_load", 320, 294),
    DeniedSyscall("reboot", 169, 142),
    DeniedSyscall("swapon", 167, 224),
    DeniedSyscall("swapoff", 168, 225),
    DeniedSyscall("acct", 163, 89),
    DeniedSyscall("quotactl", 179, 60),
    *_same_numbers(443, "quotactl_fd"),
    DeniedSyscall("syslog", 103, 116),
    DeniedSyscall("vhangup", 153, 58),
    DeniedSyscall("iopl", 172, None),
    DeniedSyscall("ioperm", 173, None),
    DeniedSyscall("uselib", 134, None),
    DeniedSyscall("sethostname", 170, 161),
    DeniedSyscall("setdomainname", 171, 162),
    DeniedSyscall("settimeofday", 164, 170),
    DeniedSyscall("adjtimex", 159, 171),
    DeniedSyscall("clock_settime", 227, 112),
    DeniedSyscall("clock_adjtime", 305, 266),
    # its flags are in memory, which a filter cannot read: the C library then uses `clone`
    DeniedSyscall("clone3", 435, 435, errno.ENOSYS),
)

DENIED_WITHOUT_CGROUP: Final[tuple[DeniedSyscall, ...]] = (
    # pages that only a pipe or a socket holds, each perhaps by one of its bytes
    DeniedSyscall("splice", 275, 76, errno.ENOSYS),
    DeniedSyscall("tee", 276, 77, errno.ENOSYS),
    DeniedSyscall("vmsplice", 278, 75, errno.ENOSYS),
    # the error after which libraries copy with `read` and `write`
    DeniedSyscall("sendfile", 40, 71, errno.ENOTSOCK),
)
"""Calls that are denied in addition if no control group counts memory, because only a control group would see
theirs."""

LAST_KNOWN: Final = 462
"""Calls with higher numbers are newer than this table and fail with ENOSYS, because their risk was never reviewed."""

_AF_UNIX: Final = 1
_NAMESPACE_FLAGS: Final = 0x7E02_0000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""

_DENIED_IOCTLS: Final = (0x5412, 0x541C, 0x4030_5828, 0x4030_5829, 0x4030_582A, 0x4030_582B, 0x4030_5839)
"""TIOCSTI and TIOCLINUX, which type into terminals of others, and FS_IOC_RESVSP and its variants, which reserve disk
space like `fallocate`."""

_DENIED_FCNTLS: Final = (1024, 1026)
"""F_SETLEASE and F_NOTIFY, which delay or watch other processes that open a file."""

_CLONE_THREAD: Final = 0x0001_0000
_CLONE_FILES: Final = 0x0400
_PR_SET_DUMPABLE: Final = 4
_SO_SNDBUF: Final = 7
_MAP_SHARED: Final = 0x01
_MAP_ANONYMOUS: Final = 0x20
_MAP_HUGETLB: Final = 0x0004_0000

_ARCHITECTURE: Final[dict[Machine, int]] = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_SOCKET: Final[dict[Machine, tuple[int, int]]] = {"x86_64": (41, 53), "aarch64": (198, 199)}
_CLONE: Final[dict[Machine, int]] = {"x86_64": 56, "aarch64": 220}
_MMAP: Final[dict[Machine, int]] = {"x86_64": 9, "aarch64": 222}
_PRCTL: Final[dict[Machine, int]] = {"x86_64": 157, "aarch64": 167}
_SETSOCKOPT: Final[dict[Machine, int]] = {"x86_64": 54, "aarch64": 208}
_IOCTL: Final[dict[Machine, int]] = {"x86_64": 16, "aarch64": 29}
_FCNTL: Final[dict[Machine, int]] = {"x86_64": 72, "aarch64": 25}

_LOAD: Final = 0x20
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_IF_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06

_ALLOW: Final = 0x7FFF_0000
_ERROR: Final = 0x0005_0000
_KILL_PROCESS: Final = 0x8000_0000

_NUMBER_AT: Final = 0
_ARCHITECTURE_AT: Final = 4
_ARGUMENTS_AT: Final = 16

Instruction = tuple[int, int, int, int]
"""Opcode, instructions to skip if the condition holds, instructions to skip if not, and operand."""


def seccomp_filter(machine: Machine) -> bytes:
    """Return the filter for programs on that machine, in the format that bubblewrap reads."""
    return _pack(_instructions(machine))


@cache
def uncounted_memory_filter(machine: Machine) -> bytes:
    """Return a second filter, for programs whose memory no control group counts."""
    return _pack(_uncounted_instructions(machine))


def _pack(instructions: Iterable[Instruction]) -> bytes:
    return b"".join(struct.pack("=HBBI", *each) for each in instructions)


def _instructions(machine: Machine) -> Iterable[Instruction]:
    # Another architecture numbers its system calls differently.
    yield (_LOAD, 0, 0, _ARCHITECTURE_AT)
    yield (_IF_EQUAL, 1, 0, _ARCHITECTURE[machine])
    yield (_RETURN, 0, 0, _KILL_PROCESS)
    yield (_LOAD, 0, 0, _NUMBER_AT)
    # This also covers calls of the x32 ABI, whose numbers have a high bit set.
    yield (_IF_AT_LEAST, 0, 1, LAST_KNOWN + 1)
    yield (_RETURN, 0, 0, _ERROR | errno.ENOSYS)
    yield from _deny_calls(DENIED_SYSCALLS, machine)
    for number in _SOCKET[machine]:
        yield from _check_argument(
            number, 0, ((_IF_EQUAL, 1, 0, _AF_UNIX), (_RETURN, 0, 0, _ERROR | errno.EAFNOSUPPORT))
        )
    yield from _check_argument(
        _CLONE[machine], 0, ((_IF_ANY_BIT, 0, 1, _NAMESPACE_FLAGS), (_RETURN, 0, 0, _ERROR | errno.EPERM))
    )
    # A thread with a separate descriptor table would hide its open files from the watchdog.
    own_files = ((_IF_ANY_BIT, 0, 2, _CLONE_THREAD), (_IF_ANY_BIT, 1, 0, _CLONE_FILES))
    yield from _check_argument(_CLONE[machine], 0, (*own_files, (_RETURN, 0, 0, _ERROR | errno.EPERM)))
    # Only root can inspect a process that is not dumpable.
    dumpable = ((_IF_EQUAL, 0, 1, _PR_SET_DUMPABLE), (_RETURN, 0, 0, _ERROR | errno.EPERM))
    yield from _check_argument(_PRCTL[machine], 0, dumpable)
    # Huge pages come from a machine-wide pool and count as the memory of no process.
    huge = ((_IF_ANY_BIT, 0, 1, _MAP_HUGETLB), (_RETURN, 0, 0, _ERROR | errno.ENOMEM))
    yield from _check_argument(_MMAP[machine], 3, huge)
    for request in _DENIED_IOCTLS:
        yield from _check_argument(
            _IOCTL[machine], 1, ((_IF_EQUAL, 0, 1, request), (_RETURN, 0, 0, _ERROR | errno.EPERM))
        )
    for command in _DENIED_FCNTLS:
        yield from _check_argument(
            _FCNTL[machine], 1, ((_IF_EQUAL, 0, 1, command), (_RETURN, 0, 0, _ERROR | errno.EPERM))
        )
    yield (_RETURN, 0, 0, _ALLOW)


def _uncounted_instructions(machine: Machine) -> Iterable[Instruction]:
    # The first filter already kills processes that make calls of another architecture.
    yield (_LOAD, 0, 0, _NUMBER_AT)
    yield from _deny_calls(DENIED_WITHOUT_CGROUP, machine)
    # Anonymous shared memory keeps its pages after it is unmapped.
    shared = ((_IF_ANY_BIT, 0, 2, _MAP_ANONYMOUS), (_IF_ANY_BIT, 0, 1, _MAP_SHARED))
    yield from _check_argument(_MMAP[machine], 3, (*shared, (_RETURN, 0, 0, _ERROR | errno.EPERM)))
    # Sockets count with their initial buffer, so report success and ignore the request, as the kernel may do too.
    yield from _check_argument(_SETSOCKOPT[machine], 2, ((_IF_EQUAL, 0, 1, _SO_SNDBUF), (_RETURN, 0, 0, _ERROR | 0)))
    yield (_RETURN, 0, 0, _ALLOW)


def _deny_calls(calls: Iterable[DeniedSyscall], machine: Machine) -> Iterable[Instruction]:
    for call in calls:
        number = call.x86_64 if machine == "x86_64" else call.aarch64
        if number is not None:
            yield from ((_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | call.error))


def _check_argument(number: int, argument: int, checks: tuple[Instruction, ...]) -> Iterable[Instruction]:
    """Check the lower half of one argument of that call, then load the call number again."""
    yield (_IF_EQUAL, 0, len(checks) + 2, number)
    yield (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument)
    yield from checks
    yield (_LOAD, 0, 0, _NUMBER_AT)
