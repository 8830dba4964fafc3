"""The view of the feedback that currently applies to each turn."""

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

import msgspec

from timeloom.core.blocks import Feedback
from timeloom.core.blocks.user import Origin, Reaction
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds
from timeloom.core.view.turn_index import hint


class FeedbackItem(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Feedback that currently applies: its entry, and the fields that lists show."""

    seq: int
    origin: Origin
    reaction: Reaction | None = None
    confidence: float | None = None
    author: str = ""
    hint: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether the feedback has no content, for example because it was erased."""
        return self.reaction is None and self.confidence is None and not self.hint


class FeedbackCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The number of people's reactions by value, and the number of machine feedbacks."""

    ok: int = 0
    not_ok: int = 0
    neutral: int = 0
    machine: int = 0

    @classmethod
    def from_reactions(cls, reactions: Iterable[str]) -> "FeedbackCounts":
        """Return the counts of these reactions, where `machine` counts machine feedback; other values are ignored."""
        counts = Counter(reactions)
        return cls(ok=counts["ok"], not_ok=counts["not_ok"], neutral=counts["neutral"], machine=counts["machine"])

    @property
    def satisfaction(self) -> float | None:
        """The share of people's reactions that are `ok`; None if there are no reactions."""
        reactions = self.ok + self.not_ok + self.neutral
        return self.ok / reactions if reactions else None


class FeedbackView(BlockView, msgspec.Struct):
    """The feedback of each turn in the order it was given, and the turns in the order of their newest feedback.

    For each turn, a person's newest feedback replaces the previous one, and empty feedback removes it. Machine feedback
    is added to the existing feedback.
    """

    turns: dict[TurnId, list[FeedbackItem]] = {}

    def _add_feedback(self, entry: Entry, block: Feedback) -> None:
        given, before = _to_item(entry.seq, block), self.turns.pop(entry.turn_id, [])
        if given.origin == "user":
            before = [one for one in before if one.origin != "user"]
        if given.origin == "machine" or given.reaction or given.hint:
            before.append(given)
        if before:
            self.turns[entry.turn_id] = before

    folds: ClassVar[Folds] = {Feedback: _add_feedback}


def count_feedback(given: Iterable[FeedbackItem]) -> FeedbackCounts:
    """Return the counts of this feedback."""
    said = (one for one in given if not one.is_empty)
    return FeedbackCounts.from_reactions((one.reaction or "") if one.origin == "user" else one.origin for one in said)


def is_empty_feedback(block: Feedback) -> bool:
    """Whether the feedback has no text, reaction or confidence."""
    return _to_item(0, block).is_empty


def _to_item(seq: int, block: Feedback) -> FeedbackItem:
    return FeedbackItem(seq, block.origin, block.reaction, block.confidence, block.author, hint(block.text))
