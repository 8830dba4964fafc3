"""Runs as first process of a container: starts the interpreter under seccomp and ends with it or the supervisor.

    python -I launch.py SOCKET PRELOAD ADDRESS_SPACE RELAY      the token is the first line of standard input

It imports only the standard library of Python 3.9 or newer. It reaps orphaned processes, and when it ends, the kernel
kills everything else in the container. Its standard input ends when the supervisor does. With RELAY it also contains
the supervisor's part of a combined container, see `relay.py`. An unused argument is `-`.
"""
# ruff: noqa: PTH100, PTH118, PTH120, PTH123, UP031 - it starts with every container: few imports

from __future__ import annotations

import ctypes
import importlib
import os
import resource
import selectors
import signal
import struct
import sys
import time
from functools import partial

HERE = os.path.dirname(os.path.abspath(__file__))
BOOTSTRAP = os.path.join(HERE, "bootstrap.py")
FILTER = os.path.join(HERE, "filter.bpf")
ENVIRONMENT = {
    "HOME": "/workspace/work",
    "LANG": "C.UTF-8",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp/matplotlib",
    "OMP_NUM_THREADS": "1",
    # Every library thread counts as a process, and more threads get no more processor time.
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "TMPDIR": "/tmp",
}
NOT_STARTED = 125
OOM_REPORT_S = 0.15
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 4, 22, 38
SECCOMP_MODE_FILTER = 2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from timeloom.sandbox.docker.guest.relay import Relay

libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    """Run the interpreter and return its exit code, as shells count it."""
    # Other processes of this user can neither inspect nor control this process.
    prctl(PR_SET_DUMPABLE, 0)
    path, preload, address_space, where = arguments
    token = read_first_line(0)
    loop = ProcessLoop()
    options = [] if preload == "-" else ["--preload", preload]
    if where == "-":
        return loop.run(start_interpreter([path, *options], token, partial(limit_address_space, int(address_space))))
    sys.path.insert(0, HERE)
    relay: Relay = importlib.import_module("relay").Relay(path, where)

    def enter() -> None:
        relay.confine_interpreter()
        limit_address_space(int(address_space))

    child = start_interpreter([path, *options], token, enter)
    relay.start_relaying(loop.selector)
    return loop.run(child)


def read_first_line(descriptor: int) -> bytes:
    """Read the first line byte by byte, so that nothing after it is consumed."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            raise SystemExit("the supervisor is gone")
        line += byte
    return line


def limit_address_space(address_space: int) -> None:
    """Limit the address space, so that a process that asks for too much gets an error instead of a kill."""
    resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))


def start_interpreter(arguments: list[str], token: bytes, enter: Callable[[], None]) -> int:
    """Start the interpreter with only its standard streams and return its pid."""
    reading, writing = os.pipe()
    os.write(writing, token)
    os.close(writing)
    child = os.fork()
    if child:
        os.close(reading)
        return child
    try:
        os.dup2(reading, 0)
        os.closerange(3, 1024)
        prctl(PR_SET_DUMPABLE, 1)
        # When memory runs out, the kernel kills the program, not this process.
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("800")
        enter()
        apply_seccomp()
        os.execve(sys.executable, [sys.executable, "-I", BOOTSTRAP, *arguments], ENVIRONMENT)
    except BaseException as error:  # noqa: BLE001 - the child must never continue as this program
        os.write(2, ("the interpreter could not be started: %s\n" % error).encode())
    finally:
        os._exit(NOT_STARTED)


def apply_seccomp() -> None:
    """Forbid new privileges and apply the seccomp filter to this process and its children."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    with open(FILTER, "rb") as file:
        program = file.read()
    held = ctypes.create_string_buffer(program, len(program))
    count = len(program) // 8
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", count, ctypes.addressof(held)))
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(header))


def prctl(option: int, *values: int) -> None:
    """Call `prctl`; raise `OSError` if it fails."""
    given = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    if libc.prctl(option, *given):
        raise OSError(ctypes.get_errno(), "prctl %d: %s" % (option, os.strerror(ctypes.get_errno())))


class ProcessLoop:
    """Waits for the interpreter, for the end of the supervisor, and for registered descriptors with callbacks."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        waking, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        # Pid 1 receives only signals for which it has a handler, so the default action blocks SIGINT from inside.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self.selector.register(waking, selectors.EVENT_READ, lambda: os.read(waking, 4096))
        self.selector.register(0, selectors.EVENT_READ, self._on_input)

    def run(self, child: int) -> int:
        """Run until the interpreter ends and return its exit code."""
        while True:
            for key, _ in self.selector.select():
                key.data()
            status = reap_children(child)
            if status is not None:
                # Its last output may have arrived since.
                for key, _ in self.selector.select(0):
                    key.data()
                return exit_code(status)

    def _on_input(self) -> None:
        if not os.read(0, 4096):
            # The supervisor is gone, so no one needs the result; the kernel kills all other processes.
            os._exit(NOT_STARTED)


def reap_children(child: int) -> int | None:
    """Reap all processes that have ended and return the interpreter's status, if it is among them."""
    child_status = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return child_status
        if not pid:
            return child_status
        if pid == child:
            child_status = status


def exit_code(status: int) -> int:
    """Return the exit code as shells count it."""
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    if os.WTERMSIG(status) == signal.SIGKILL:
        # If it was the OOM killer, the host can see that only while this container runs.
        time.sleep(OOM_REPORT_S)
    return 128 + os.WTERMSIG(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
