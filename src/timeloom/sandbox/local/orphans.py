"""Orphans: first processes of sandboxes whose bubblewrap was killed in the moment before it let them go on.

Such a process waits for a word that nobody will say. It is held by nothing, not even by the death of its parent, for
which it has not asked yet; so who kills a bubblewrap that young kills its child first, and who opens a sandbox looks
for those that a dead supervisor left.
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
from timeloom.sandbox.processes.process_tree import Tree

_COMMAND: Final = f"\0/etc/{START_FILE}\0/etc/{SETUP_FILE}\0".encode()
_GONE_MS: Final = 5000


def kill_young(process: "subprocess.Popen[bytes]") -> None:
    """Kills a bubblewrap of which it is not known whether it has a child yet, and that child."""
    if process.poll() is not None:
        return
    # One that has stopped makes no child while we look.
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    for pid in Tree(process.pid).pids()[1:]:
        _kill(pid)
    process.kill()
    process.wait()


def kill_orphans() -> None:
    """Kills those that dead supervisors of this user left."""
    for pid in orphans():
        _kill(pid)


def orphans() -> Iterator[int]:
    """First processes of a namespace that are to become a program's, and whose parent is not the one that made them."""
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or _COMMAND not in _read(place / "cmdline"):
            continue
        fields = dict(line.split(b":", 1) for line in _read(place / "status").splitlines())
        is_first = fields.get(b"NSpid", b"").split()[1:] == [b"1"]
        parent = fields.get(b"PPid", b"").strip().decode()
        if is_first and parent and _COMMAND not in _read(Path("/proc") / parent / "cmdline"):
            yield int(place.name)


def _kill(pid: int) -> None:
    """The process is gone afterwards, if it is ours to kill."""
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
