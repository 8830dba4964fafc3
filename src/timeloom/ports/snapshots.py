"""The snapshots port: caches views and prompts of conversations; a snapshot may be lost at any time."""

from typing import Protocol

from timeloom.core.ids import ConversationId


class Snapshots(Protocol):
    """Stores the newest snapshot per conversation and version; losing one costs only time."""

    async def save_snapshot(self, conversation: ConversationId, seq: int, version: str, data: bytes) -> None:
        """Store what was derived up to that seq in place of an older snapshot; unknown conversations are ignored."""
        ...

    async def load_snapshot(self, conversation: ConversationId, version: str) -> tuple[int, bytes] | None:
        """Return the newest snapshot of that version with its seq.

        Return None if it is missing, damaged or ahead of the tail.
        """
        ...

    async def drop_snapshots(self) -> int:
        """Delete all snapshots and return their number."""
        ...
