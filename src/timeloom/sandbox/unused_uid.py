"""Chooses the host user of programs: an id without an account, so that no account can inspect them."""

import grp
import os
import pwd
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.folders.run_folder import FolderOwner

CANDIDATE_UIDS: Final = (range(1_900_001_001, 1_900_001_065), range(61_001, 61_184))
"""User ids that no system assigns: first above all container ranges, then, in case those are not mapped, below them."""

ID_MAPS: Final = (Path("/proc/self/uid_map"), Path("/proc/self/gid_map"))


def choose_owner() -> FolderOwner:
    """Return the host user of programs and their folders: the current user, unless that is root.

    For root it is a user id without an account, because any account with that id could inspect and impersonate
    programs. Only root can give folders to another user.
    """
    if os.geteuid() != 0:
        return FolderOwner(os.geteuid(), os.getegid())
    uid = find_unused_uid()
    return FolderOwner(uid, uid)


def find_unused_uid(
    candidates: Iterable[Iterable[int]] = CANDIDATE_UIDS,
    id_maps: Sequence[Path] = ID_MAPS,
    *,
    excluded: frozenset[int] = frozenset(),
) -> int:
    """Return the first id that no user and no group has; raise `SandboxUnavailableError` if none is free."""
    for uid in chain.from_iterable(candidates):
        if uid not in excluded and all(_is_mapped(uid, id_map) for id_map in id_maps) and not has_account(uid):
            return uid
    raise SandboxUnavailableError(
        "programs cannot be isolated: every number that they could have as a user belongs to an account here; run "
        "timeloom as another user than root"
    )


def has_account(uid: int) -> bool:
    """Return whether a user or a group of this machine has that id."""
    for lookup in (pwd.getpwuid, grp.getgrgid):
        try:
            lookup(uid)
        except KeyError:
            continue
        return True
    return False


def _is_mapped(uid: int, id_map: Path) -> bool:
    """Return whether this process's user namespace maps that id."""
    return any(first <= uid < first + count for first, count in _read_ranges(id_map))


def _read_ranges(id_map: Path) -> Iterator[tuple[int, int]]:
    for line in id_map.read_text(encoding="ascii").splitlines():
        first, _, count = line.split()
        yield int(first), int(count)
