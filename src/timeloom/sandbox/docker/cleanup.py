"""Sweeping: containers that supervisors left which are dead are known by their labels, and removed."""

import fcntl
import os
from pathlib import Path
from typing import Final

from timeloom.sandbox.docker.engine import Engine
from timeloom.sandbox.docker.profile import LABEL_PREFIX

RUNS_LABEL: Final = f"{LABEL_PREFIX}runs"
SUPERVISOR_LABEL: Final = f"{LABEL_PREFIX}supervisor"
_LOCK: Final = "lock"


def labels_of(root: Path, supervisor: Path) -> dict[str, str]:
    """The labels of a supervisor's containers: where executions have their folders, and which of those is its own."""
    return {RUNS_LABEL: str(root), SUPERVISOR_LABEL: supervisor.name}


async def sweep(engine: Engine, root: Path) -> None:
    """Removes the containers of supervisors that are dead; those of other folders are others' to judge."""
    for container in await engine.containers(f"{RUNS_LABEL}={root}"):
        supervisor = (container.labels or {}).get(SUPERVISOR_LABEL, "")
        if not _is_alive(root / Path(supervisor).name):
            await engine.remove(container.id)


def _is_alive(folder: Path) -> bool:
    """Whether some process keeps the folder's lock; unlike its number, nobody else can come to have that."""
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
