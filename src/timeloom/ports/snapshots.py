"""The snapshots port: folded views kept beside a conversation, which may vanish at any time."""

from typing import Protocol

from timeloom.core.ids import ConversationId


class Snapshots(Protocol):
    """Keeps the newest snapshot per conversation and version of the views; losing one costs time and nothing else."""

    async def save_snapshot(self, conversation: ConversationId, seq: int, version: str, data: bytes) -> None:
        """Keeps the views as folded up to that seq, in place of an older one; an unknown conversation is ignored."""
        ...

    async def load_snapshot(self, conversation: ConversationId, version: str) -> tuple[int, bytes] | None:
        """The newest snapshot of that version with its seq; none where it is missing, damaged or ahead of the tail."""
        ...

    async def drop_snapshots(self) -> int:
        """Throws all of them away and says how many there were."""
        ...
