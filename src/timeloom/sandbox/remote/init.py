"""The keeper: starts the executor as another user, keeps all that descends from it below itself, and ends it.

    python -I -m timeloom.sandbox.remote.init CELL        CELL is JSON; standard streams are the program's

It stays root, so that no program can signal it, has no secret in its memory or environment, and does nothing else.
SIGUSR1 asks the program to end; SIGTERM ends it, as the end of the supervisor does. Its exit code is the program's.
"""

import contextlib
import os
import signal
import sys
import time
from typing import Final, NoReturn

import msgspec

from timeloom.sandbox.processes.process_tree import Tree
from timeloom.sandbox.remote.drop_privileges import Cell, adopt_orphans, confine, end_with_parent

NOT_STARTED: Final = 126
"""The exit code where the executor could not be confined, and therefore was not started."""

_HEARD: Final = (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1)
_LOOK_S: Final = 0.005
_ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "OPENBLAS_NUM_THREADS": "1",
}


def main(arguments: list[str]) -> int:
    """Runs the executor of that cell to its end; the exit code as shells count it."""
    cell = msgspec.json.decode(arguments[0], type=Cell)
    adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    end_with_parent(signal.SIGTERM)
    executor = os.fork()
    if executor == 0:
        _become(cell)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        # They are the program's: their end must be seen although the keeper goes on.
        os.dup2(nowhere, stream)
    code = _wait(executor)
    _end_all()
    _reaped()
    return code


def _become(cell: Cell) -> NoReturn:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
        confine(cell)
        home = {"HOME": cell.work, "TMPDIR": cell.work, "MPLCONFIGDIR": f"{cell.work}/.matplotlib"}
        os.execve(sys.executable, [sys.executable, "-I", cell.bootstrap, cell.socket], {**_ENVIRONMENT, **home})
    except BaseException as error:  # noqa: BLE001 - whatever it is, nothing of the program may run
        os.write(2, f"the executor was not started: {error}\n".encode())
    os._exit(NOT_STARTED)


def _wait(executor: int) -> int:
    """Reaps what has ended until the executor has; hears what is asked for in between."""
    while True:
        heard = signal.sigwait(_HEARD)
        if heard == signal.SIGTERM:
            _end_all()
        elif heard == signal.SIGUSR1:
            _signal_all(signal.SIGTERM)
        for pid, status in _reaped():
            if pid == executor:
                code = os.waitstatus_to_exitcode(status)
                return 128 - code if code < 0 else code


def _end_all() -> None:
    """SIGKILL to everything below; when it returns none of it runs.

    They are stopped first: whoever is stopped does not fork, and still counts as a process of the user, so that a
    program cannot fork faster than it is ended.
    """
    stopped: set[int] = set()
    while new := set(_below()) - stopped:
        for pid in new:
            _signal(pid, signal.SIGSTOP)
        stopped |= new
    while left := [pid for pid in _below() if not _is_dead(pid)]:
        for pid in left:
            _signal(pid, signal.SIGKILL)
        time.sleep(_LOOK_S)


def _below() -> list[int]:
    return Tree(os.getpid()).pids()[1:]


def _is_dead(pid: int) -> bool:
    """Whether it has ended and only waits to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - nothing more than this is needed here
            return file.read().rpartition(b") ")[2][:1] in (b"Z", b"X")
    except OSError:
        return True


def _signal_all(by: signal.Signals) -> None:
    for pid in _below():
        _signal(pid, by)


def _signal(pid: int, by: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, by)


def _reaped() -> "list[tuple[int, int]]":
    """All that have ended, with their statuses."""
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
