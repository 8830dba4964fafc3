"""Starts the interpreter as another user, adopts and reaps all its descendants, and kills them at the end.

    python -I -m timeloom.sandbox.remote.init SPEC        SPEC is JSON; standard streams are the program's

It stays root, so no program can signal it; it has no secret in its memory or environment and does nothing else. SIGUSR1
sends SIGTERM to the program. SIGTERM, or the end of the supervisor, kills it. Its exit code is the program's.
"""

import contextlib
import os
import signal
import sys
import time
from typing import Final, NoReturn

import msgspec

from timeloom.sandbox.processes.process_tree import ProcessTree
from timeloom.sandbox.remote.drop_privileges import (
    ConfinementSpec,
    adopt_orphans,
    confine_process,
    set_parent_death_signal,
)

NOT_STARTED: Final = 126
"""Exit code if the interpreter could not be confined and therefore was not started."""

_HANDLED_SIGNALS: Final = (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1)
_POLL_S: Final = 0.005
_ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "OPENBLAS_NUM_THREADS": "1",
}


def main(arguments: list[str]) -> int:
    """Run the interpreter of that spec to its end and return its exit code, as shells count it."""
    spec = msgspec.json.decode(arguments[0], type=ConfinementSpec)
    adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED_SIGNALS)
    set_parent_death_signal(signal.SIGTERM)
    interpreter = os.fork()
    if interpreter == 0:
        _exec_interpreter(spec)
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        # The streams belong to the program: the reader must see their end while this process still runs.
        os.dup2(devnull, stream)
    code = _wait_for_exit(interpreter)
    _kill_all()
    _reap()
    return code


def _exec_interpreter(spec: ConfinementSpec) -> NoReturn:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED_SIGNALS)
        confine_process(spec)
        home = {"HOME": spec.work, "TMPDIR": spec.work, "MPLCONFIGDIR": f"{spec.work}/.matplotlib"}
        os.execve(sys.executable, [sys.executable, "-I", spec.bootstrap, spec.socket], {**_ENVIRONMENT, **home})
    except BaseException as error:  # noqa: BLE001 - after any failure the program must not run
        os.write(2, f"the executor was not started: {error}\n".encode())
    os._exit(NOT_STARTED)


def _wait_for_exit(interpreter: int) -> int:
    """Reap processes until the interpreter has ended, and handle the signals of the supervisor."""
    while True:
        received = signal.sigwait(_HANDLED_SIGNALS)
        if received == signal.SIGTERM:
            _kill_all()
        elif received == signal.SIGUSR1:
            _signal_all(signal.SIGTERM)
        for pid, status in _reap():
            if pid == interpreter:
                code = os.waitstatus_to_exitcode(status)
                return 128 - code if code < 0 else code


def _kill_all() -> None:
    """Send SIGKILL to all descendants and return when none of them runs.

    They get SIGSTOP first: a stopped process cannot fork but still counts against the user's process limit. So a
    program cannot fork faster than it is killed.
    """
    stopped: set[int] = set()
    while new := set(_descendants()) - stopped:
        for pid in new:
            _signal(pid, signal.SIGSTOP)
        stopped |= new
    while left := [pid for pid in _descendants() if not _is_dead(pid)]:
        for pid in left:
            _signal(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _descendants() -> list[int]:
    return ProcessTree(os.getpid()).pids()[1:]


def _is_dead(pid: int) -> bool:
    """Return whether the process has ended and only waits to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - nothing more than this is needed here
            return file.read().rpartition(b") ")[2][:1] in (b"Z", b"X")
    except OSError:
        return True


def _signal_all(by: signal.Signals) -> None:
    for pid in _descendants():
        _signal(pid, by)


def _signal(pid: int, by: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, by)


def _reap() -> "list[tuple[int, int]]":
    """Reap all processes that have ended and return their pids and statuses."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, status))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
