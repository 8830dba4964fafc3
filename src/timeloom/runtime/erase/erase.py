"""Erases entries permanently, together with everything that was derived from them."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from timeloom.core.blocks import Erased, Followup, Steer, UserPrompt
from timeloom.core.blocks.redact import erased
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.paths import EntriesPath, LogicalPath, SourcesPath, TurnIndexesPath, TurnIndexPath, parse
from timeloom.core.policy.erase.spread import Targets, Why, erased_entry, spread
from timeloom.core.policy.erase.written_by_calls import with_written
from timeloom.core.timeline import NO_TURN, Draft, Entry
from timeloom.core.view.views import Views, fold
from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.leases import Lease
from timeloom.ports.store import Store
from timeloom.runtime.erase.file_references import find_traces
from timeloom.runtime.erase.same_text import Quotes, find_quotes, is_content, texts_of, words_of
from timeloom.runtime.erase.workspace_files import FilesToErase, all_files, erase_files, find_files
from timeloom.runtime.fork.shared_entries import sharing

HOLDER: Final = "timeloom erase"
"""The lease holder while entries are erased."""

PAGE: Final = 500


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """An entry in an erasure report: its position and the reason, never its content."""

    seq: int
    type: str
    path: str = ""
    why: Why


class ErasureReport(msgspec.Struct, frozen=True, kw_only=True):
    """The entries and files that an erasure removes or has removed."""

    conversation: ConversationId
    entries: tuple[Place, ...] = ()
    before: int = 0
    """The number of named entries that had been erased before."""
    quotes: tuple[Place, ...] = ()
    """Blocks that contain the same text independently; they stay unless they are named."""
    files: tuple[str, ...] = ()
    """Files of the workspace."""
    copies: tuple[ConversationId, ...] = ()
    """Conversations that have a copy because of a fork in either direction; they stay."""


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """The planned erasure: its report, the entries after it, and the files to remove."""

    report: ErasureReport
    entries: tuple[Entry, ...]
    files: FilesToErase
    tail: int
    typed: tuple[str, ...]
    """The user-written texts among the erased entries, for erasing copies outside the store."""


Elsewhere = Callable[[ErasurePlan], None]
"""Removes copies of the erased content outside the store and the workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request to erase paths or a whole conversation; `quotes` includes blocks that contain the same text."""

    conversation: ConversationId
    paths: tuple[str, ...] = ()
    quotes: bool = False

    @property
    def all(self) -> bool:
        """Whether the whole conversation is to be erased, because no paths are given."""
        return not self.paths


async def plan_erasure(store: Store, asked: Asked, workspaces: Path) -> ErasurePlan:
    """Return the plan of an erasure without changing anything; raises `CodedError` if a path matches nothing."""
    info = await store.info(asked.conversation)
    entries = await _load(store, asked.conversation)
    views = fold(entries)
    targets = _targets(asked, entries, views)
    named = [entries[seq - 1] for seq in sorted(targets.seqs)]
    words = await words_of(store, info.tenant, [entry for entry in named if not entry.block.erased])
    others: frozenset[int] = frozenset()
    if asked.all:
        taken: dict[int, Why] = {entry.seq: "named" for entry in entries if erased(entry.block) is not entry.block}
    else:
        rest = [entry for entry in entries if entry.seq not in targets.seqs]
        found = await find_quotes(store, info.tenant, rest, words, views.artifacts)
        found = await _with_traces(store, info.tenant, entries, named, found, quotes=asked.quotes)
        taken = spread(entries, targets, found.copies | found.others if asked.quotes else found.copies)
        others = found.others - taken.keys()
    _need_ended(entries, taken, views)
    every = sorted(taken)
    after = [erased_entry(entries[seq - 1], targets, every) for seq in every]
    changed = tuple(entry for entry in after if entry != entries[entry.seq - 1])
    contents = [entries[seq - 1].path for seq in taken if is_content(entries[seq - 1])]
    folder = workspaces / asked.conversation
    finding = partial(all_files, folder) if asked.all else partial(find_files, folder, contents, words)
    files = await asyncio.to_thread(finding)
    report = ErasureReport(
        conversation=asked.conversation,
        entries=tuple(_placed(entries[entry.seq - 1], taken[entry.seq]) for entry in changed),
        before=sum(entry.block.erased for entry in named),
        quotes=tuple(_placed(entries[seq - 1], "quotes it") for seq in sorted(others)),
        files=files.names,
        copies=await sharing(store, info, min(taken)) if taken else (),
    )
    typed = [entries[entry.seq - 1] for entry in changed if isinstance(entry.block, UserPrompt | Followup | Steer)]
    return ErasurePlan(report, changed, files, len(entries), await texts_of(store, info.tenant, typed))


async def erase(
    store: Store, asked: Asked, workspaces: Path, by: str, clock: Clock, elsewhere: Elsewhere = lambda _: None
) -> ErasureReport:
    """Erase the requested content and return the report; raises `ConversationHeldError` if it is open elsewhere.

    It can be repeated at any time, also after a crash: the rest is erased then. `erase_copies` and the workspace files
    come first, because they are found by the texts that the log still contains.
    """
    lease = await store.acquire(asked.conversation, HOLDER)
    try:
        plan = await plan_erasure(store, asked, workspaces)
        await asyncio.to_thread(elsewhere, plan)
        await _carry_out(store, plan, by, clock, lease)
    finally:
        await store.release(lease)
    return plan.report


async def delete(store: Store, conversation: ConversationId, workspaces: Path) -> None:
    """Delete a conversation and its files; no record of it remains."""
    await store.info(conversation)
    await asyncio.to_thread(lambda: erase_files(all_files(workspaces / conversation)))
    await store.delete(conversation)
    await store.scrub()


async def _carry_out(store: Store, plan: ErasurePlan, by: str, clock: Clock, lease: Lease) -> None:
    await asyncio.to_thread(erase_files, plan.files)
    if plan.entries:
        record = Draft(NO_TURN, timestamp(clock.epoch_us()), Erased(by=by))
        await store.erase(plan.report.conversation, plan.tail, plan.entries, record, lease)
    await store.scrub()


async def _load(store: Store, conversation: ConversationId) -> list[Entry]:
    entries: list[Entry] = []
    while page := await store.load(conversation, after=len(entries), limit=PAGE):
        entries += page
    return entries


async def _with_traces(
    store: Store, tenant: str, entries: Sequence[Entry], named: Sequence[Entry], found: Quotes, *, quotes: bool
) -> Quotes:
    """Add results of searches that show lines of the named files, and copies of those files in other turns."""
    files = {entry.path for entry in named if is_content(entry)}
    if not files:
        return found
    traces = await find_traces(store, tenant, entries)
    copied = traces.copies_of(files) - files
    others = {entry.seq for entry in entries if is_content(entry) and entry.path in copied and not entry.block.erased}
    shown = traces.showing(files | copied if quotes else files)
    return Quotes(found.copies | shown, (found.others | others) - found.copies - shown)


def _targets(asked: Asked, entries: Sequence[Entry], views: Views) -> Targets:
    if asked.all:
        return Targets(frozenset(entry.seq for entry in entries))
    seqs: set[int] = set()
    sids: set[int] = set()
    for text in asked.paths:
        path = parse(text)
        match path:
            case SourcesPath():
                found = {sid for sid in path.sids if views.sources.pool.get(sid)}
                sids |= found
            case _:
                found = set(_at(path, views))
                seqs |= found
        if not found:
            raise CodedError("path_not_found", f"nothing in conversation {asked.conversation} has the path {path}")
    return Targets(with_written(entries, frozenset(seqs)), frozenset(sids))


def _at(path: LogicalPath, views: Views) -> Iterable[int]:
    turns = views.turns.turns
    match path:
        case EntriesPath():
            return [seq for seq in path.numbers if seq <= views.tail]
        case TurnIndexPath(turn=turn):
            return _of_turns([turn], views)
        case TurnIndexesPath():
            return _of_turns([turn for turn, known in turns.items() if known.n in path.numbers], views)
        case _:
            return views.paths.find(str(path))


def _of_turns(turns: Iterable[TurnId], views: Views) -> list[int]:
    known = views.turns.turns
    return [seq for turn in turns if turn in known for seq in known[turn].seqs()]


def _need_ended(entries: Sequence[Entry], taken: Iterable[int], views: Views) -> None:
    """Raise `turn_open` if an entry belongs to the open turn, which may still act on it."""
    progress = views.progress
    if progress.running and any(entries[seq - 1].turn_id == progress.turn_id for seq in taken):
        raise CodedError(
            "turn_open", "the turn is still open; end it (`/stop` in `timeloom chat`) before you erase its entries"
        )


def _placed(entry: Entry, why: Why) -> Place:
    return Place(seq=entry.seq, type=entry.block.type_name, path=entry.path, why=why)
