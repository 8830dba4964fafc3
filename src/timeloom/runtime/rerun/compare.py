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
from timeloom.runtime.rerun.trajectory import (
    Effort,
    ReadText,
    TurnPair,
    TurnTrace,
    extract_trajectory,
    pair_turns,
    total_effort,
)
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


async def load_fork_point(store: Store, fork: ConversationId) -> ForkPoint:
    """Return the fork point of the conversation; raises `entry_unknown` if it is not a fork."""
    for entry in await store.load(fork, limit=1):
        if isinstance(entry.block, ConversationStarted) and entry.block.forked_from:
            return entry.block.forked_from
    raise CodedError("entry_unknown", "the conversation is not a fork, so there is nothing to compare it with")


async def compare_fork(
    store: Store, fork: ConversationId, point: ForkPoint, *, after: int = 0, max_turns: int = 1
) -> tuple[Comparison, int | None]:
    """Compare up to `max_turns` turns; also return the offset of the next page, or None.

    Turns of the record come first, in order, then turns that only the fork has. No other turns are read.
    """
    text = partial(read_text, store, (await store.info(fork)).tenant)
    recorded = await _ComparedSide.load(store, point.conversation_id, point.seq, text)
    rerun = await _ComparedSide.load(store, fork, point.seq, text)
    names, found, at = list(dict.fromkeys([*recorded.turns, *rerun.turns])), 0, after
    while at < len(names) and found < max_turns:
        found += any([await recorded.read_turn(names[at]), await rerun.read_turn(names[at])])
        at += 1
    pairs = pair_turns(recorded.trajectory, rerun.trajectory)
    comparison = Comparison(
        forked_from=point,
        recorded_models=find_models(recorded.entries),
        rerun_models=find_models(rerun.entries),
        is_same=all(pair.verdict == "same" for pair in pairs),
        recorded=total_effort(recorded.trajectory),
        rerun=total_effort(rerun.trajectory),
        turns=pairs,
    )
    return comparison, at if at < len(names) else None


def find_models(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the models of the decision calls, each once."""
    calls = [entry.block for entry in entries if isinstance(entry.block, ModelCalled)]
    return tuple(dict.fromkeys(call.model for call in calls if call.purpose == "decision"))


async def read_text(store: Store, tenant: str, text: Text) -> str:
    """Return the text; a reference is read from the store."""
    return text if isinstance(text, str) else (await store.read_blob(tenant, text)).decode("utf-8", "replace")


class _ComparedSide:
    """One of the two conversations after the fork point."""

    def __init__(self, store: Store, name: ConversationId, seq: int, text: ReadText) -> None:
        self._store = store
        self._name = name
        self._seq = seq
        self._text = text
        self.turns: dict[TurnId, Turn] = {}
        """The newest turn at the fork point, which may continue after it, and all later turns."""
        self.entries: list[Entry] = []
        self.trajectory: list[TurnTrace] = []

    @classmethod
    async def load(cls, store: Store, name: ConversationId, seq: int, text: ReadText) -> "_ComparedSide":
        """Return the side of that conversation, with no turns read yet."""
        side = cls(store, name, seq, text)
        turns = (await load_views(store, name)).turns.turns
        earlier = sum(turn.spans[0][0] <= seq for turn in turns.values())
        side.turns = dict(islice(turns.items(), max(0, earlier - 1), None))
        return side

    async def read_turn(self, turn: TurnId) -> bool:
        """Read the turn's entries after the fork point; return whether there were any rounds, prompt or end."""
        entries: list[Entry] = []
        for first, last in self.turns[turn].spans if turn in self.turns else ():
            after = max(first - 1, self._seq)
            if after < last:
                entries += await self._store.load(self._name, after=after, limit=last - after)
        made = await extract_trajectory(entries, self._text)
        self.entries += entries
        self.trajectory += made
        return bool(made)
