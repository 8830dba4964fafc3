"""Berths: what an execution has outside of its sandbox, before there is one: its folders, its door and its group."""

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
    """The place of one execution on this machine; used once."""

    run: RunFolder
    door: Door
    token: str
    group: Group | None

    async def close(self) -> None:
        """Removes it; its processes are gone."""
        await self.door.close()
        await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        if self.group is not None:
            self.group.remove()
        self.run.remove()


class Berths:
    """Makes berths, and keeps one ready: making it takes a tenth of the time in which an interpreter starts."""

    def __init__(self, folders: RunFolders, owner: Owner, groups: tuple[Hierarchy, ...], ids: Ids) -> None:
        self.folders = folders
        self.owner = owner
        self._groups = groups
        self._ids = ids
        self._ready: Berth | None = None
        self._closed = False

    async def take(self) -> Berth:
        """One that nobody else has."""
        ready, self._ready = self._ready, None
        return ready or await self._make()

    async def prepare(self) -> None:
        """Makes one for whoever comes next."""
        if self._ready is not None or self._closed:
            return
        try:
            made = await self._make()
        except OSError as error:
            # Whoever comes next makes it themselves, or is told why it cannot be.
            _logger.debug("no place could be made for the next program: %s", error)
            return
        # Others may have done the same, or closed, meanwhile.
        if self._ready is not None or self._closed:
            await made.close()
        else:
            self._ready = made

    async def close(self) -> None:
        """Removes what nobody took, and the folder of all."""
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
