"""A program that tries to escape from a task; it prints the result of each attempt as JSON."""

import ctypes
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
TRIES: dict[str, Callable[[], object]] = {}


def attempt(function: Callable[[], object]) -> Callable[[], object]:
    TRIES[function.__name__] = function
    return function


def call(number: int, *arguments: object) -> int:
    """Make a system call by its number on x86_64; numbers above 400 are the same on aarch64."""
    result = LIBC.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


@attempt
def read_shadow() -> object:
    return Path("/etc/shadow").read_text()


@attempt
def list_supervisor() -> object:
    return list(Path("/workspace/supervisor").iterdir())


@attempt
def read_descriptor() -> object:
    return Path("/workspace/supervisor/descriptors/secrets.yaml").read_text()


@attempt
def read_bundles() -> object:
    return list(Path("/workspace/bundles").iterdir())


@attempt
def environment_of_supervisor() -> object:
    return Path("/proc/1/environ").read_bytes().decode()


@attempt
def environment_of_keeper() -> object:
    return Path(f"/proc/{os.getppid()}/environ").read_bytes().decode()


@attempt
def memory_of_supervisor() -> object:
    with Path("/proc/1/mem").open("rb") as file:
        return file.read(1).hex()


@attempt
def root_of_supervisor() -> object:
    return list(Path("/proc/1/root").iterdir())


@attempt
def write_the_system() -> object:
    return Path("/usr/lib/escaped").write_text("x")


@attempt
def write_beside_the_folders() -> object:
    return Path("/workspace/escaped").write_text("x")


@attempt
def replace_the_socket() -> object:
    return Path("/workspace/sock/door").rename("/workspace/sock/other")


@attempt
def change_the_bootstrap() -> object:
    return Path("/workspace/sock/bootstrap.py").write_text("x")


@attempt
def reach_loopback() -> object:
    return socket.create_connection(("127.0.0.1", int(PORT)), 1).getpeername()


@attempt
def reach_credentials() -> object:
    return socket.create_connection(("169.254.170.2", 80), 1).getpeername()


@attempt
def send_udp() -> object:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(PORT)))


@attempt
def look_up_a_name() -> object:
    return socket.getaddrinfo("example.com", 80)


@attempt
def raw_socket() -> object:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).fileno()


@attempt
def packet_socket() -> object:
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).fileno()


@attempt
def netlink_socket() -> object:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).fileno()


@attempt
def virtual_socket() -> object:
    return socket.socket(40, socket.SOCK_STREAM).fileno()


@attempt
def pair_of_internet_sockets() -> object:
    return socket.socketpair(socket.AF_INET)[0].fileno()


@attempt
def trace_the_keeper() -> object:
    return call(101, 16, os.getppid(), 0, 0)


@attempt
def mount_something() -> object:
    return call(165, b"none", b"/workspace/work", b"tmpfs", 0, 0)


@attempt
def change_root() -> object:
    return os.chroot("/workspace/work")


@attempt
def new_user_namespace() -> object:
    return call(272, 0x10000000)


@attempt
def become_root() -> object:
    return os.setuid(0)


@attempt
def become_another() -> object:
    return os.setresuid(1, 1, 1)


@attempt
def give_a_file_to_root() -> object:
    Path("owned").write_text("x")
    return os.chown("owned", 0, 0)


@attempt
def make_a_device() -> object:
    return os.mknod("device", 0o60666, os.makedev(8, 0))


@attempt
def add_a_key() -> object:
    return call(248, b"user", b"name", b"x", 1, -3)


@attempt
def io_uring() -> object:
    return call(425, 1, ctypes.create_string_buffer(120))


@attempt
def load_a_program_into_the_kernel() -> object:
    return call(321, 0, 0, 0)


@attempt
def load_a_module() -> object:
    return call(175, b"", 0, b"")


@attempt
def kill_the_supervisor() -> object:
    return os.kill(1, signal.SIGKILL)


@attempt
def stop_the_keeper() -> object:
    return os.kill(os.getppid(), signal.SIGSTOP)


@attempt
def set_the_clock() -> object:
    return call(227, 0, struct.pack("qq", 0, 0))


@attempt
def raise_the_priority() -> object:
    return os.nice(-5)


@attempt
def real_time() -> object:
    return os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


@attempt
def more_processes() -> object:
    import resource  # noqa: PLC0415

    return resource.setrlimit(resource.RLIMIT_NPROC, (10_000, 10_000))


@attempt
def memory_of_nobody() -> object:
    return call(319, b"x", 0)


@attempt
def link_to_a_foreign_file() -> object:
    return os.link("/etc/passwd", "linked")


@attempt
def enter_without_the_token() -> object:
    other = socket.socket(socket.AF_UNIX)
    other.settimeout(5)
    other.connect("/workspace/sock/door")
    hello = json.dumps({"token": "0" * 32, "version": 2}).encode()
    other.sendall(struct.pack(">I", len(hello)) + hello)
    if other.recv(1) == b"":
        raise ConnectionRefusedError("the door was closed")
    return "let in"


@attempt
def send_an_endless_frame() -> object:
    other = socket.socket(socket.AF_UNIX)
    other.settimeout(5)
    other.connect("/workspace/sock/door")
    other.sendall(b"\xff\xff\xff\xff" + b"x" * 1000)
    if other.recv(1) == b"":
        raise ConnectionRefusedError("the door was closed")
    return "read"


@attempt
def abstract_socket() -> object:
    other = socket.socket(socket.AF_UNIX)
    return other.connect(f"\0{ABSTRACT}")


@attempt
def arguments_of_supervisor() -> object:
    return Path("/proc/1/cmdline").read_text()


@attempt
def read_the_supervisors_code() -> object:
    return Path(CODE).read_text()[:10]


@attempt
def names_of_the_network() -> object:
    return Path("/proc/net/unix").read_text()[:10]


@attempt
def keep_a_capability() -> object:
    lines = Path("/proc/self/status").read_text().splitlines()
    kept = [line for line in lines if line.startswith("Cap") and int(line.split()[1], 16)]
    if not kept:
        raise PermissionError("none is left")
    return kept


@attempt
def write_to_tmp() -> object:
    return Path("/tmp/escaped").write_text("x")


PORT, ABSTRACT, CODE = json.loads((Path(os.environ["OUTPUT_DIR"]) / "places.json").read_text())
found: dict[str, str] = {}
for name, function in TRIES.items():
    try:
        found[name] = f"did it: {function()!r}"[:200]
    except (OSError, ValueError) as error:
        found[name] = f"{type(error).__name__}: {error}"
(Path(os.environ["OUTPUT_DIR"]) / "found.json").write_text(json.dumps(found))
sys.stdout.write("still here\n")
