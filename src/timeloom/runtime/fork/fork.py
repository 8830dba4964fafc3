"""Forking: a conversation copied up to some entry into a new one, which goes on by itself from there."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import ConversationStarted, ForkPoint, TurnStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, make_conversation_id
from timeloom.core.policy.forking import cut_off
from timeloom.core.timeline import Draft, Entry
from timeloom.core.view.views import Views
from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.ids import Ids
from timeloom.ports.store import Store
from timeloom.runtime.fork.copy_files import CutTurn, copy_files
from timeloom.runtime.session.load_views import load_views


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """A new conversation, where it began, and how many turns it has from there; `cut` is whether it cut one in two."""

    conversation: ConversationId
    forked_from: ForkPoint
    turns: int
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Forking:
    """What forks are made with: `workspaces` has a folder of files for each conversation, `into` those of forks."""

    store: Store
    workspaces: Path
    into: Path
    clock: Clock
    ids: Ids


async def fork(
    store: Store, source: ConversationId, workspaces: Path, clock: Clock, ids: Ids, *, turn: str | None = None
) -> Forked:
    """A new conversation with all that the source has up to the end of that turn, its id or its number.

    Without a turn it is all of it, but for a turn that is still open: what that would do, it would do twice. Entries
    keep their places, times and paths, payloads are shared, and the files of the turns are copied. Nobody needs to
    hold the source.
    """
    views = await load_views(store, source)
    forking = Forking(store=store, workspaces=workspaces, into=workspaces, clock=clock, ids=ids)
    return await copy_until(forking, source, _last_seq(views, turn), views)


async def fork_at(store: Store, source: ConversationId, seq: int, workspaces: Path, clock: Clock, ids: Ids) -> Forked:
    """A new conversation with all that the source has up to that entry.

    In the middle of a turn, the fork ends that turn: a call without a result gets one that says it was cut off, and
    nothing is done until somebody speaks. All else is as with `fork`; the files of that turn are as they were then,
    as far as the timeline or the disk has them so.
    """
    views = await load_views(store, source)
    forking = Forking(store=store, workspaces=workspaces, into=workspaces, clock=clock, ids=ids)
    return await copy_until(forking, source, seq, views)


async def copy_until(
    forking: Forking, source: ConversationId, seq: int, views: Views, *, stays_open: bool = False
) -> Forked:
    """The fork at that entry; with `stays_open`, a turn that is under way there is not ended: it is one of a re-run.

    `views` are those of the source.
    """
    if not 1 <= seq <= views.tail:
        raise CodedError("entry_unknown", f"a fork is made at an entry from 1 to {views.tail}, got {seq}")
    store = forking.store
    # The entry behind the cut tells whether it goes through a result.
    loaded = await store.load(source, limit=seq + 1)
    entries, after = loaded[:seq], next(iter(loaded[seq:]), None)
    turns = [name for name, known in views.turns.turns.items() if known.spans[0][0] <= seq]
    last = entries[views.turns.turns[turns[-1]].spans[0][0] - 1 :] if turns else []
    ending = cut_off(last, after)
    fresh = make_conversation_id(forking.clock.epoch_us() // 1000, forking.ids.bits())
    cut = CutTurn(turn_id=turns[-1], entries=tuple(last), later=views.artifacts) if ending else None
    await copy_files(store, forking.workspaces / source, forking.into / fresh, turns, cut)
    point, now = ForkPoint(source, seq), timestamp(forking.clock.epoch_us())
    # In a thread: of a long conversation it takes seconds.
    drafts = await asyncio.to_thread(_drafts, entries, point)
    if stays_open and ending:
        drafts[last[0].seq - 1 :] = [_run_again(entry) for entry in last]
    else:
        drafts += [Draft(turns[-1], now, block) for block in ending]
    # In one append: half of a copy would be a turn that never ended, and whoever opens it would go on with it.
    await store.append(fresh, 0, drafts)
    return Forked(conversation=fresh, forked_from=point, turns=len(turns), cut=bool(ending) and not stays_open)


def _last_seq(views: Views, turn: str | None) -> int:
    """The last entry that is copied: the one before the turn after begins."""
    turns = views.turns.turns
    wanted = [name for name, known in turns.items() if turn in (None, name, str(known.n))]
    if not wanted:
        missing = "there is no turn yet" if turn is None else f"{turn[:60]!r} is no turn of it"
        raise CodedError("entry_unknown", f"{missing}; it has {len(turns)}, numbered from 1")
    ended = [name for name in wanted if turns[name].ended]
    if not ended:
        raise CodedError("turn_open", "the turn is still open; a fork ends where a turn has ended")
    starts = [known.spans[0][0] for known in turns.values()]
    ends = dict(zip(turns, [*(start - 1 for start in starts[1:]), views.tail], strict=True))
    return ends[ended[-1]]


def _drafts(entries: Sequence[Entry], point: ForkPoint) -> list[Draft]:
    first, block = entries[0], entries[0].block
    assert isinstance(block, ConversationStarted)
    header = replace(block, parent=point.conversation_id, forked_from=point)
    rest = [Draft(entry.turn_id, entry.ts, entry.block, entry.original) for entry in entries[1:]]
    return [Draft(first.turn_id, first.ts, header), *rest]


def _run_again(entry: Entry) -> Draft:
    """The entry of the turn that is open, whose first one says from the beginning that nobody else goes on with it."""
    if isinstance(entry.block, TurnStarted):
        return Draft(entry.turn_id, entry.ts, replace(entry.block, rerun=True))
    return Draft(entry.turn_id, entry.ts, entry.block, entry.original)
