"""Settings of the local sandbox."""

import os
import sys
import tempfile
from pathlib import Path

import msgspec

from timeloom.ports.sandbox import MIB
from timeloom.sandbox.folders.run_folder import Owner
from timeloom.sandbox.local.unused_uid import nobodys_number

SANDBOX_ID = 1001
"""The user and the group that a program sees itself as; on the host it is another one, see `owner`."""


class LocalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a local sandbox is made with."""

    python: Path = Path(sys.executable)
    """The interpreter of the programs; they see its packages, and cannot change them."""

    folder: Path | None = None
    """Where the folders of executions are made; a temporary one of this user where none is named."""

    uid: int = SANDBOX_ID
    gid: int = SANDBOX_ID

    warm: int = 1
    """Interpreters that wait for a program, isolated and with their libraries loaded; 0 starts each when needed."""

    preload: tuple[str, ...] = ("numpy", "pandas", "matplotlib")
    """Libraries that a waiting interpreter has loaded, if they are installed."""

    tmp_bytes: int = 64 * MIB
    """What `/tmp`, and `/dev/shm` as well, can hold; both are in memory."""

    grace_s: float = 0.5
    """Between asking a program that took too long to end, and ending it."""

    start_s: float = 30.0
    """How long an interpreter may take to begin to wait for its program."""

    cgroups: bool = True
    """Whether the kernel's control groups are used where they can be; without them the watchdog limits memory."""

    def owner(self) -> Owner:
        """Who a program is on this machine, and to whom its folders belong: where we are not root, ourselves.

        Where we are, it is a number that no account has: whoever had it could look into programs and speak for them.
        """
        if os.geteuid() != 0:
            return Owner(os.geteuid(), os.getegid())
        number = nobodys_number()
        return Owner(number, number)

    def root(self) -> Path:
        """The folder under which executions have theirs."""
        return self.folder or Path(tempfile.gettempdir()) / f"timeloom-sandbox-{os.geteuid()}"
