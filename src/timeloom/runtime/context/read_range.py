"""Reads ranges of entries with the stored payloads that their cards need."""

from collections.abc import Iterable, Sequence

from timeloom.core.blocks import RangeSummary
from timeloom.core.payload import BlobRef
from timeloom.core.render.entry_text import needed_payloads
from timeloom.core.render.facts import CardContext
from timeloom.core.timeline import Entry
from timeloom.runtime.session.session import Session


async def read_ranges(session: Session, runs: Iterable[tuple[int, int]]) -> tuple[list[Entry], CardContext]:
    """Return the entries of these ranges and the data their cards need.

    Summaries that are not visible are skipped, and so are pinned entries, because they stay visible.
    """
    pinned = session.views.visible.pinned
    seqs = [seq for first, last in runs for seq in range(first, last + 1) if seq not in pinned]
    shown = session.views.visible.shown
    entries = [
        entry
        for entry in await session.entries(seqs)
        if not isinstance(entry.block, RangeSummary) or entry.seq in shown
    ]
    return entries, await load_card_context(session, entries)


async def load_card_context(session: Session, entries: Sequence[Entry]) -> CardContext:
    """Return the stored payloads of these entries and the seqs of the newest versions of open plans."""
    payloads: dict[BlobRef, bytes] = {}
    for entry in entries:
        for ref in needed_payloads(entry):
            payloads[ref] = await session.payload(ref)
    return CardContext(payloads, frozenset(session.views.plans.open_seqs.values()))
