"""Replaying a log: the request of every model call made again from the log, and held against the hash it recorded."""

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
from timeloom.ports.store import Finding, Store
from timeloom.runtime.replay.cache_ledger import was_turned_away
from timeloom.runtime.replay.walk import PAGE, RebuiltPrompt, ReplayedCall, Walk
from timeloom.runtime.session.load_views import load_views_at

SLICE: Final = 20
"""Entries walked over before others have their turn; they take some 4 ms. More would make streams stutter."""

NEAR: Final = 50
"""Entries before a call among which the call before it is looked for first; most rounds have fewer."""


async def replay(store: Store, conversation: ConversationId) -> AsyncIterator[ReplayedCall | Finding]:
    """Every model call, in the order in which they ended, and what is wrong; reads the log once, page by page.

    What cannot be read or rendered ends the walk with a finding, and never with an error.
    """
    walk = Walk(store, conversation)
    try:
        await walk.begin()
        async for entry in _entries(store, conversation):
            for found in await walk.replayed(entry):
                yield found
    except CodedError as error:
        yield Finding(error.code, str(error), conversation, walk.views.tail + 1)
    for found in walk.end():
        yield found


async def find_calls(
    store: Store, conversation: ConversationId, path: RoundTextPath, purpose: CallPurpose = "decision"
) -> dict[int, int]:
    """The attempts at that path, each with the seq of its call; raises only if damage hides whether there are any."""
    found: dict[int, int] = {}
    try:
        async for entry in _entries(store, conversation):
            block = entry.block
            if isinstance(block, ModelCalled) and block.purpose == purpose and entry.path == str(path):
                found[block.attempt] = entry.seq
    except CodedError:
        if not found:
            raise
    return found


async def calls_at(store: Store, conversation: ConversationId, seqs: Iterable[int]) -> dict[int, int]:
    """The attempts among these entries to come to a decision, each with its seq."""
    found: dict[int, int] = {}
    for seq in seqs:
        for entry in await store.load(conversation, after=seq - 1, limit=1):
            if isinstance(entry.block, ModelCalled) and entry.block.purpose == "decision":
                found[entry.block.attempt] = seq
    return found


async def rebuild(store: Store, conversation: ConversationId, seq: int) -> RebuiltPrompt:
    """The request of the call at that seq; what is wrong with the log after it does no harm."""
    walk = Walk(store, conversation)
    await walk.begin()
    async for entry in _entries(store, conversation):
        if entry.seq == seq and isinstance(entry.block, ModelCalled):
            return await walk.rebuilt(entry, entry.block)
        if entry.seq == seq:
            break
        await walk.follow(entry)
    raise _no_call(conversation, seq)


async def explain(store: Store, conversation: ConversationId, seq: int) -> RebuiltPrompt:
    """As `rebuild`, with how the call ended and what its cache did, as far as the log can be followed.

    It begins at a call shortly before, with the views of that place, so that it costs what is in sight.
    """
    with suppress(CodedError):
        # Where something is wrong, the whole log says it best.
        if start := await _before(store, conversation, seq):
            return await _explained(store, conversation, seq, await load_views_at(store, conversation, start - 1))
    return await _explained(store, conversation, seq, Views())


async def _explained(store: Store, conversation: ConversationId, seq: int, views: Views) -> RebuiltPrompt:
    walk = Walk(store, conversation, views)
    await walk.begin()
    rebuilt: RebuiltPrompt | None = None
    ended: ReplayedCall | None = None
    try:
        async for entry in _entries(store, conversation, views.tail):
            if entry.seq == seq and isinstance(entry.block, ModelCalled):
                rebuilt = await walk.rebuilt(entry, entry.block)
            ended = _call_at(seq, await walk.replayed(entry))
            if ended or (rebuilt is None and entry.seq >= seq):
                break
    except CodedError:
        if rebuilt is None:
            raise
    if rebuilt is None:
        raise _no_call(conversation, seq)
    return replace(rebuilt, call=ended or _call_at(seq, walk.end()) or rebuilt.call)


async def _before(store: Store, conversation: ConversationId, seq: int) -> int:
    """The newest call before that one from which all that is said of it follows; 0 where only the whole log tells it.

    It was answered, so the provider has what it left, and it recorded what was expected of the cache, as the call
    itself did: what an older log does not say is made from all calls before.
    """
    page = await store.load(conversation, after=seq - 1, limit=1)
    span = NEAR
    while page and isinstance(page[0].block, ModelCalled) and page[0].block.cache:
        first = max(0, seq - 1 - span)
        if found := _answered_call(await store.load(conversation, after=first, limit=seq - 1 - first)):
            return found
        if not first:
            break
        span *= 4
    return 0


def _answered_call(entries: Sequence[Entry]) -> int:
    """The newest decision among these that a model has taken in; 0 where there is none."""
    answered: tuple[TurnId, int, int] | None = None
    for entry in reversed(entries):
        match entry.block:
            case ModelAnswered(purpose="decision") as block:
                answered = None if was_turned_away(block) else (entry.turn_id, block.round, block.attempt)
            case ModelCalled(purpose="decision", erased=False) as block if block.cache:
                if answered == (entry.turn_id, block.round, block.attempt):
                    return entry.seq
            case _:
                pass
    return 0


def _call_at(seq: int, found: Iterable[ReplayedCall | Finding]) -> ReplayedCall | None:
    return next((call for call in found if isinstance(call, ReplayedCall) and call.seq == seq), None)


def _no_call(conversation: ConversationId, seq: int) -> CodedError:
    return CodedError("path_not_found", f"entry {seq} of conversation {conversation} is no model call")


async def _entries(store: Store, conversation: ConversationId, seq: int = 0) -> AsyncIterator[Entry]:
    """The log after that entry; raises at the first that cannot be read, after all those before it."""
    limit = PAGE
    while True:
        try:
            page = await store.load(conversation, after=seq, limit=limit)
        except CodedError:
            if limit == 1:
                raise
            # A page with something damaged in it does not load; what stands before the damage does.
            limit = 1
            continue
        if not page:
            return
        for n, entry in enumerate(page):
            if n % SLICE == 0:
                await asyncio.sleep(0)
            yield entry
        seq = page[-1].seq
