"""Removes the containers of dead supervisors, which it recognizes by their labels."""

import fcntl
import os
from pathlib import Path
from typing import Final

from timeloom.sandbox.docker.engine import ContainerEngine
from timeloom.sandbox.docker.profile import LABEL_PREFIX

RUNS_LABEL: Final = f"{LABEL_PREFIX}runs"
SUPERVISOR_LABEL: Final = f"{LABEL_PREFIX}supervisor"
_LOCK: Final = "lock"


def supervisor_labels(root: Path, supervisor: Path) -> dict[str, str]:
    """Return the labels of a supervisor's containers: the root of all executions and the supervisor's folder name."""
    return {RUNS_LABEL: str(root), SUPERVISOR_LABEL: supervisor.name}


async def remove_dead_containers(engine: ContainerEngine, root: Path) -> None:
    """Remove the containers of dead supervisors of this root; containers of other roots are ignored."""
    for container in await engine.list_containers(f"{RUNS_LABEL}={root}"):
        supervisor = (container.labels or {}).get(SUPERVISOR_LABEL, "")
        if not _is_alive(root / Path(supervisor).name):
            await engine.remove(container.id)


def _is_alive(folder: Path) -> bool:
    """Return whether a process holds the folder's lock, which unlike a pid cannot be reused."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
