"""Reads ranges of entries with the stored payloads that their cards need."""

from collections.abc import Iterable, Sequence

from timeloom.core.blocks import RangeSummary
from timeloom.core.payload import BlobRef
from timeloom.core.render.entries.cards import Known
from timeloom.core.render.entries.entry_text import needed_payloads
from timeloom.core.timeline import Entry
from timeloom.runtime.session.session import Session


async def read_runs(session: Session, runs: Iterable[tuple[int, int]]) -> tuple[list[Entry], Known]:
    """Return the entries of these ranges and the data their cards need; summaries that are not visible are skipped."""
    seqs = [seq for first, last in runs for seq in range(first, last + 1)]
    shown = session.views.visible.shown
    entries = [
        entry
        for entry in await session.entries(seqs)
        if not isinstance(entry.block, RangeSummary) or entry.seq in shown
    ]
    return entries, await known_of(session, entries)


async def known_of(session: Session, entries: Sequence[Entry]) -> Known:
    """Return the stored payloads of these entries and the seqs of the newest versions of open plans."""
    payloads: dict[BlobRef, bytes] = {}
    for entry in entries:
        for ref in needed_payloads(entry):
            payloads[ref] = await session.payload(ref)
    return Known(payloads, frozenset(session.views.plans.open_seqs.values()))
