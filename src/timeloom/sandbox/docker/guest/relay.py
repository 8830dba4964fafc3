"""Relays connections in a combined container from the interpreter to the supervisor's broker socket.

It starts as root with a few capabilities, starts the interpreter as another user without a network, and then switches
to a third user without capabilities. It does not inspect the data: the broker socket checks tokens and frames.
"""
# ruff: noqa: PTH101, UP031 - as in `launch.py`

from __future__ import annotations

import ctypes
import os
import selectors
import socket
import struct
from functools import partial

MAX_CONNECTIONS = 16
PIECE_BYTES = 64 * 1024
CLONE_NEWNET, CLONE_NEWIPC = 0x4000_0000, 0x0800_0000
PR_CAPBSET_DROP, LAST_CAPABILITY = 24, 63
PEER = struct.Struct("3i")


class Relay:
    """Forwards each connection at one socket to a new connection at another."""

    def __init__(self, path: str, where: str) -> None:
        """Listen at `path`; `where` is `SOCKET:UID:GID:OWN`.

        These are the broker socket, the user and group of the interpreter, and the user that the relay becomes.
        """
        self._door, uid, gid, own = where.split(":")
        self._uid, self._gid, self._own = int(uid), int(gid), int(own)
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(path)
        os.chmod(path, 0o666)
        self._listening.listen(MAX_CONNECTIONS)
        self._listening.setblocking(False)
        self._open = 0

    def confine_interpreter(self) -> None:
        """In the interpreter process: drop network, shared memory and capabilities, and switch the user."""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET | CLONE_NEWIPC):
            raise OSError(ctypes.get_errno(), "no network of its own: %s" % os.strerror(ctypes.get_errno()))
        for capability in range(LAST_CAPABILITY + 1):
            # Capabilities that this kernel lacks cannot be dropped.
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.setgroups([])
        os.setresgid(self._gid, self._gid, self._gid)
        os.setresuid(self._uid, self._uid, self._uid)

    def start_relaying(self, selector: selectors.BaseSelector) -> None:
        """Give up root and every capability, and accept connections from then on."""
        os.setgroups([])
        os.setresgid(self._own, self._own, self._own)
        os.setresuid(self._own, self._own, self._own)
        self._selector = selector
        selector.register(self._listening, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        inner, _ = self._listening.accept()
        _, uid, _ = PEER.unpack(inner.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
        if uid != self._uid or self._open >= MAX_CONNECTIONS:
            inner.close()
            return
        outer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            outer.connect(self._door)
        except OSError:
            inner.close()
            outer.close()
            return
        self._open += 1
        pair = ConnectionPair(self._selector, (inner, outer))
        pair.on_end = self._on_pair_end

    def _on_pair_end(self) -> None:
        self._open -= 1


class ConnectionPair:
    """Two connections that forward to each other; when one ends, both are closed."""

    def __init__(self, selector: selectors.BaseSelector, ends: tuple[socket.socket, socket.socket]) -> None:
        self._selector, self._ends = selector, ends
        # Data from the other end that could not be sent yet; while there is some, no more is read.
        self._waiting: dict[socket.socket, bytes] = dict.fromkeys(ends, b"")
        self.on_end = lambda: None
        for end in ends:
            end.setblocking(False)
            selector.register(end, selectors.EVENT_READ, partial(self._move, end))

    def _move(self, end: socket.socket) -> None:
        if end.fileno() < 0:
            return
        other = self._ends[1] if end is self._ends[0] else self._ends[0]
        try:
            if self._waiting[end]:
                self._send(end)
            elif not self._waiting[other]:
                self._waiting[other] = end.recv(PIECE_BYTES)
                if not self._waiting[other]:
                    raise ConnectionResetError
                self._send(other)
        except BlockingIOError:
            pass
        except OSError:
            self._close()
            return
        self._update_events()

    def _send(self, end: socket.socket) -> None:
        try:
            sent = end.send(self._waiting[end])
        except BlockingIOError:
            sent = 0
        self._waiting[end] = self._waiting[end][sent:]

    def _update_events(self) -> None:
        """Read from an end while nothing waits for the other; write to an end while data waits for it."""
        for end, other in (self._ends, self._ends[::-1]):
            wanted = (0 if self._waiting[other] else selectors.EVENT_READ) | (
                selectors.EVENT_WRITE if self._waiting[end] else 0
            )
            move = partial(self._move, end)
            if end not in self._selector.get_map():
                if wanted:
                    self._selector.register(end, wanted, move)
            elif wanted:
                self._selector.modify(end, wanted, move)
            else:
                self._selector.unregister(end)

    def _close(self) -> None:
        for end in self._ends:
            if end in self._selector.get_map():
                self._selector.unregister(end)
            end.close()
        self.on_end()
