"""Copies a conversation up to an entry into a new, independent conversation."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import ConversationStarted, ForkPoint, TurnStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, make_conversation_id
from timeloom.core.policy.forking import end_forked_turn
from timeloom.core.timeline import Draft, Entry
from timeloom.core.view.views import Views
from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.ids import Ids
from timeloom.ports.store import Store
from timeloom.runtime.fork.copy_files import CutTurn, copy_files
from timeloom.runtime.session.load_views import load_views


class ForkResult(msgspec.Struct, frozen=True, kw_only=True):
    """The new conversation, its fork point and its number of turns; `cut` says whether a turn was cut in two."""

    conversation: ConversationId
    forked_from: ForkPoint
    turns: int
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkContext:
    """The store and folders for forks: `workspaces` has the source's files, `into` receives the fork's files."""

    store: Store
    workspaces: Path
    into: Path
    clock: Clock
    ids: Ids


async def fork(
    store: Store, source: ConversationId, workspaces: Path, clock: Clock, ids: Ids, *, turn: str | None = None
) -> ForkResult:
    """Fork the source at the end of the turn with that id, number or alias.

    Without `turn`, the fork has all turns except one that is still open, because both conversations would execute it.
    Entries keep their seqs, times and paths, payloads are shared, and the files of the turns are copied. The source
    needs no lease.
    """
    views = await load_views(store, source)
    context = ForkContext(store=store, workspaces=workspaces, into=workspaces, clock=clock, ids=ids)
    return await create_fork(context, source, _last_seq(views, turn), views)


async def fork_at(
    store: Store, source: ConversationId, seq: int, workspaces: Path, clock: Clock, ids: Ids
) -> ForkResult:
    """Fork the source at that entry.

    In the middle of a turn, the fork ends that turn: a call without a result gets one that says it was interrupted.
    The fork does nothing until a message arrives. The files of that turn are restored to their state at the entry, as
    far as the timeline or the disk still has it. Otherwise it works like `fork`.
    """
    views = await load_views(store, source)
    context = ForkContext(store=store, workspaces=workspaces, into=workspaces, clock=clock, ids=ids)
    return await create_fork(context, source, seq, views)


async def create_fork(
    context: ForkContext, source: ConversationId, seq: int, views: Views, *, stays_open: bool = False
) -> ForkResult:
    """Create the fork at that entry; with `stays_open`, a turn cut there stays open for a re-run.

    `views` are those of the source.
    """
    if not 1 <= seq <= views.tail:
        raise CodedError("entry_unknown", f"expected an entry from 1 to {views.tail}, got {seq}")
    store = context.store
    # The entry after the cut shows whether the cut splits a result.
    loaded = await store.load(source, limit=seq + 1)
    entries, after = loaded[:seq], next(iter(loaded[seq:]), None)
    turns = [name for name, known in views.turns.turns.items() if known.spans[0][0] <= seq]
    last = entries[views.turns.turns[turns[-1]].spans[0][0] - 1 :] if turns else []
    ending = end_forked_turn(last, after)
    fresh = make_conversation_id(context.clock.epoch_us() // 1000, context.ids.bits())
    cut = CutTurn(turn_id=turns[-1], entries=tuple(last), all_artifacts=views.artifacts) if ending else None
    await copy_files(store, context.workspaces / source, context.into / fresh, turns, cut)
    point, now = ForkPoint(source, seq), timestamp(context.clock.epoch_us())
    # In a thread, because a long conversation takes seconds.
    drafts = await asyncio.to_thread(_to_drafts, entries, point)
    if stays_open and ending:
        drafts[last[0].seq - 1 :] = [_to_rerun_draft(entry) for entry in last]
    else:
        drafts += [Draft(turns[-1], now, block) for block in ending]
    # In one append: a partial copy would contain an open turn, which the next process would resume.
    await store.append(fresh, 0, drafts)
    return ForkResult(conversation=fresh, forked_from=point, turns=len(turns), cut=bool(ending) and not stays_open)


def _last_seq(views: Views, turn: str | None) -> int:
    """Return the last entry to copy: the one before the next turn begins."""
    turns = views.turns.turns
    named = None if turn is None else views.turns.find_named(turn)
    wanted = list(turns) if turn is None else [named] if named else []
    if not wanted:
        missing = "there is no turn yet" if turn is None else f"there is no turn {turn[:60]!r}"
        raise CodedError("entry_unknown", f"{missing}; number of turns: {len(turns)}")
    ended = [name for name in wanted if turns[name].ended]
    if not ended:
        raise CodedError("turn_open", "the turn is still open; fork after it has ended, or name an earlier turn")
    starts = [known.spans[0][0] for known in turns.values()]
    ends = dict(zip(turns, [*(start - 1 for start in starts[1:]), views.tail], strict=True))
    return ends[ended[-1]]


def _to_drafts(entries: Sequence[Entry], point: ForkPoint) -> list[Draft]:
    first, block = entries[0], entries[0].block
    assert isinstance(block, ConversationStarted)
    header = replace(block, parent=point.conversation_id, forked_from=point)
    rest = [Draft(entry.turn_id, entry.ts, entry.block, entry.original) for entry in entries[1:]]
    return [Draft(first.turn_id, first.ts, header), *rest]


def _to_rerun_draft(entry: Entry) -> Draft:
    """Return the entry as a draft; the turn's first entry is marked as a re-run, so no other process resumes it."""
    if isinstance(entry.block, TurnStarted):
        return Draft(entry.turn_id, entry.ts, replace(entry.block, rerun=True))
    return Draft(entry.turn_id, entry.ts, entry.block, entry.original)
