"""The filter of system calls that every program of a sandbox runs under, as the kernel's BPF.

What is refused is what a program that computes and writes files never needs: the network, other processes' memory,
mounts and namespaces, and parts of the kernel in which most of its holes were found. Some calls are told not to exist
rather than forbidden, because libraries then do without them.
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
    """A system call that is refused: its numbers (none where a machine has no such call) and the error it gives."""

    name: str
    x86_64: int | None
    aarch64: int | None
    error: int = errno.EPERM


def _same(first: int, *names: str) -> tuple[Refused, ...]:
    """Calls that were added since machines number them alike."""
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
    # parts of the kernel with a history
    *_same(425, "io_uring_setup", "io_uring_enter", "io_uring_register"),
    Refused("io_setup", 206, 0, errno.ENOSYS),
    Refused("add_key", 248, 217),
    Refused("request_key", 249, 218),
    Refused("keyctl", 250, 219),
    Refused("bpf", 321, 280),
    Refused("perf_event_open", 298, 241),
    Refused("userfaultfd", 323, 282),
    Refused("fanotify_init", 300, 262),
    # of these all programs of a user share few
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
    # memory that belongs to no process, so that nobody who counts by process would see it
    Refused("memfd_create", 319, 279, errno.ENOSYS),
    Refused("memfd_secret", 447, 447, errno.ENOSYS),
    Refused("shmget", 29, 194, errno.ENOSYS),
    Refused("msgget", 68, 186, errno.ENOSYS),
    Refused("semget", 64, 190, errno.ENOSYS),
    Refused("mq_open", 240, 180, errno.ENOSYS),
    # descriptors on their way through a socket, by which removed files take disk unseen: the filter cannot look at what
    # else is sent by these, and `send` and `write` do without
    Refused("sendmsg", 46, 211),
    Refused("sendmmsg", 307, 269),
    # takes gigabytes of a disk in a moment, before anybody has looked
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
    # its flags are in memory, where a filter cannot look: the C library then uses `clone`
    Refused("clone3", 435, 435, errno.ENOSYS),
)

UNCOUNTED: Final[tuple[Refused, ...]] = (
    # pages that only a pipe or a socket holds, each perhaps by one of its bytes
    Refused("splice", 275, 76, errno.ENOSYS),
    Refused("tee", 276, 77, errno.ENOSYS),
    Refused("vmsplice", 278, 75, errno.ENOSYS),
    # the error by which libraries know that they have to copy by themselves
    Refused("sendfile", 40, 71, errno.ENOTSOCK),
)
"""What is refused besides where no control group counts memory, because only that would see it."""

LAST_KNOWN: Final = 462
"""Calls with higher numbers came later than this table and are told not to exist: nobody has judged them."""

_AF_UNIX: Final = 1
_NAMESPACE_FLAGS: Final = 0x7E02_0000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""

_REQUESTS: Final = (0x5412, 0x541C, 0x4030_5828, 0x4030_5829, 0x4030_582A, 0x4030_582B, 0x4030_5839)
"""TIOCSTI and TIOCLINUX, which type for others, and FS_IOC_RESVSP and its kin, which take disk as `fallocate` does."""

_ORDERS: Final = (1024, 1026)
"""F_SETLEASE and F_NOTIFY, which hold up or watch whoever else opens a file."""

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
"""Its code, how many instructions to skip if it holds and if not, and its operand."""


def seccomp_filter(machine: Machine) -> bytes:
    """The filter for programs of that machine, as bubblewrap reads it."""
    return _packed(_instructions(machine))


@cache
def uncounted_filter(machine: Machine) -> bytes:
    """A second filter for programs whose memory no control group counts; it refuses what nobody else could count."""
    return _packed(_of_uncounted(machine))


def _packed(instructions: Iterable[Instruction]) -> bytes:
    return b"".join(struct.pack("=HBBI", *each) for each in instructions)


def _instructions(machine: Machine) -> Iterable[Instruction]:
    # A program of another architecture would number its calls otherwise.
    yield (_LOAD, 0, 0, _ARCHITECTURE_AT)
    yield (_IF_EQUAL, 1, 0, _ARCHITECTURE[machine])
    yield (_RETURN, 0, 0, _KILL_PROCESS)
    yield (_LOAD, 0, 0, _NUMBER_AT)
    # This takes calls of the x32 form too, whose numbers have a high bit set.
    yield (_IF_AT_LEAST, 0, 1, LAST_KNOWN + 1)
    yield (_RETURN, 0, 0, _ERROR | errno.ENOSYS)
    yield from _refusing(REFUSED, machine)
    for number in _SOCKET[machine]:
        yield from _judged(number, 0, ((_IF_EQUAL, 1, 0, _AF_UNIX), (_RETURN, 0, 0, _ERROR | errno.EAFNOSUPPORT)))
    yield from _judged(
        _CLONE[machine], 0, ((_IF_ANY_BIT, 0, 1, _NAMESPACE_FLAGS), (_RETURN, 0, 0, _ERROR | errno.EPERM))
    )
    # A thread with descriptors of its own would have them where nobody looks.
    own_files = ((_IF_ANY_BIT, 0, 2, _CLONE_THREAD), (_IF_ANY_BIT, 1, 0, _CLONE_FILES))
    yield from _judged(_CLONE[machine], 0, (*own_files, (_RETURN, 0, 0, _ERROR | errno.EPERM)))
    # A process that cannot be dumped can be looked into by root alone.
    dumpable = ((_IF_EQUAL, 0, 1, _PR_SET_DUMPABLE), (_RETURN, 0, 0, _ERROR | errno.EPERM))
    yield from _judged(_PRCTL[machine], 0, dumpable)
    # Pages from a pool of the whole machine, which counts as nobody's memory.
    huge = ((_IF_ANY_BIT, 0, 1, _MAP_HUGETLB), (_RETURN, 0, 0, _ERROR | errno.ENOMEM))
    yield from _judged(_MMAP[machine], 3, huge)
    for request in _REQUESTS:
        yield from _judged(_IOCTL[machine], 1, ((_IF_EQUAL, 0, 1, request), (_RETURN, 0, 0, _ERROR | errno.EPERM)))
    for order in _ORDERS:
        yield from _judged(_FCNTL[machine], 1, ((_IF_EQUAL, 0, 1, order), (_RETURN, 0, 0, _ERROR | errno.EPERM)))
    yield (_RETURN, 0, 0, _ALLOW)


def _of_uncounted(machine: Machine) -> Iterable[Instruction]:
    # Calls of other architectures do not come so far: the first filter ends who makes them.
    yield (_LOAD, 0, 0, _NUMBER_AT)
    yield from _refusing(UNCOUNTED, machine)
    # Shared memory without a file keeps what was written to it when it is not mapped any more.
    shared = ((_IF_ANY_BIT, 0, 2, _MAP_ANONYMOUS), (_IF_ANY_BIT, 0, 1, _MAP_SHARED))
    yield from _judged(_MMAP[machine], 3, (*shared, (_RETURN, 0, 0, _ERROR | errno.EPERM)))
    # Sockets count with the buffer that they begin with. It is a wish, which the kernel does not always grant either.
    yield from _judged(_SETSOCKOPT[machine], 2, ((_IF_EQUAL, 0, 1, _SO_SNDBUF), (_RETURN, 0, 0, _ERROR | 0)))
    yield (_RETURN, 0, 0, _ALLOW)


def _refusing(calls: Iterable[Refused], machine: Machine) -> Iterable[Instruction]:
    for call in calls:
        number = call.x86_64 if machine == "x86_64" else call.aarch64
        if number is not None:
            yield from ((_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | call.error))


def _judged(number: int, argument: int, judging: tuple[Instruction, ...]) -> Iterable[Instruction]:
    """Judges the lower half of an argument of that call, and afterwards has the call's number loaded again."""
    yield (_IF_EQUAL, 0, len(judging) + 2, number)
    yield (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument)
    yield from judging
    yield (_LOAD, 0, 0, _NUMBER_AT)
