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
class Refused:
    """A denied system call: its number on each machine (None if the machine lacks it) and its error."""

    name: str
    x86_64: int | None
    aarch64: int | None
    error: int = errno.EPERM


def _same(first: int, *names: str) -> tuple[Refused, ...]:
    """Return denied calls with consecutive numbers that are the same on all machines."""
    return tuple(Refused(name, first + at, first + at) for at, name in enumerate(names))


REFUSED: Final[tuple[Refused, ...]] = (
    # other processes
    Refused("ptrace", 101, 117),
    Refused("process_vm_readv", 310, 270),
    Refused("process_vm_writev", 311, 271),
    Refused("kcmp", 312, 272),
    *_same(438, "pidfd_getfd"),
    *_same(440, "process_madvise"),
    # mounts and namespaces
    Refused("mount", 165, 40),
    Refused("umount2", 166, 39),
    Refused("pivot_root", 155, 41),
    Refused("chroot", 161, 51),
    *_same(428, "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick"),
    *_same(442, "mount_setattr"),
    *_same(457, "statmount", "listmount"),
    Refused("unshare", 272, 97),
    Refused("setns", 308, 268),
    Refused("name_to_handle_at", 303, 264),
    Refused("open_by_handle_at", 304, 265),
    # parts of the kernel with a history of vulnerabilities
    *_same(425, "io_uring_setup", "io_uring_enter", "io_uring_register"),
    Refused("io_setup", 206, 0, errno.ENOSYS),
    Refused("add_key", 248, 217),
    Refused("request_key", 249, 218),
    Refused("keyctl", 250, 219),
    Refused("bpf", 321, 280),
    Refused("perf_event_open", 298, 241),
    Refused("userfaultfd", 323, 282),
    Refused("fanotify_init", 300, 262),
    # all programs of a user share a small number of these
    Refused("inotify_init", 253, None, errno.ENOSYS),
    Refused("inotify_init1", 294, 26, errno.ENOSYS),
    Refused("lookup_dcookie", 212, 18),
    Refused("modify_ldt", 154, None),
    Refused("personality", 135, 92),
    Refused("remap_file_pages", 216, 234),
    Refused("migrate_pages", 256, 238),
    Refused("move_pages", 279, 239),
    Refused("mbind", 237, 235, errno.ENOSYS),
    Refused("set_mempolicy", 238, 237, errno.ENOSYS),
    # memory that belongs to no process, which an account by process would miss
    Refused("memfd_create", 319, 279, errno.ENOSYS),
    Refused("memfd_secret", 447, 447, errno.ENOSYS),
    Refused("shmget", 29, 194, errno.ENOSYS),
    Refused("msgget", 68, 186, errno.ENOSYS),
    Refused("semget", 64, 190, errno.ENOSYS),
    Refused("mq_open", 240, 180, errno.ENOSYS),
    # can send descriptors through a socket, where deleted files use disk space unseen: the filter cannot inspect the
    # message, and programs can use `send` and `write` instead
    Refused("sendmsg", 46, 211),
    Refused("sendmmsg", 307, 269),
    # reserves gigabytes of disk space before the next check of the watchdog
    Refused("fallocate", 285, 47, errno.EOPNOTSUPP),
    # the machine
    Refused("init_module", 175, 105),
    Refused("finit_module", 313, 273),
    Refused("delete_module", 176, 106),
    Refused("kexec_load", 246, 104),
    Refused("kexec_file_load", 320, 294),
    Refused("reboot", 169, 142),
    Refused("swapon", 167, 224),
    Refused("swapoff", 168, 225),
    Refused("acct", 163, 89),
    Refused("quotactl", 179, 60),
    *_same(443, "quotactl_fd"),
    Refused("syslog", 103, 116),
    Refused("vhangup", 153, 58),
    Refused("iopl", 172, None),
    Refused("ioperm", 173, None),
    Refused("uselib", 134, None),
    Refused("sethostname", 170, 161),
    Refused("setdomainname", 171, 162),
    Refused("settimeofday", 164, 170),
    Refused("adjtimex", 159, 171),
    Refused("clock_settime", 227, 112),
    Refused("clock_adjtime", 305, 266),
    # its flags are in memory, which a filter cannot read: the C library then uses `clone`
    Refused("clone3", 435, 435, errno.ENOSYS),
)

UNCOUNTED: Final[tuple[Refused, ...]] = (
    # pages that only a pipe or a socket holds, each perhaps by one of its bytes
    Refused("splice", 275, 76, errno.ENOSYS),
    Refused("tee", 276, 77, errno.ENOSYS),
    Refused("vmsplice", 278, 75, errno.ENOSYS),
    # the error after which libraries copy with `read` and `write`
    Refused("sendfile", 40, 71, errno.ENOTSOCK),
)
"""Calls that are denied in addition if no control group counts memory, because only a control group would see
theirs."""

