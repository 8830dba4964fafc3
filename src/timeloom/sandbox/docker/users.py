"""Chooses the users of a container's processes, and writes the account files that name the program's user inside.

The engine maps no user ids, so a number inside a container is the same number on the host. An account with that number
could read the files and the environment of programs, and signal them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timeloom.sandbox.folders.run_folder import FolderOwner
from timeloom.sandbox.unused_uid import choose_owner, find_unused_uid

_PASSWD: Final = "passwd"
_GROUP: Final = "group"


@dataclass(frozen=True, slots=True)
class ContainerUsers:
    """The users of a container's processes, inside and on the host."""

    program: FolderOwner
    """The user of programs and their folders."""

    relay_uid: int
    """User id and group id of a combined container's supervisor, after it has started the interpreter."""


@dataclass(frozen=True, slots=True)
class AccountFiles:
    """Files for `/etc` of a container."""

    passwd: Path
    group: Path


def choose_users() -> ContainerUsers:
    """Return the users: numbers without an account; the program has timeloom's user if timeloom is not root."""
    program = choose_owner()
    return ContainerUsers(program, find_unused_uid(excluded=frozenset({program.uid})))


def write_account_files(folder: Path, users: ContainerUsers) -> AccountFiles:
    """Write account files that name the program's user; without them, libraries would find no such user."""
    uid, gid = users.program.uid, users.program.gid
    return AccountFiles(
        _write(folder / _PASSWD, f"root:x:0:0::/:\nsandbox:x:{uid}:{gid}::/workspace/work:\n"),
        _write(folder / _GROUP, f"root:x:0:\nsandbox:x:{gid}:\n"),
    )


def _write(file: Path, text: str) -> Path:
    file.write_text(text, encoding="ascii")
    file.chmod(0o644)
    return file
