"""Runs a program on a pseudo-terminal and reads its screen."""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import pyte

DEADLINE_S = 60.0
"""Longest wait for a text to appear on a slow and busy machine; nothing is expected to take that long."""


class PseudoTerminal:
    """Runs `timeloom` on a new terminal: types text and waits for output."""

    def __init__(self, *arguments: str, columns: int = 80, rows: int = 24, environ: Mapping[str, str] | None = None):
        self._screen = pyte.HistoryScreen(columns, rows, history=5000)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        command = [sys.executable, "-m", "timeloom", *arguments]
        # The environment of the tests may set another terminal size.
        others = ("NO_COLOR", "FORCE_HYPERLINK", "COLUMNS", "LINES")
        known = {name: value for name, value in os.environ.items() if name not in others}
        size = struct.pack("HHHH", rows, columns, 0, 0)
        self._pid, self._fd = pty.fork()
        if not self._pid:
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            os.execve(sys.executable, command, known | {"TERM": "xterm-256color"} | dict(environ or {}))
        self._status: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._status is None:
            os.kill(self._pid, 9)
            os.waitpid(self._pid, 0)
        os.close(self._fd)

    @property
    def text(self) -> str:
        """All text on the screen and in the scroll-back."""
        above = ["".join(line[x].data for x in range(self._screen.columns)) for line in self._screen.history.top]
        return "\n".join(line.rstrip() for line in (*above, *self._screen.display)).rstrip()

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def enter(self, text: str) -> None:
        self.type(text + "\r")

    def wait(self, *words: str) -> str:
        """Wait until all of these texts appear and return the screen text."""
        end = time.monotonic() + DEADLINE_S
        while missing := [one for one in words if one not in self.text]:
            if time.monotonic() > end or not self._read():
                raise AssertionError(f"{missing} did not appear in:\n{self.text}")
        return self.text

    def wait_gone(self, words: str) -> str:
        """Wait until this text disappears and return the screen text."""
        end = time.monotonic() + DEADLINE_S
        while words in self.text:
            if time.monotonic() > end or not self._read():
                raise AssertionError(f"{words} did not go from:\n{self.text}")
        return self.text

    def wait_exit(self) -> int:
        """Wait until the program exits by itself and return the exit code."""
        end = time.monotonic() + DEADLINE_S
        while self._read():
            assert time.monotonic() < end, f"it did not end:\n{self.text}"
        self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._status

    def _read(self) -> bool:
        """Read available output; return whether more can follow."""
        ready, _, _ = select.select([self._fd], [], [], 0.2)
        if not ready:
            return True
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)


def escape_kinds(raw: bytes) -> set[bytes]:
    """Return the kinds of escape sequences: the final letter of each CSI, or the first character of any other."""
    found = re.findall(rb"\x1b(?:\[[0-9;?]*([@-~])|([^\[]))", raw)
    return {final or other for final, other in found}
