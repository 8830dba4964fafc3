"""Forwards entries that other processes write to the readers of a conversation."""

import asyncio

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.store import Store
from timeloom.runtime.hub.events import DELETED, ChatError
from timeloom.runtime.hub.subscription import Broadcaster, StoreTail


class StoreFollower:
    """Follows the store in a task, from its start until it is stopped or the conversation is deleted."""

    def __init__(self, conversation: ConversationId, store: Store, broadcaster: Broadcaster) -> None:
        self._conversation = conversation
        self._store = store
        self._broadcaster = broadcaster
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to follow, unless a task does or there are no readers."""
        is_running = self._task and not self._task.done()
        if not is_running and self._broadcaster.has_readers:
            self._task = asyncio.create_task(self._follow(), name=f"following {self._conversation}")

    def stop(self) -> asyncio.Task[None] | None:
        """Cancel the task and return it; None if there is none."""
        task, self._task = self._task, None
        if task:
            task.cancel()
        return task

    async def _follow(self) -> None:
        try:
            tail = (await self._store.info(self._conversation)).tail
            self._broadcaster.publish(StoreTail(tail))
            async for entry in self._store.follow(self._conversation, after=tail):
                self._broadcaster.publish_entry(entry)
            self._broadcaster.end(DELETED)
        except CodedError as error:
            self._broadcaster.end(ChatError(code=error.code, message=str(error)))
