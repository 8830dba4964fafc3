"""Settings of the local sandbox."""

import os
import sys
import tempfile
from pathlib import Path

import msgspec

from timeloom.ports.sandbox import MIB
from timeloom.sandbox.folders.run_folder import FolderOwner
from timeloom.sandbox.unused_uid import choose_owner

SANDBOX_ID = 1001
"""User id and group id that a program sees as its own; on the host it has others, see `owner`."""


class LocalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a local sandbox."""

    python: Path = Path(sys.executable)
    """The interpreter for programs. They can use its packages but not change them."""

    folder: Path | None = None
    """Folder for the files of executions; by default a temporary folder of this user."""

    uid: int = SANDBOX_ID
    gid: int = SANDBOX_ID

    warm: int = 1
    """Number of interpreters that wait for a program, isolated and with loaded libraries; 0 starts each on demand."""

    preload: tuple[str, ...] = ("numpy", "pandas", "matplotlib")
    """Libraries that a waiting interpreter has loaded, if they are installed."""

    tmp_bytes: int = 64 * MIB
    """Capacity of `/tmp`, and also of `/dev/shm`; both are in memory."""

    grace_s: float = 0.5
    """Seconds between SIGTERM and SIGKILL for a program that ran too long."""

    start_s: float = 30.0
    """Seconds within which an interpreter must be ready for its program."""

    cgroups: bool = True
    """Whether to use control groups if the machine allows it; without them the watchdog limits memory."""

    def owner(self) -> FolderOwner:
        """Return the host user of programs and their folders."""
        return choose_owner()

    def root(self) -> Path:
        """Return the folder that contains the folders of all executions."""
        return self.folder or Path(tempfile.gettempdir()) / f"timeloom-sandbox-{os.geteuid()}"
