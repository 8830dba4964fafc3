"""Kills sandbox processes whose bubblewrap was killed before it released them.

Such a process waits forever for a message from bubblewrap. It does not even die with its parent, because it has not
requested that yet. Therefore killing a starting bubblewrap kills its child first, and opening a sandbox looks for
orphans of dead supervisors.
"""

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from timeloom.sandbox.local.interpreter import SETUP_FILE, START_FILE
from timeloom.sandbox.processes.process_tree import ProcessTree

_COMMAND: Final = f"\0/etc/{START_FILE}\0/etc/{SETUP_FILE}\0".encode()
_GONE_MS: Final = 5000


def kill_starting(process: "subprocess.Popen[bytes]") -> None:
    """Kill a starting bubblewrap, and its child if it has one already."""
    if process.poll() is not None:
        return
    # A stopped process creates no child meanwhile.
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    for pid in ProcessTree(process.pid).pids()[1:]:
        _kill(pid)
    process.kill()
    process.wait()


def kill_orphans() -> None:
    """Kill the orphans of this user's dead supervisors."""
    for pid in find_orphans():
        _kill(pid)


def find_orphans() -> Iterator[int]:
    """Yield the pids that are pid 1 of a guest namespace and whose parent is not their bubblewrap."""
    for proc_folder in Path("/proc").iterdir():
        if not proc_folder.name.isdigit() or _COMMAND not in _read(proc_folder / "cmdline"):
            continue
        fields = dict(line.split(b":", 1) for line in _read(proc_folder / "status").splitlines())
        is_first = fields.get(b"NSpid", b"").split()[1:] == [b"1"]
        parent = fields.get(b"PPid", b"").strip().decode()
        if is_first and parent and _COMMAND not in _read(Path("/proc") / parent / "cmdline"):
            yield int(proc_folder.name)


def _kill(pid: int) -> None:
    """Kill the process, if permitted, and wait until it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            waiting = select.poll()
            waiting.register(handle, select.POLLIN)
            waiting.poll(_GONE_MS)
        finally:
            os.close(handle)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
