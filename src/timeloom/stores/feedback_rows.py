"""Judging: the feedback of an append in the form in which every store counts it."""

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
"""A person's reaction, a person's word without one, a machine's word, or a person's that takes back what was said."""


class Judgement(NamedTuple):
    """One word of feedback: its place, its turn, its time as it sorts, and what it says."""

    seq: int
    turn: TurnId
    at: str
    said: Said

    @property
    def replaces(self) -> bool:
        """Whether it takes the place of what a person has said of the turn before."""
        return self.said != "machine"


def judgements(batch: Batch) -> list[Judgement]:
    """The feedback that the batch adds, but for what a fork copies."""
    copied = copied_by(batch.header)
    return [one for one in judgements_in(batch.entries) if one.seq > copied]


def copied_by(header: AnyBlock | None) -> int:
    """How many entries a conversation with that header has from the one that it was forked from."""
    point = header.forked_from if isinstance(header, ConversationStarted) else None
    return point.seq if point else 0


def judgements_in(entries: Iterable[Entry]) -> Iterator[Judgement]:
    """The feedback among the entries."""
    for entry in entries:
        block = entry.block
        # What a machine said replaces nothing, so without a word it is nothing at all.
        if isinstance(block, Feedback) and entry.turn_id and not (block.origin == "machine" and says_nothing(block)):
            yield Judgement(entry.seq, entry.turn_id, sortable(entry.ts), _said(block))


def note_judgement(judged: dict[int, Judgement], one: Judgement) -> None:
    """Puts what was said of a turn among what stands, in place of what does not any more; by their places."""
    if one.replaces:
        for old in [old for old in judged.values() if old.turn == one.turn and old.replaces]:
            del judged[old.seq]
    if one.said != "nothing":
        judged[one.seq] = one


def sortable(ts: str) -> str:
    """The time in a form in which earlier texts are earlier times; raises where it is none."""
    if not is_timestamp(ts):
        raise EntryError(f"a time is RFC 3339 in UTC such as 2026-02-09T02:14:32.676425Z, got {ts[:40]!r}")
    seconds, _, fraction = ts.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction:0<{_FRACTION_DIGITS}}Z"


def _said(block: Feedback) -> Said:
    if block.origin == "machine":
        return "machine"
    if block.erased:
        return "nothing"
    return block.reaction or ("remark" if block.text.strip() else "nothing")
