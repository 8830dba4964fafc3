"""The eraser port: the only operation that changes stored entries, and it can only remove content."""

from collections.abc import Sequence
from typing import Protocol

from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.leases import Lease


class Eraser(Protocol):
    """Permanently removes the content of entries, for users with a right to erasure.

    1. An erased entry keeps its seq, turn, time, type and path, and refers to nothing that it did not refer to before.
       Any other change raises `EntryError` and changes nothing.
    2. An erasure becomes durable completely, together with the draft that records it, or not at all. The draft is
       appended as `append` does it, so an expected tail and a lease apply here too.
    3. When the call returns, payloads that no entry of the tenant refers to are deleted. So are the conversation's
       snapshots and the search terms of the entries. After a crash, the next opening of the store or the next `scrub`
       removes the rest.
    """

    async def erase(
        self,
        conversation: ConversationId,
        expected_tail: int,
        entries: Sequence[Entry],
        record: Draft,
        lease: Lease | None = None,
    ) -> Entry:
        """Replace each entry by the given one with the same seq, and return the appended record."""
        ...

    async def scrub(self) -> None:
        """Remove all traces of erased and deleted content from the store's files, and all snapshots; copies the store.

        It can be repeated at any time. Raises `StoreError` if another process prevents it.
        """
        ...
