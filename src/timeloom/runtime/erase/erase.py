"""Erases entries permanently, together with everything that was derived from them."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from timeloom.core.blocks import Erased, Followup, Steer, UserPrompt
from timeloom.core.blocks.redact import redact_block
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.paths import EntriesPath, LogicalPath, SourcesPath, TurnIndexesPath, TurnIndexPath
from timeloom.core.policy.erase.spread import EraseReason, EraseTargets, find_entries_to_erase, redact_entry
from timeloom.core.policy.erase.written_by_calls import add_written_entries
from timeloom.core.timeline import NO_TURN, Draft, Entry
from timeloom.core.view.aliases import parse_in
from timeloom.core.view.views import Views, fold
from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.leases import Lease
from timeloom.ports.store import Store
from timeloom.runtime.erase.file_references import find_file_references
from timeloom.runtime.erase.kept import release_conversation
from timeloom.runtime.erase.same_text import TextMatches, find_matches, is_content, load_entry_texts, load_search_texts
from timeloom.runtime.erase.side_files import SideFileEraser, erase_side_files, load_user_texts
from timeloom.runtime.erase.workspace_files import FilesToErase, erase_files, find_files, list_all_files
from timeloom.runtime.fork.shared_entries import find_conversations_sharing

HOLDER: Final = "timeloom erase"
"""The lease holder while entries are erased."""

PAGE: Final = 500


class ErasedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry in an erasure report: its position and the reason, never its content."""

    seq: int
    type: str
    path: str = ""
    why: EraseReason


class ErasureReport(msgspec.Struct, frozen=True, kw_only=True):
    """The entries and files that an erasure removes or has removed."""

    conversation: ConversationId
    entries: tuple[ErasedEntry, ...] = ()
    before: int = 0
    """The number of named entries that had been erased before."""
    quotes: tuple[ErasedEntry, ...] = ()
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
    user_texts: tuple[str, ...]
    """The user-written texts among the erased entries, for erasing copies in side files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRequest:
    """A request to erase paths or a whole conversation; `quotes` includes blocks that contain the same text."""

    conversation: ConversationId
    paths: tuple[str, ...] = ()
    quotes: bool = False

    @property
    def is_whole_conversation(self) -> bool:
        """Whether the whole conversation is to be erased, because no paths are given."""
        return not self.paths


async def plan_erasure(store: Store, request: EraseRequest, workspaces: Path) -> ErasurePlan:
    """Return the plan of an erasure without changing anything; raises `CodedError` if a path matches nothing."""
    info = await store.info(request.conversation)
    entries = await _load_entries(store, request.conversation)
    views = fold(entries)
    targets = _targets(request, entries, views)
    named = [entries[seq - 1] for seq in sorted(targets.seqs)]
    wanted = await load_search_texts(store, info.tenant, [entry for entry in named if not entry.block.erased])
    others: frozenset[int] = frozenset()
    if request.is_whole_conversation:
        reasons: dict[int, EraseReason] = {
            entry.seq: "named" for entry in entries if redact_block(entry.block) is not entry.block
        }
    else:
        rest = [entry for entry in entries if entry.seq not in targets.seqs]
        found = await find_matches(store, info.tenant, rest, wanted, views.artifacts)
        found = await _with_file_references(store, info.tenant, entries, named, found, quotes=request.quotes)
        quoting = found.copies | found.others if request.quotes else found.copies
        targets, reasons = _find_with_file_rows(entries, targets, quoting, views)
        others = found.others - reasons.keys()
    _require_ended_turn(entries, reasons, views)
    seqs = sorted(reasons)
    after = [redact_entry(entries[seq - 1], targets, seqs) for seq in seqs]
    changed = tuple(entry for entry in after if entry != entries[entry.seq - 1])
    contents = [entries[seq - 1].path for seq in reasons if is_content(entries[seq - 1])]
    folder = workspaces / request.conversation
    finding = (
        partial(list_all_files, folder)
        if request.is_whole_conversation
        else partial(find_files, folder, contents, wanted)
    )
    files = await asyncio.to_thread(finding)
    report = ErasureReport(
        conversation=request.conversation,
        entries=tuple(_to_erased_entry(entries[entry.seq - 1], reasons[entry.seq]) for entry in changed),
        before=sum(entry.block.erased for entry in named),
        quotes=tuple(_to_erased_entry(entries[seq - 1], "quotes it") for seq in sorted(others)),
        files=files.names,
        copies=await find_conversations_sharing(store, info, min(reasons)) if reasons else (),
    )
    typed = [entries[entry.seq - 1] for entry in changed if isinstance(entry.block, UserPrompt | Followup | Steer)]
    return ErasurePlan(report, changed, files, len(entries), await load_entry_texts(store, info.tenant, typed))


async def erase(
    store: Store,
    request: EraseRequest,
    workspaces: Path,
    by: str,
    clock: Clock,
    side_file_erasers: Sequence[SideFileEraser] = (),
) -> ErasureReport:
    """Erase the requested content and return the report; raises `ConversationHeldError` if it is open elsewhere.

    It can be repeated at any time, also after a crash: the rest is erased then. Side files and workspace files come
    first, because they are found by the texts that the log still contains.
    """
    lease = await store.acquire(request.conversation, HOLDER)
    try:
        plan = await plan_erasure(store, request, workspaces)
        await asyncio.to_thread(erase_side_files, side_file_erasers, request.conversation, plan.user_texts)
        await _apply_plan(store, plan, by, clock, lease)
    finally:
        await store.release(lease)
    return plan.report


async def delete_conversation_data(
    store: Store, conversation: ConversationId, workspaces: Path, side_file_erasers: Sequence[SideFileEraser] = ()
) -> None:
    """Delete a conversation, its files and its copies in side files; no record of it remains."""
    await remove_conversation(store, conversation, workspaces, side_file_erasers)
    await store.scrub()


async def remove_conversation(
    store: Store, conversation: ConversationId, workspaces: Path, side_file_erasers: Sequence[SideFileEraser] = ()
) -> None:
    """Delete a conversation as above; traces stay in the store's files until the caller scrubs the store."""
    await store.info(conversation)
    if side_file_erasers:
        user_texts = await load_user_texts(store, conversation)
        await asyncio.to_thread(erase_side_files, side_file_erasers, conversation, user_texts)
    await asyncio.to_thread(lambda: erase_files(list_all_files(workspaces / conversation)))
    await release_conversation(store, conversation)
    await store.delete(conversation)


