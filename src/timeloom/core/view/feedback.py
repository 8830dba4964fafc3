"""Feedback: what people and machines thought of the turns, as far as it stands."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from timeloom.core.blocks import Feedback
from timeloom.core.blocks.user import Origin, Reaction
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Entry
from timeloom.core.view.turn_index import hint


class Given(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Feedback that stands: the entry that has it, and what a list shows of it."""

    seq: int
    origin: Origin
    reaction: Reaction | None = None
    confidence: float | None = None
    author: str = ""
    hint: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing: what it said was erased, or it never did."""
        return self.reaction is None and self.confidence is None and not self.hint


class FeedbackCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many reactions of people stand, by what they say, and how much machines have said beside them."""

    ok: int = 0
    not_ok: int = 0
    neutral: int = 0
    machine: int = 0

    @classmethod
    def of(cls, said: Iterable[str]) -> "FeedbackCounts":
        """The counts of reactions, where `machine` stands for what a machine said; any other word counts nowhere."""
        every = Counter(said)
        return cls(ok=every["ok"], not_ok=every["not_ok"], neutral=every["neutral"], machine=every["machine"])

    @property
    def satisfaction(self) -> float | None:
        """The share of people's reactions that are `ok`; None where nobody has reacted."""
        reactions = self.ok + self.not_ok + self.neutral
        return self.ok / reactions if reactions else None


class FeedbackView(msgspec.Struct):
    """The feedback of each turn in the order it was given, and the turns in the order of their newest.

    Of a turn the newest word of a person stands: one that says nothing takes back what was said before. What machines
    say is added to what is there.
    """

    turns: dict[TurnId, list[Given]] = {}

    def add(self, entry: Entry) -> None:
        """Takes in the next entry."""
        if not isinstance(entry.block, Feedback):
            return
        given, before = _given(entry.seq, entry.block), self.turns.pop(entry.turn_id, [])
        if given.origin == "user":
            before = [one for one in before if one.origin != "user"]
        if given.origin == "machine" or given.reaction or given.hint:
            before.append(given)
        if before:
            self.turns[entry.turn_id] = before


def count(given: Iterable[Given]) -> FeedbackCounts:
    """The counts of this feedback."""
    said = (one for one in given if not one.is_empty)
    return FeedbackCounts.of((one.reaction or "") if one.origin == "user" else one.origin for one in said)


def says_nothing(block: Feedback) -> bool:
    """Whether the feedback has no word, reaction or confidence."""
    return _given(0, block).is_empty


def _given(seq: int, block: Feedback) -> Given:
    return Given(seq, block.origin, block.reaction, block.confidence, block.author, hint(block.text))
