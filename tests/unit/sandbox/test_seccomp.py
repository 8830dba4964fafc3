"""The filter of system calls, judged by a small machine that runs it as the kernel does."""

import errno
import struct

import pytest

from timeloom.sandbox.seccomp import (
    DENIED_SYSCALLS,
    DENIED_WITHOUT_CGROUP,
    LAST_KNOWN,
    Machine,
    seccomp_filter,
    uncounted_memory_filter,
)

ARCHITECTURES: dict[Machine, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES: list[Machine] = ["x86_64", "aarch64"]
ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000
SOCKET: dict[Machine, int] = {"x86_64": 41, "aarch64": 198}
CLONE: dict[Machine, int] = {"x86_64": 56, "aarch64": 220}
IOCTL: dict[Machine, int] = {"x86_64": 16, "aarch64": 29}
MMAP: dict[Machine, int] = {"x86_64": 9, "aarch64": 222}
PRCTL: dict[Machine, int] = {"x86_64": 157, "aarch64": 167}
SETSOCKOPT: dict[Machine, int] = {"x86_64": 54, "aarch64": 208}
FCNTL: dict[Machine, int] = {"x86_64": 72, "aarch64": 25}


def judged(machine: Machine, number: int, *arguments: int, architecture: int | None = None) -> int:
    """Return the filter's verdict on that call."""
    arch = ARCHITECTURES[machine] if architecture is None else architecture
    data = struct.pack("=IIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    return _judged(seccomp_filter(machine), data)


def judged_besides(machine: Machine, number: int, *arguments: int) -> int:
    """Return the verdict of the filter that is used without a memory cgroup."""
    data = struct.pack("=IIQ6Q", number, ARCHITECTURES[machine], 0, *arguments, *[0] * (6 - len(arguments)))
    return _judged(uncounted_memory_filter(machine), data)


def _judged(rules: bytes, data: bytes) -> int:
    program = list(struct.iter_unpack("=HBBI", rules))
    at = accumulator = 0
    while True:
        code, if_so, if_not, operand = program[at]
        match code:
            case 0x20:
                accumulator = struct.unpack_from("=I", data, operand)[0]
                skip = 0
            case 0x15:
                skip = if_so if accumulator == operand else if_not
            case 0x35:
                skip = if_so if accumulator >= operand else if_not
            case 0x45:
                skip = if_so if accumulator & operand else if_not
            case 0x06:
                return operand
            case _:
                raise AssertionError(f"an instruction of code {code:#x}")
        at += 1 + skip


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_refused_gives_its_error_and_all_else_is_allowed(machine: Machine) -> None:
    numbers = {getattr(each, machine): each.error for each in DENIED_SYSCALLS if getattr(each, machine) is not None}
    special = {SOCKET[machine], SOCKET[machine] + (12 if machine == "x86_64" else 1)}
    for number in range(LAST_KNOWN + 1):
        expected = ERROR | numbers[number] if number in numbers else ALLOW
        if number not in special:
            assert judged(machine, number) == expected, number


@pytest.mark.parametrize("machine", MACHINES)
def test_only_local_sockets_are_allowed(machine: Machine) -> None:
    refused = ERROR | errno.EAFNOSUPPORT
    assert judged(machine, SOCKET[machine], 1) == ALLOW
    assert {judged(machine, SOCKET[machine], family) for family in range(46) if family != 1} == {refused}
    # The kernel looks at the lower half only, and so does the filter.
    assert judged(machine, SOCKET[machine], 2 | 1 << 32) == refused


@pytest.mark.parametrize("machine", MACHINES)
def test_a_process_is_made_and_a_namespace_is_not(machine: Machine) -> None:
    thread, fork = 0x3D0F00, 0x1200011
    assert judged(machine, CLONE[machine], thread) == judged(machine, CLONE[machine], fork) == ALLOW
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert judged(machine, CLONE[machine], flag | 17) == ERROR | errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_a_thread_has_the_descriptors_of_its_process(machine: Machine) -> None:
    thread, spawned, files = 0x3D0F00, 0x4111, 0x400
    assert judged(machine, CLONE[machine], thread & ~files) == ERROR | errno.EPERM
    assert judged(machine, CLONE[machine], spawned) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_nobody_makes_itself_unreadable_and_other_options_of_a_process_can_be_set(machine: Machine) -> None:
    assert judged(machine, PRCTL[machine], 4, 0) == ERROR | errno.EPERM
    assert {judged(machine, PRCTL[machine], option, 0) for option in (1, 3, 15, 22, 38)} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_memory_is_mapped_but_not_from_the_machines_pool(machine: Machine) -> None:
    private, shared, huge = 0x22, 0x21, 0x40000
    assert judged(machine, MMAP[machine], 0, 4096, 3, private) == ALLOW
    assert judged(machine, MMAP[machine], 0, 4096, 3, shared) == ALLOW
    assert judged(machine, MMAP[machine], 0, 4096, 3, private | huge) == ERROR | errno.ENOMEM


@pytest.mark.parametrize("machine", MACHINES)
def test_where_no_group_counts_memory_it_is_not_taken_unseen(machine: Machine) -> None:
    private, shared, validated, of_file = 0x22, 0x21, 0x23, 0x01
    assert judged_besides(machine, MMAP[machine], 0, 4096, 3, private) == ALLOW
    assert judged_besides(machine, MMAP[machine], 0, 4096, 3, of_file) == ALLOW
    for flags in (shared, validated):
        assert judged_besides(machine, MMAP[machine], 0, 4096, 3, flags) == ERROR | errno.EPERM
    numbers = {getattr(each, machine): each.error for each in DENIED_WITHOUT_CGROUP}
    for number in range(LAST_KNOWN + 1):
        expected = ERROR | numbers[number] if number in numbers else ALLOW
        if number != MMAP[machine]:
            assert judged_besides(machine, number) == expected, number


@pytest.mark.parametrize("machine", MACHINES)
def test_a_larger_buffer_of_a_socket_is_granted_in_words_only(machine: Machine) -> None:
    larger, other = 7, 2
    assert judged_besides(machine, SETSOCKOPT[machine], 3, 1, larger) == ERROR
    assert judged_besides(machine, SETSOCKOPT[machine], 3, 1, other) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_nobody_types_for_another(machine: Machine) -> None:
    assert judged(machine, IOCTL[machine], 0, 0x5401) == ALLOW
    assert judged(machine, IOCTL[machine], 0, 0x5412) == ERROR | errno.EPERM
    assert judged(machine, IOCTL[machine], 0, 0x541C) == ERROR | errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_nobody_holds_up_or_watches_who_opens_a_file(machine: Machine) -> None:
    locks, lease, watch = (5, 6, 7, 37, 38), 1024, 1026
    assert {judged(machine, FCNTL[machine], 3, order) for order in locks} == {ALLOW}
    assert judged(machine, FCNTL[machine], 3, lease) == judged(machine, FCNTL[machine], 3, watch) == ERROR | errno.EPERM
    assert {"inotify_init", "inotify_init1", "fanotify_init"} <= {each.name for each in DENIED_SYSCALLS}


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_kind_are_none(machine: Machine) -> None:
    other = next(value for name, value in ARCHITECTURES.items() if name != machine)
    assert judged(machine, 1, architecture=other) == KILL
    assert judged(machine, 1, architecture=0x40000003) == KILL
    assert judged(machine, LAST_KNOWN + 1) == judged(machine, 0x40000000 | 1) == ERROR | errno.ENOSYS


def test_the_filter_fits_into_the_kernel_and_into_a_pipe() -> None:
    for machine in MACHINES:
        assert len(seccomp_filter(machine)) % 8 == 0
        assert len(seccomp_filter(machine)) // 8 < 4096
