"""Allocates the host resources of an execution: its folders, broker socket and control group."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from timeloom.ports.ids import Ids
from timeloom.ports.sandbox import ExecutionLimits
from timeloom.sandbox.broker_socket import BrokerSocket
from timeloom.sandbox.folders.run_folder import FolderOwner, RunFolder, RunFolders
from timeloom.sandbox.processes.cgroup import Cgroup, CgroupHierarchy, create_cgroup

SOCKET_NAME: Final = "door"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HostResources:
    """The host resources of one execution; used once."""

    run: RunFolder
    broker_socket: BrokerSocket
    token: str
    cgroup: Cgroup | None

    async def close(self) -> None:
        """Release the resources; the processes must be gone."""
        await self.broker_socket.close()
        await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        if self.cgroup is not None:
            self.cgroup.remove()
        self.run.remove()


class HostResourcePool:
    """Allocates host resources and keeps one set ready, because creating it takes a tenth of an interpreter start."""

    def __init__(self, folders: RunFolders, owner: FolderOwner, groups: tuple[CgroupHierarchy, ...], ids: Ids) -> None:
        self.folders = folders
        self.owner = owner
        self._hierarchies = groups
        self._ids = ids
        self._ready: HostResources | None = None
        self._closed = False

    async def acquire(self) -> HostResources:
        """Return a set of resources for exclusive use."""
        ready, self._ready = self._ready, None
        return ready or await self._create()

    async def prepare(self) -> None:
        """Create the set for the next execution."""
        if self._ready is not None or self._closed:
            return
        try:
            made = await self._create()
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

    async def _create(self) -> HostResources:
        run = self.folders.create(self.owner)
        token = f"{self._ids.bits():x}{self._ids.bits():x}"
        try:
            broker_socket = await BrokerSocket.open(
                run.sock / SOCKET_NAME, token=token, uids=frozenset({self.owner.uid})
            )
        except BaseException:
            run.remove()
            raise
        return HostResources(
            run, broker_socket, token, create_cgroup(self._hierarchies, run.path.name, ExecutionLimits())
        )
