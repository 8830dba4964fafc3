"""Extracts from entries the feedback that every store counts."""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from timeloom.core.blocks import AnyBlock, ConversationStarted, Feedback
from timeloom.core.blocks.user import Reaction
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Entry, EntryError, is_timestamp
from timeloom.core.view.feedback import says_nothing
from timeloom.stores.batch import Batch

_FRACTION_DIGITS = 9

Said = Reaction | Literal["remark", "machine", "nothing"]
"""The kind of a feedback entry.

A reaction of a person, a `remark` of a person without reaction, `machine` for any feedback of a machine, or `nothing`
if the person withdraws earlier feedback."""


class Judgement(NamedTuple):
    """One feedback entry: its seq, its turn, its time in sortable form and its kind."""

    seq: int
    turn: TurnId
    at: str
    said: Said

    @property
    def replaces(self) -> bool:
        """Whether it replaces the earlier feedback of a person on the same turn."""
        return self.said != "machine"


def judgements(batch: Batch) -> list[Judgement]:
    """Return the feedback in the batch, without entries that a fork copied from its parent."""
    copied = copied_by(batch.header)
    return [one for one in judgements_in(batch.entries) if one.seq > copied]


def copied_by(header: AnyBlock | None) -> int:
    """Return how many entries a conversation with that header copied from its parent; 0 if it is no fork."""
    point = header.forked_from if isinstance(header, ConversationStarted) else None
    return point.seq if point else 0


def judgements_in(entries: Iterable[Entry]) -> Iterator[Judgement]:
    """Yield the feedback among the entries, without machine feedback that has no content."""
    for entry in entries:
        block = entry.block
        # Machine feedback replaces nothing, so without content it has no effect.
        if isinstance(block, Feedback) and entry.turn_id and not (block.origin == "machine" and says_nothing(block)):
            yield Judgement(entry.seq, entry.turn_id, sortable(entry.ts), _said(block))


def note_judgement(judged: dict[int, Judgement], one: Judgement) -> None:
    """Add the row to the valid feedback by seq, and remove the rows that it replaces."""
    if one.replaces:
        for old in [old for old in judged.values() if old.turn == one.turn and old.replaces]:
            del judged[old.seq]
    if one.said != "nothing":
        judged[one.seq] = one


def sortable(ts: str) -> str:
    """Return the time with a fixed number of digits, so that text order is time order.

    Raises `EntryError` if it is not a timestamp.
    """
    if not is_timestamp(ts):
        raise EntryError(f"time must be RFC 3339 in UTC, such as 2026-02-09T02:14:32.676425Z, got {ts[:40]!r}")
    seconds, _, fraction = ts.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction:0<{_FRACTION_DIGITS}}Z"


def _said(block: Feedback) -> Said:
    if block.origin == "machine":
        return "machine"
    if block.erased:
        return "nothing"
    return block.reaction or ("remark" if block.text.strip() else "nothing")
