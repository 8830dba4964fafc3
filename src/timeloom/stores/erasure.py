"""An erasure: entries that say nothing any more, checked against those whose places they take."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from timeloom.core.blocks import Titled
from timeloom.core.blocks.extract_payloads import references
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Draft, Entry, EntryError
from timeloom.stores.batch import TITLE_CHARS, Batch, make_batch
from timeloom.wire.record import encode_record


@dataclass(frozen=True, slots=True)
class Erasure:
    """What an erase changes: records by their places, and the batch that records it."""

    entries: tuple[Entry, ...]
    records: tuple[bytes, ...]
    batch: Batch

    @property
    def seqs(self) -> tuple[int, ...]:
        """The places of what is erased."""
        return tuple(entry.seq for entry in self.entries)

    def title_at(self, seq: int) -> str | None:
        """What a list shows of the title at that place; None where it is not erased."""
        for entry in self.entries:
            if entry.seq == seq and isinstance(entry.block, Titled):
                return entry.block.text[:TITLE_CHARS]
        return None


def make_erasure(conversation: ConversationId, expected_tail: int, entries: Sequence[Entry], record: Draft) -> Erasure:
    """The entries in order and as they will be stored."""
    ordered = tuple(sorted(entries, key=_seq))
    if not ordered or len({entry.seq for entry in ordered}) < len(ordered):
        raise EntryError("an erase has at least one entry, and each place once")
    for entry in ordered:
        if not entry.block.erased:
            raise EntryError(f"entry {entry.seq} is not erased; nothing else takes the place of an entry")
    batch = make_batch(conversation, expected_tail, [record])
    return Erasure(ordered, tuple(encode_record(entry) for entry in ordered), batch)


def check_places(there: Sequence[Entry], erasure: Erasure) -> None:
    """Refuses to put an entry where another one was; `there` are those whose places are taken."""
    if [entry.seq for entry in there] != list(erasure.seqs):
        raise EntryError("an erased entry takes the place of one that is there")
    for before, after in zip(there, erasure.entries, strict=True):
        if _place(before) != _place(after) or after.original or set(references(after)) - set(references(before)):
            raise EntryError(f"entry {after.seq} would not be the erased form of what is there")


def unreferred(there: Iterable[Entry], left: Iterable[Entry]) -> set[BlobRef]:
    """The payloads to which the first refer and the second do not."""
    gone = {ref for entry in there for ref in references(entry)}
    for entry in left if gone else ():
        gone.difference_update(references(entry))
    return gone


def _seq(entry: Entry) -> int:
    return entry.seq


def _place(entry: Entry) -> tuple[object, ...]:
    return entry.seq, entry.turn_id, entry.ts, type(entry.block), entry.path, entry.alias
