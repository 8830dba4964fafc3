"""Comparing: what a fork made of a conversation, beside what the conversation itself has after that place."""

from collections.abc import Iterable
from functools import partial
from typing import Final

import msgspec

from timeloom.core.blocks import ConversationStarted, ForkPoint, ModelCalled
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.payload import Text
from timeloom.core.timeline import NO_TURN, Entry
from timeloom.ports.store import Store
from timeloom.runtime.course import Effort, TurnPair, course_of, effort_of, side_by_side

PAGE: Final = 1000
"""How many entries are read at once. Fewer make more reads of a long turn; more read what no short one needs."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two courses from one place: that of the conversation, which is `recorded`, and that of its fork, the `rerun`."""

    forked_from: ForkPoint
    recorded_models: tuple[str, ...]
    rerun_models: tuple[str, ...]
    is_same: bool
    recorded: Effort
    rerun: Effort
    turns: tuple[TurnPair, ...]


async def fork_point(store: Store, fork: ConversationId) -> ForkPoint:
    """Where the conversation was forked from; raises where it was not."""
    for entry in await store.load(fork, limit=1):
        if isinstance(entry.block, ConversationStarted) and entry.block.forked_from:
            return entry.block.forked_from
    raise CodedError("entry_unknown", "the conversation is no fork, so that there is nothing to compare it with")


async def compare(store: Store, fork: ConversationId, point: ForkPoint, most_turns: int | None = None) -> Comparison:
    """Both courses as far as they are by now, of at most so many turns."""
    tenant = (await store.info(fork)).tenant
    text = partial(read_text, store, tenant)
    before = await _following(store, point.conversation_id, point.seq, most_turns)
    after = await _following(store, fork, point.seq, most_turns)
    recorded, rerun = await course_of(before, text), await course_of(after, text)
    pairs = side_by_side(recorded, rerun)
    return Comparison(
        forked_from=point,
        recorded_models=models_of(before),
        rerun_models=models_of(after),
        is_same=all(pair.verdict == "same" for pair in pairs),
        recorded=effort_of(recorded),
        rerun=effort_of(rerun),
        turns=pairs,
    )


def models_of(entries: Iterable[Entry]) -> tuple[str, ...]:
    """The models that decided, each once."""
    calls = [entry.block for entry in entries if isinstance(entry.block, ModelCalled)]
    return tuple(dict.fromkeys(call.model for call in calls if call.purpose == "decision"))


async def read_text(store: Store, tenant: str, text: Text) -> str:
    """The text, wherever it is."""
    return text if isinstance(text, str) else (await store.read_blob(tenant, text)).decode("utf-8", "replace")


async def _following(store: Store, name: ConversationId, after: int, most_turns: int | None) -> list[Entry]:
    """The entries after that place, up to the end of so many turns."""
    found: list[Entry] = []
    turns: set[str] = {NO_TURN}
    while page := await store.load(name, after=after, limit=PAGE):
        for entry in page:
            turns.add(entry.turn_id)
            if most_turns is not None and len(turns) > most_turns + 1:
                return found
            found.append(entry)
        after = page[-1].seq
    return found
