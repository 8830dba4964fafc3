"""Compares a fork with its source conversation after the fork point."""

from collections.abc import Iterable
from functools import partial
from itertools import islice

import msgspec

from timeloom.core.blocks import ConversationStarted, ForkPoint, ModelCalled
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.payload import Text
from timeloom.core.timeline import Entry
from timeloom.core.view.turns import Turn
from timeloom.ports.store import Store
from timeloom.runtime.rerun.trajectory import Effort, ReadText, TurnMade, TurnPair, course_of, effort_of, side_by_side
from timeloom.runtime.session.load_views import load_views


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The trajectories of a conversation (`recorded`) and its fork (`rerun`) after the fork point.

    Sums, models and `is_same` cover only `turns`, which may be one page of more turns.
    """

    forked_from: ForkPoint
    recorded_models: tuple[str, ...]
    rerun_models: tuple[str, ...]
    is_same: bool
    recorded: Effort
    rerun: Effort
    turns: tuple[TurnPair, ...]


async def fork_point(store: Store, fork: ConversationId) -> ForkPoint:
    """Return the fork point of the conversation; raises `entry_unknown` if it is not a fork."""
    for entry in await store.load(fork, limit=1):
        if isinstance(entry.block, ConversationStarted) and entry.block.forked_from:
            return entry.block.forked_from
    raise CodedError("entry_unknown", "the conversation is not a fork, so there is nothing to compare it with")


async def compare(
    store: Store, fork: ConversationId, point: ForkPoint, *, after: int = 0, most_turns: int = 1
) -> tuple[Comparison, int | None]:
    """Compare up to `max_turns` turns; also return the offset of the next page, or None.

    Turns of the record come first, in order, then turns that only the fork has. No other turns are read.
    """
    text = partial(read_text, store, (await store.info(fork)).tenant)
    recorded = await _Side.of(store, point.conversation_id, point.seq, text)
    rerun = await _Side.of(store, fork, point.seq, text)
    names, found, at = list(dict.fromkeys([*recorded.turns, *rerun.turns])), 0, after
    while at < len(names) and found < most_turns:
        found += any([await recorded.take(names[at]), await rerun.take(names[at])])
        at += 1
    pairs = side_by_side(recorded.made, rerun.made)
    comparison = Comparison(
        forked_from=point,
        recorded_models=models_of(recorded.read),
        rerun_models=models_of(rerun.read),
        is_same=all(pair.verdict == "same" for pair in pairs),
        recorded=effort_of(recorded.made),
        rerun=effort_of(rerun.made),
        turns=pairs,
    )
    return comparison, at if at < len(names) else None


def models_of(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the models of the decision calls, each once."""
    calls = [entry.block for entry in entries if isinstance(entry.block, ModelCalled)]
    return tuple(dict.fromkeys(call.model for call in calls if call.purpose == "decision"))


async def read_text(store: Store, tenant: str, text: Text) -> str:
    """Return the text; a reference is read from the store."""
    return text if isinstance(text, str) else (await store.read_blob(tenant, text)).decode("utf-8", "replace")


class _Side:
    """One of the two conversations after the fork point."""

    def __init__(self, store: Store, name: ConversationId, seq: int, text: ReadText) -> None:
        self._store = store
        self._name = name
        self._seq = seq
        self._text = text
        self.turns: dict[TurnId, Turn] = {}
        """The newest turn at the fork point, which may continue after it, and all later turns."""
        self.read: list[Entry] = []
        self.made: list[TurnMade] = []

    @classmethod
    async def of(cls, store: Store, name: ConversationId, seq: int, text: ReadText) -> "_Side":
        """Return the side of that conversation, with no turns read yet."""
        side = cls(store, name, seq, text)
        turns = (await load_views(store, name)).turns.turns
        earlier = sum(turn.spans[0][0] <= seq for turn in turns.values())
        side.turns = dict(islice(turns.items(), max(0, earlier - 1), None))
        return side

    async def take(self, turn: TurnId) -> bool:
        """Read the turn's entries after the fork point; return whether there were any rounds, prompt or end."""
        entries: list[Entry] = []
        for first, last in self.turns[turn].spans if turn in self.turns else ():
            after = max(first - 1, self._seq)
            if after < last:
                entries += await self._store.load(self._name, after=after, limit=last - after)
        made = await course_of(entries, self._text)
        self.read += entries
        self.made += made
        return bool(made)
