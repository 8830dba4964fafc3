"""Allocates the host resources of an execution: its folders, broker socket and control group."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from timeloom.ports.ids import Ids
from timeloom.ports.sandbox import Limits
from timeloom.sandbox.broker_socket import Door
from timeloom.sandbox.folders.run_folder import Owner, RunFolder, RunFolders
from timeloom.sandbox.processes.cgroup import Group, Hierarchy, make_group

SOCKET: Final = "door"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Berth:
    """The host resources of one execution; used once."""

    run: RunFolder
    door: Door
    token: str
    group: Group | None

    async def close(self) -> None:
        """Release the resources; the processes must be gone."""
        await self.door.close()
        await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        if self.group is not None:
            self.group.remove()
        self.run.remove()


class Berths:
    """Allocates host resources and keeps one set ready, because creating it takes a tenth of an interpreter start."""

    def __init__(self, folders: RunFolders, owner: Owner, groups: tuple[Hierarchy, ...], ids: Ids) -> None:
        self.folders = folders
        self.owner = owner
        self._groups = groups
        self._ids = ids
        self._ready: Berth | None = None
        self._closed = False

    async def take(self) -> Berth:
        """Return a set of resources for exclusive use."""
        ready, self._ready = self._ready, None
        return ready or await self._make()

    async def prepare(self) -> None:
        """Create the set for the next execution."""
        if self._ready is not None or self._closed:
            return
        try:
            made = await self._make()
        except OSError as error:
            # The next execution tries again and reports the error if it fails too.
            _logger.debug("could not prepare host resources for the next program: %s", error)
            return
        # Another task may have prepared a set, or closed this, meanwhile.
        if self._ready is not None or self._closed:
            await made.close()
        else:
            self._ready = made

    async def close(self) -> None:
        """Remove the unused set and the folder of all executions."""
        self._closed = True
        if self._ready is not None:
            await self._ready.close()
            self._ready = None
        await asyncio.to_thread(self.folders.close)

    async def _make(self) -> Berth:
        run = self.folders.make(self.owner)
        token = f"{self._ids.bits():x}{self._ids.bits():x}"
        try:
            door = await Door.open(run.sock / SOCKET, token=token, uids=frozenset({self.owner.uid}))
        except BaseException:
            run.remove()
            raise
        return Berth(run, door, token, make_group(self._groups, run.path.name, Limits()))
