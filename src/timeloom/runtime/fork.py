"""Forking: a conversation copied up to the end of a turn into a new one, which goes on by itself from there."""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import ConversationStarted, ForkPoint
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId, make_conversation_id
from timeloom.core.timeline import Draft, Entry
from timeloom.core.view.turns import TurnsView
from timeloom.core.view.views import Views
from timeloom.ports.clock import Clock
from timeloom.ports.ids import Ids
from timeloom.ports.store import Store
from timeloom.runtime.load_views import load_views


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """A new conversation, where it began, and how many turns it has from there."""

    conversation: ConversationId
    forked_from: ForkPoint
    turns: int


async def fork(
    store: Store, source: ConversationId, workspaces: Path, clock: Clock, ids: Ids, *, turn: str | None = None
) -> Forked:
    """A new conversation with all that the source has up to the end of that turn, its id or its number.

    Without a turn it is all of it, but for a turn that is still open: what that would do, it would do twice. Entries
    keep their places, times and paths, payloads are shared, and the files of the turns are copied. Nobody needs to
    hold the source.
    """
    views = await load_views(store, source)
    last = _last_seq(views, turn)
    entries = await store.load(source, limit=last)
    fresh = make_conversation_id(clock.epoch_us() // 1000, ids.bits())
    point = ForkPoint(source, last)
    turns = _turns_until(views.turns, last)
    await asyncio.to_thread(_copy_files, workspaces / source, workspaces / fresh, turns)
    # In one append: half of a copy would be a turn that never ended, and whoever opens it would go on with it.
    await store.append(fresh, 0, [_header(entries[0], point), *map(_draft, entries[1:])])
    return Forked(conversation=fresh, forked_from=point, turns=len(turns))


def _last_seq(views: Views, turn: str | None) -> int:
    """The last entry that is copied: the one before the next turn begins."""
    turns = views.turns.turns
    ends = _ends(views)
    if turn is None:
        return ends[views.turns.newest] if turns and not views.progress.running else _end_before(views)
    found = next((name for name, known in turns.items() if turn in (name, str(known.n))), None)
    if found is None:
        raise CodedError("entry_unknown", f"{turn[:60]!r} is no turn of it; it has {len(turns)}, numbered from 1")
    if found == views.progress.turn_id and views.progress.running:
        raise CodedError("turn_open", f"turn {turns[found].n} is still open; a fork ends where a turn has ended")
    return ends[found]


def _ends(views: Views) -> dict[TurnId, int]:
    names = list(views.turns.turns)
    starts = [known.spans[0][0] for known in views.turns.turns.values()]
    return dict(zip(names, [*(start - 1 for start in starts[1:]), views.tail], strict=False))


def _end_before(views: Views) -> int:
    """The last entry before the turn that is open; without turns, the last of all."""
    newest = views.turns.turns.get(views.turns.newest)
    return newest.spans[0][0] - 1 if newest else views.tail


def _turns_until(turns: TurnsView, last: int) -> list[TurnId]:
    return [name for name, known in turns.turns.items() if known.spans[0][0] <= last]


def _header(entry: Entry, point: ForkPoint) -> Draft:
    block = entry.block
    assert isinstance(block, ConversationStarted)
    return Draft(entry.turn_id, entry.ts, replace(block, parent=point.conversation_id, forked_from=point))


def _draft(entry: Entry) -> Draft:
    return Draft(entry.turn_id, entry.ts, entry.block, entry.original)


def _copy_files(source: Path, target: Path, turns: Sequence[TurnId]) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target.mkdir(mode=0o700)
    for turn in turns:
        if (source / turn).is_dir():
            # A link stays a link: what it leads to need not be of this conversation.
            shutil.copytree(source / turn, target / turn, symlinks=True)
