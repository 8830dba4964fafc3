"""Rebuilds the request of every model call from the log and compares it with the recorded hash."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from timeloom.core.blocks import ModelAnswered, ModelCalled
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.paths import RoundTextPath
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views
from timeloom.ports.store import Store, StoreProblem
from timeloom.runtime.replay.cache_ledger import was_rejected
from timeloom.runtime.replay.walk import PAGE, RebuiltPrompt, ReplayedCall, ReplayWalker
from timeloom.runtime.session.load_views import load_views_at

REPLAY_SLICE_ENTRIES: Final = 20
"""Entries replayed before the event loop runs other tasks; they take about 4 ms. More would make streams stutter."""

NEARBY_ENTRIES: Final = 50
"""Number of entries before a call that are first searched for the previous call; most rounds have fewer."""


async def replay(store: Store, conversation: ConversationId) -> AsyncIterator[ReplayedCall | StoreProblem]:
    """Yield every model call in the order in which they ended, and all findings; the log is read once, by pages.

    An entry that cannot be read or rendered ends the replay with a finding; it never raises.
    """
    walker = ReplayWalker(store, conversation)
    try:
        await walker.begin()
        async for entry in _iter_entries(store, conversation):
            for found in await walker.replay_entry(entry):
                yield found
    except CodedError as error:
        yield StoreProblem(error.code, str(error), conversation, walker.views.tail + 1)
    for found in walker.finish():
        yield found


async def find_calls(
    store: Store, conversation: ConversationId, path: RoundTextPath, purpose: CallPurpose = "decision"
) -> dict[int, int]:
    """Return the seq of each attempt at that path; raises only if the log is damaged before any was found."""
    found: dict[int, int] = {}
    try:
        async for entry in _iter_entries(store, conversation):
            block = entry.block
            if isinstance(block, ModelCalled) and block.purpose == purpose and entry.path == str(path):
                found[block.attempt] = entry.seq
    except CodedError:
        if not found:
            raise
    return found


async def find_calls_at(store: Store, conversation: ConversationId, seqs: Iterable[int]) -> dict[int, int]:
    """Return the seq of each attempt at a decision among these entries."""
    found: dict[int, int] = {}
    for seq in seqs:
        for entry in await store.load(conversation, after=seq - 1, limit=1):
            if isinstance(entry.block, ModelCalled) and entry.block.purpose == "decision":
                found[entry.block.attempt] = seq
    return found


async def rebuild_prompt(store: Store, conversation: ConversationId, seq: int) -> RebuiltPrompt:
    """Return the request of the call at that seq; later damage of the log has no effect."""
    walker = ReplayWalker(store, conversation)
    await walker.begin()
    async for entry in _iter_entries(store, conversation):
        if entry.seq == seq and isinstance(entry.block, ModelCalled):
            return await walker.rebuild_prompt(entry, entry.block)
        if entry.seq == seq:
            break
        await walker.follow_entry(entry)
    raise _not_a_call_error(conversation, seq)


async def explain_call(store: Store, conversation: ConversationId, seq: int) -> RebuiltPrompt:
    """Return the request like `rebuild_prompt`, with the call's end and cache use if the log can be read that far.

    It starts at an earlier call with the views of that position, so its cost depends only on the visible entries.
    """
    with suppress(CodedError):
        # If something is wrong, replaying the whole log explains it best.
        if start := await _find_start_call(store, conversation, seq):
            return await _explain_from(store, conversation, seq, await load_views_at(store, conversation, start - 1))
    return await _explain_from(store, conversation, seq, Views())


async def _explain_from(store: Store, conversation: ConversationId, seq: int, views: Views) -> RebuiltPrompt:
    walker = ReplayWalker(store, conversation, views)
    await walker.begin()
    rebuilt: RebuiltPrompt | None = None
    ended: ReplayedCall | None = None
    try:
        async for entry in _iter_entries(store, conversation, views.tail):
            if entry.seq == seq and isinstance(entry.block, ModelCalled):
                rebuilt = await walker.rebuild_prompt(entry, entry.block)
            ended = _call_at(seq, await walker.replay_entry(entry))
            if ended or (rebuilt is None and entry.seq >= seq):
                break
    except CodedError:
        if rebuilt is None:
            raise
    if rebuilt is None:
        raise _not_a_call_error(conversation, seq)
    return replace(rebuilt, call=ended or _call_at(seq, walker.finish()) or rebuilt.call)


async def _find_start_call(store: Store, conversation: ConversationId, seq: int) -> int:
    """Return the newest earlier call that is sufficient to explain the call at `seq`; 0 if the whole log is needed.

    It must have been answered, so that the provider has its cache, and both calls must have recorded a cache forecast.
    For older logs without forecasts, the forecast is computed from all previous calls.
    """
    page = await store.load(conversation, after=seq - 1, limit=1)
    span = NEARBY_ENTRIES
    while page and isinstance(page[0].block, ModelCalled) and page[0].block.cache:
        first = max(0, seq - 1 - span)
        if found := _newest_answered_call(await store.load(conversation, after=first, limit=seq - 1 - first)):
            return found
        if not first:
            break
        span *= 4
    return 0


def _newest_answered_call(entries: Sequence[Entry]) -> int:
    """Return the seq of the newest decision call that the provider processed; 0 if there is none."""
    answered: tuple[TurnId, int, int] | None = None
    for entry in reversed(entries):
        match entry.block:
            case ModelAnswered(purpose="decision") as block:
                answered = None if was_rejected(block) else (entry.turn_id, block.round, block.attempt)
            case ModelCalled(purpose="decision", erased=False) as block if block.cache:
                if answered == (entry.turn_id, block.round, block.attempt):
                    return entry.seq
            case _:
                pass
    return 0


def _call_at(seq: int, found: Iterable[ReplayedCall | StoreProblem]) -> ReplayedCall | None:
    return next((call for call in found if isinstance(call, ReplayedCall) and call.seq == seq), None)


def _not_a_call_error(conversation: ConversationId, seq: int) -> CodedError:
    return CodedError("path_not_found", f"entry {seq} of conversation {conversation} is not a model call")


async def _iter_entries(store: Store, conversation: ConversationId, seq: int = 0) -> AsyncIterator[Entry]:
    """Yield the entries after `seq`; raises at the first unreadable entry, after yielding all before it."""
    limit = PAGE
    while True:
        try:
            page = await store.load(conversation, after=seq, limit=limit)
        except CodedError:
            if limit == 1:
                raise
            # A page with a damaged entry does not load; the entries before the damage do, one by one.
            limit = 1
            continue
        if not page:
            return
        for n, entry in enumerate(page):
            if n % REPLAY_SLICE_ENTRIES == 0:
                await asyncio.sleep(0)
            yield entry
        seq = page[-1].seq
