"""The relay takes every byte on, in both directions, and bears ends that do not read."""

import os
import selectors
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from timeloom.sandbox.docker.guest.relay import ConnectionPair


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The outer ends of two connections that a pair joins, in a separate event loop."""
    inner, near = socket.socketpair()
    outer, far = socket.socketpair()
    selector = selectors.DefaultSelector()
    ended = threading.Event()
    pair = ConnectionPair(selector, (near, far))
    pair.on_end = ended.set

    def loop() -> None:
        while not ended.is_set():
            for key, _ in selector.select(timeout=1):
                key.data()

    thread = threading.Thread(target=loop)
    thread.start()
    yield inner, outer
    inner.close()
    outer.close()
    thread.join(30)
    selector.close()
    assert ended.is_set()


def test_bytes_go_both_ways_at_once(ends: tuple[socket.socket, socket.socket]) -> None:
    texts = [os.urandom(3_000_000), os.urandom(2_000_000)]
    heard: list[bytes] = [b"", b""]

    def hear(at: int) -> None:
        # Nobody reads until all of it is on its way and waits.
        while len(heard[at]) < len(texts[1 - at]):
            heard[at] += ends[at].recv(4096 * 16)

    threads = [threading.Thread(target=ends[at].sendall, args=(texts[at],)) for at in (0, 1)]
    threads += [threading.Thread(target=hear, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert heard == texts[::-1]


def test_the_end_of_one_is_the_end_of_the_other(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].sendall(b"last words")
    assert ends[1].recv(100) == b"last words"
    ends[0].close()
    assert ends[1].recv(100) == b""


def test_what_runs_inside_imports_nothing_but_the_standard_library() -> None:
    inside = Path(__file__).parents[2] / "src/timeloom/sandbox/docker/guest"
    for name in ("launch.py", "relay.py"):
        lines = (inside / name).read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if line.startswith(("import timeloom", "from timeloom"))]
