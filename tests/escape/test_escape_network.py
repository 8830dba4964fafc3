"""The network: addresses of the machine, of the world, and sockets that have only a name."""

import contextlib
import socket
from collections.abc import Generator

import pytest

from tests.escape.escape_harness import EscapeHarness


@pytest.fixture(name="listening")
def _listening() -> Generator[list[socket.socket]]:
    """Host listeners: TCP and UDP on loopback and an abstract socket; none receives a connection."""
    tcp = socket.create_server(("127.0.0.1", 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0timeloom-escape-{tcp.getsockname()[1]}")
    abstract.listen()
    found = [tcp, udp, abstract]
    for each in found:
        each.setblocking(False)
    yield found
    for each in (tcp, abstract):
        with pytest.raises(BlockingIOError):
            each.accept()
    with pytest.raises(BlockingIOError):
        udp.recv(1)
    for each in found:
        each.close()


def test_loopback_is_not_ours(stage: EscapeHarness, listening: list[socket.socket]) -> None:
    tcp, udp, _ = (each.getsockname() for each in listening)
    stage.assert_contained(f"""
attempt("tcp", lambda: socket.create_connection({tcp!r}, 1))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", {udp!r}))
attempt("six", lambda: socket.create_connection(("::1", {tcp[1]}), 1))
attempt("world", lambda: socket.create_connection(("192.0.2.1", 80), 1))
attempt("metadata", lambda: socket.create_connection(("169.254.169.254", 80), 1))
""")


def test_abstract_sockets_are_not_ours(stage: EscapeHarness, listening: list[socket.socket]) -> None:
    name = bytes(listening[2].getsockname())
    stage.assert_contained(f"""
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect({name!r}))
for line in open("/proc/net/unix").readlines()[1:]:
    if line.rstrip().endswith(("docker.sock", "systemd")): print("ESCAPED", line)
""")


def test_names_are_not_resolved(stage: EscapeHarness) -> None:
    stage.assert_contained("""
attempt("dns", lambda: socket.getaddrinfo("example.org", 80))
attempt("by hand", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.53", 53)))
import urllib.request
attempt("http", lambda: urllib.request.urlopen("http://example.org", timeout=2))
""")


def test_only_local_sockets_can_be_made(stage: EscapeHarness) -> None:
    """Of all families only the one by which a program speaks to its supervisor: no raw, netlink or packet sockets."""
    stage.assert_contained("""
for family in range(0, 46):
    if family != socket.AF_UNIX:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            attempt(f"{family} {kind}", lambda: called("socket", family, kind, 0))
            attempt(f"pair {family} {kind}", lambda: called("socketpair", family, kind, 0, (ctypes.c_int * 2)()))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
""")


def test_there_is_no_interface(stage: EscapeHarness) -> None:
    done = stage.run("print([line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]])")
    with contextlib.suppress(ValueError):
        assert set(done.output.stdout.strip("[]\n").replace("'", "").split(", ")) <= {"lo", ""}, done.description
