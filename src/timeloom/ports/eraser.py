"""The erasing port: the one way in which what stands on a timeline is changed, and it only ever says less."""

from collections.abc import Sequence
from typing import Protocol

from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.leases import Lease


class Erasing(Protocol):
    """Removes for good what entries said, where somebody has a right to that.

    1. An erased entry has the place, turn, time, type and path that it had, and refers to nothing that it did not refer
       to before; anything else is refused with `EntryError` and changes nothing.
    2. All of one erase becomes durable together, with the draft that records it, or nothing does; the draft is
       appended as `append` does it, so an expected tail and a lease count here too.
    3. Payloads to which nothing of the tenant refers any more are gone when it returns, and so are the conversation's
       snapshots and the words by which the entries were found. What a crash leaves of them the next opening or the
       next `scrub` removes.
    """

    async def erase(
        self,
        conversation: ConversationId,
        expected_tail: int,
        entries: Sequence[Entry],
        record: Draft,
        lease: Lease | None = None,
    ) -> Entry:
        """Puts each entry in the place of the one that has its seq, and gives the record as it was appended."""
        ...

    async def scrub(self) -> None:
        """Leaves no trace of what was erased or deleted in any file of the store, and no snapshot; it copies the store.

        It may be asked again at any time. Raises `StoreError` where another process keeps it from being done.
        """
        ...
