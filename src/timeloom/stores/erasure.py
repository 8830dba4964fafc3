"""Checks that an erase replaces entries only by their erased forms."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from timeloom.core.blocks import Erased, ErasedForm, Titled
from timeloom.core.blocks.extract_payloads import find_blob_refs
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Draft, Entry, EntryError
from timeloom.stores.batch import SALTS, TITLE_CHARS, Batch, make_batch
from timeloom.wire.chain import hash_content
from timeloom.wire.record import encode_record


@dataclass(frozen=True, slots=True)
class Erasure:
    """The changes of one erase: the erased entries, their records, and the batch that logs the erase."""

    entries: tuple[Entry, ...]
    records: tuple[bytes, ...]
    salts: tuple[bytes, ...]
    batch: Batch

    @property
    def record(self) -> Draft:
        """The block that records the erase, with the forms."""
        return self.batch.entries[0]

    @property
    def seqs(self) -> tuple[int, ...]:
        """The seqs of the erased entries."""
        return tuple(entry.seq for entry in self.entries)

    def erased_title_at(self, seq: int) -> str | None:
        """Return the erased form of the title at that seq, for the list; None if that title is not erased."""
        for entry in self.entries:
            if entry.seq == seq and isinstance(entry.block, Titled):
                return entry.block.text[:TITLE_CHARS]
        return None


def make_erasure(conversation: ConversationId, expected_tail: int, entries: Sequence[Entry], record: Draft) -> Erasure:
    """Return the erasure with its entries in order; raises `EntryError` if an entry is not erased."""
    ordered = tuple(sorted(entries, key=_seq))
    if not ordered or len({entry.seq for entry in ordered}) < len(ordered):
        raise EntryError("an erase needs at least one entry, and each entry only once")
    for entry in ordered:
        if not entry.block.erased:
            raise EntryError(f"entry {entry.seq} is not erased; an erase accepts only erased entries")
    records = tuple(encode_record(entry) for entry in ordered)
    salts = tuple(SALTS.take() for _ in records)
    hashes = map(hash_content, salts, records)
    forms = tuple(ErasedForm(entry.seq, form.hex()) for entry, form in zip(ordered, hashes, strict=True))
    batch = make_batch(conversation, expected_tail, [_with_forms(record, forms)])
    return Erasure(ordered, records, salts, batch)


def check_erased_forms(existing: Sequence[Entry], erasure: Erasure) -> None:
    """Raise `EntryError` unless each erased entry replaces the same entry; `existing` are the stored ones."""
    if [entry.seq for entry in existing] != list(erasure.seqs):
        raise EntryError("an erase must name entries that exist")
    for before, after in zip(existing, erasure.entries, strict=True):
        if (
            _identity(before) != _identity(after)
            or after.original
            or set(find_blob_refs(after)) - set(find_blob_refs(before))
        ):
            raise EntryError(f"entry {after.seq} is not the erased form of the stored entry")


def find_unreferenced_payloads(removed: Iterable[Entry], remaining: Iterable[Entry]) -> set[BlobRef]:
    """Return the payloads to which the `removed` entries refer and the `remaining` ones do not."""
    unreferenced = {ref for entry in removed for ref in find_blob_refs(entry)}
    for entry in remaining if unreferenced else ():
        unreferenced.difference_update(find_blob_refs(entry))
    return unreferenced


def _with_forms(record: Draft, forms: tuple[ErasedForm, ...]) -> Draft:
    if not isinstance(record.block, Erased):
        raise EntryError(f"an erase is recorded by conv.erased, got {record.block.type_name}")
    return replace(record, block=replace(record.block, forms=forms))


def _seq(entry: Entry) -> int:
    return entry.seq


def _identity(entry: Entry) -> tuple[object, ...]:
    return entry.seq, entry.turn_id, entry.ts, type(entry.block), entry.path, entry.alias