LAST_KNOWN: Final = 462
"""Calls with higher numbers are newer than this table and fail with ENOSYS, because their risk was never reviewed."""

_AF_UNIX: Final = 1
_NAMESPACE_FLAGS: Final = 0x7E02_0000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""

_REQUESTS: Final = (0x5412, 0x541C, 0x4030_5828, 0x4030_5829, 0x4030_582A, 0x4030_582B, 0x4030_5839)
"""TIOCSTI and TIOCLINUX, which type into terminals of others, and FS_IOC_RESVSP and its variants, which reserve disk
space like `fallocate`."""

_ORDERS: Final = (1024, 1026)
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
    return _packed(_instructions(machine))


@cache
def uncounted_filter(machine: Machine) -> bytes:
    """Return a second filter, for programs whose memory no control group counts."""
    return _packed(_of_uncounted(machine))


def _packed(instructions: Iterable[Instruction]) -> bytes:
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
    yield from _refusing(REFUSED, machine)
    for number in _SOCKET[machine]:
        yield from _judged(number, 0, ((_IF_EQUAL, 1, 0, _AF_UNIX), (_RETURN, 0, 0, _ERROR | errno.EAFNOSUPPORT)))
    yield from _judged(
        _CLONE[machine], 0, ((_IF_ANY_BIT, 0, 1, _NAMESPACE_FLAGS), (_RETURN, 0, 0, _ERROR | errno.EPERM))
    )
    # A thread with a separate descriptor table would hide its open files from the watchdog.
    own_files = ((_IF_ANY_BIT, 0, 2, _CLONE_THREAD), (_IF_ANY_BIT, 1, 0, _CLONE_FILES))
    yield from _judged(_CLONE[machine], 0, (*own_files, (_RETURN, 0, 0, _ERROR | errno.EPERM)))
    # Only root can inspect a process that is not dumpable.
    dumpable = ((_IF_EQUAL, 0, 1, _PR_SET_DUMPABLE), (_RETURN, 0, 0, _ERROR | errno.EPERM))
    yield from _judged(_PRCTL[machine], 0, dumpable)
    # Huge pages come from a machine-wide pool and count as the memory of no process.
    huge = ((_IF_ANY_BIT, 0, 1, _MAP_HUGETLB), (_RETURN, 0, 0, _ERROR | errno.ENOMEM))
    yield from _judged(_MMAP[machine], 3, huge)
    for request in _REQUESTS:
        yield from _judged(_IOCTL[machine], 1, ((_IF_EQUAL, 0, 1, request), (_RETURN, 0, 0, _ERROR | errno.EPERM)))
    for order in _ORDERS:
        yield from _judged(_FCNTL[machine], 1, ((_IF_EQUAL, 0, 1, order), (_RETURN, 0, 0, _ERROR | errno.EPERM)))
    yield (_RETURN, 0, 0, _ALLOW)


def _of_uncounted(machine: Machine) -> Iterable[Instruction]:
    # The first filter already kills processes that make calls of another architecture.
    yield (_LOAD, 0, 0, _NUMBER_AT)
    yield from _refusing(UNCOUNTED, machine)
    # Anonymous shared memory keeps its pages after it is unmapped.
    shared = ((_IF_ANY_BIT, 0, 2, _MAP_ANONYMOUS), (_IF_ANY_BIT, 0, 1, _MAP_SHARED))
    yield from _judged(_MMAP[machine], 3, (*shared, (_RETURN, 0, 0, _ERROR | errno.EPERM)))
    # Sockets count with their initial buffer, so report success and ignore the request, as the kernel may do too.
    yield from _judged(_SETSOCKOPT[machine], 2, ((_IF_EQUAL, 0, 1, _SO_SNDBUF), (_RETURN, 0, 0, _ERROR | 0)))
    yield (_RETURN, 0, 0, _ALLOW)


def _refusing(calls: Iterable[Refused], machine: Machine) -> Iterable[Instruction]:
    for call in calls:
        number = call.x86_64 if machine == "x86_64" else call.aarch64
        if number is not None:
            yield from ((_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | call.error))


def _judged(number: int, argument: int, judging: tuple[Instruction, ...]) -> Iterable[Instruction]:
    """Check the lower half of one argument of that call, then load the call number again."""
    yield (_IF_EQUAL, 0, len(judging) + 2, number)
    yield (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument)
    yield from judging
    yield (_LOAD, 0, 0, _NUMBER_AT)