async def _apply_plan(store: Store, plan: ErasurePlan, by: str, clock: Clock, lease: Lease) -> None:
    await asyncio.to_thread(erase_files, plan.files)
    if plan.entries:
        record = Draft(NO_TURN, timestamp(clock.epoch_us()), Erased(by=by))
        await store.erase(plan.report.conversation, plan.tail, plan.entries, record, lease)
    await store.scrub()


async def _load_entries(store: Store, conversation: ConversationId) -> list[Entry]:
    entries: list[Entry] = []
    while page := await store.load(conversation, after=len(entries), limit=PAGE):
        entries += page
    return entries


async def _with_file_references(
    store: Store, tenant: str, entries: Sequence[Entry], named: Sequence[Entry], found: TextMatches, *, quotes: bool
) -> TextMatches:
    """Add results of searches that show lines of the named files, and copies of those files in other turns."""
    files = {entry.path for entry in named if is_content(entry)}
    if not files:
        return found
    references = await find_file_references(store, tenant, entries)
    copied = references.find_copies(files) - files
    others = {entry.seq for entry in entries if is_content(entry) and entry.path in copied and not entry.block.erased}
    shown = references.find_results(files | copied if quotes else files)
    return TextMatches(found.copies | shown, (found.others | others) - found.copies - shown)


def _targets(request: EraseRequest, entries: Sequence[Entry], views: Views) -> EraseTargets:
    if request.is_whole_conversation:
        return EraseTargets(frozenset(entry.seq for entry in entries))
    seqs: set[int] = set()
    sids: set[int] = set()
    for text in request.paths:
        path = parse_in(text, views)
        match path:
            case SourcesPath():
                found = {sid for sid in path.sids if views.sources.pool.get(sid)}
                sids |= found
            case _:
                found = set(_find_seqs(path, views))
                seqs |= found
        if not found:
            raise CodedError("path_not_found", f"nothing in conversation {request.conversation} has the path {path}")
    return EraseTargets(add_written_entries(entries, frozenset(seqs)), frozenset(sids))


def _find_with_file_rows(
    entries: Sequence[Entry], targets: EraseTargets, quoting: Iterable[int], views: Views
) -> tuple[EraseTargets, dict[int, EraseReason]]:
    """Return what must be erased, and the targets with the rows of all files that are erased: rows quote their file."""
    quoting = tuple(quoting)
    while True:
        reasons = find_entries_to_erase(entries, targets, quoting)
        files = {entry.path for seq in reasons if is_content(entry := entries[seq - 1])}
        rows = views.sources.pool.rows.values() if files else ()
        sids = targets.sids | {row.sid for row in rows if row.artifact_path in files}
        if sids == targets.sids:
            return targets, reasons
        targets = EraseTargets(targets.seqs, sids)


def _find_seqs(path: LogicalPath, views: Views) -> Iterable[int]:
    turns = views.turns.turns
    match path:
        case EntriesPath():
            return [seq for seq in path.numbers if seq <= views.tail]
        case TurnIndexPath(turn=turn):
            return _turn_seqs([turn], views)
        case TurnIndexesPath():
            return _turn_seqs([turn for turn, known in turns.items() if known.n in path.numbers], views)
        case _:
            return views.paths.find(str(path))


def _turn_seqs(turns: Iterable[TurnId], views: Views) -> list[int]:
    known = views.turns.turns
    return [seq for turn in turns if turn in known for seq in known[turn].seqs()]


def _require_ended_turn(entries: Sequence[Entry], seqs: Iterable[int], views: Views) -> None:
    """Raise `turn_open` if an entry belongs to the open turn, which may still act on it."""
    progress = views.progress
    if progress.running and any(entries[seq - 1].turn_id == progress.turn_id for seq in seqs):
        raise CodedError(
            "turn_open", "the turn is still open; end it (`/stop` in `timeloom chat`) before you erase its entries"
        )


def _to_erased_entry(entry: Entry, why: EraseReason) -> ErasedEntry:
    return ErasedEntry(seq=entry.seq, type=entry.block.type_name, path=entry.path, why=why)
