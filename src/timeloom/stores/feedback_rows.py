"""Extracts from entries the feedback that every store counts."""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from timeloom.core.blocks import AnyBlock, ConversationStarted, Feedback
from timeloom.core.blocks.user import Reaction
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Entry, EntryError, is_timestamp
from timeloom.core.view.feedback import is_empty_feedback
from timeloom.stores.batch import Batch

_FRACTION_DIGITS = 9

FeedbackKind = Reaction | Literal["remark", "machine", "nothing"]
"""The kind of a feedback entry.

A reaction of a person, a `remark` of a person without reaction, `machine` for any feedback of a machine, or `nothing`
if the person withdraws earlier feedback."""


class FeedbackRow(NamedTuple):
    """One feedback entry: its seq, its turn, its time in sortable form and its kind."""

    seq: int
    turn: TurnId
    at: str
    kind: FeedbackKind

    @property
    def replaces_previous(self) -> bool:
        """Whether it replaces the earlier feedback of a person on the same turn."""
        return self.kind != "machine"


def extract_batch_feedback(batch: Batch) -> list[FeedbackRow]:
    """Return the feedback in the batch, without entries that a fork copied from its parent."""
    copied = count_copied_entries(batch.header)
    return [one for one in extract_feedback(batch.entries) if one.seq > copied]


def count_copied_entries(header: AnyBlock | None) -> int:
    """Return how many entries a conversation with that header copied from its parent; 0 if it is no fork."""
    point = header.forked_from if isinstance(header, ConversationStarted) else None
    return point.seq if point else 0


def extract_feedback(entries: Iterable[Entry]) -> Iterator[FeedbackRow]:
    """Yield the feedback among the entries, without machine feedback that has no content."""
    for entry in entries:
        block = entry.block
        # Machine feedback replaces nothing, so without content it has no effect.
        if (
            isinstance(block, Feedback)
            and entry.turn_id
            and not (block.origin == "machine" and is_empty_feedback(block))
        ):
            yield FeedbackRow(entry.seq, entry.turn_id, to_sortable_time(entry.ts), _feedback_kind(block))


def apply_feedback(rows: dict[int, FeedbackRow], row: FeedbackRow) -> None:
    """Add the row to the valid feedback by seq, and remove the rows that it replaces."""
    if row.replaces_previous:
        for old in [old for old in rows.values() if old.turn == row.turn and old.replaces_previous]:
            del rows[old.seq]
    if row.kind != "nothing":
        rows[row.seq] = row


def to_sortable_time(ts: str) -> str:
    """Return the time with a fixed number of digits, so that text order is time order.

    Raises `EntryError` if it is not a timestamp.
    """
    if not is_timestamp(ts):
        raise EntryError(f"time must be RFC 3339 in UTC, such as 2026-02-09T02:14:32.676425Z, got {ts[:40]!r}")
    seconds, _, fraction = ts.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction:0<{_FRACTION_DIGITS}}Z"


def _feedback_kind(block: Feedback) -> FeedbackKind:
    if block.origin == "machine":
        return "machine"
    if block.erased:
        return "nothing"
    return block.reaction or ("remark" if block.text.strip() else "nothing")
