"""Replays a conversation entry by entry, rebuilds each request and compares it with its recorded hash."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import Hidden, ModelAnswered, ModelCalled, Pruned, RangeSummary, Unknown, Usage
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.payload import BlobRef, Text
from timeloom.core.policy.cache.misses import PromptChange
from timeloom.core.policy.cache.points import find_cache_points
from timeloom.core.render.editions import renderer_for
from timeloom.core.render.entry_text import needed_payloads
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.prompt import PromptView, needed_seqs
from timeloom.core.render.segments import RenderedSegment, as_text
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views
from timeloom.ports.blobs import BlobError
from timeloom.ports.reader import ConversationUnknownError
from timeloom.ports.store import Store, StoreProblem
from timeloom.runtime.prompt.hashing import request_sha256
from timeloom.runtime.replay.bad_entries import BadEntries
from timeloom.runtime.replay.cache_ledger import CacheLedger, CacheRow
from timeloom.runtime.session.load_views import FOLD_SLICE_ENTRIES

PAGE: Final = 500
"""Entries per read; smaller costs more round trips, larger more memory."""

ReplayVerdict = Literal["same", "differs", "unchecked"]
"""Whether a rebuilt request has the recorded hash; `unchecked` if something it needs is missing or unknown."""

_OWN_CAUSE: Final = "its own system text, tail or hash was changed"


class ReplayedCall(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="call"):
    """A model call of the log, its end, and whether its request can be rebuilt byte for byte."""

    conversation: ConversationId
    seq: int
    path: str
    turn_id: TurnId
    round: int
    attempt: int
    purpose: CallPurpose
    model: str
    stored_sha256: str
    rebuilt_sha256: str
    verdict: ReplayVerdict
    ended: str = ""
    """The error, or else the stop reason; empty if the log does not contain the outcome."""
    usage: Usage = Usage()
    erased: bool = False
    """Whether something in the request was erased; then it is unchecked, which is correct."""
    cache: CacheRow | None = None
    """The expected use of the provider's cache; None if there is no cacheable part or it is incomplete."""


class RebuiltPrompt(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="prompt"):
    """The request of one call as it was sent, and the entries that its segments contain."""

    call: ReplayedCall
    system: str
    segments: tuple[RenderedSegment, ...]
    tail: str
    seqs: tuple[int, ...]
    tools: str = ""
    """The functions of native tool calling, as JSON."""

    def as_text(self) -> str:
        """Return the whole request as text: tools, system text, segments and tail, with a line at each cache point."""
        decision = self.call.purpose == "decision"
        tools = f"{self.tools}\n\n" if self.tools else ""
        system = RenderedSegment(tools + self.system.rstrip("\n") + "\n\n", cache_point=decision)
        return as_text((system, *self.segments, RenderedSegment(self.tail)))


class ReplayWalker:
    """Follows the views and the prompt of a conversation entry by entry, from the start or from given views."""

    def __init__(self, store: Store, conversation: ConversationId, views: Views | None = None) -> None:
        self.views = views or Views()
        self._store = store
        self._conversation = conversation
        self._tenant = ""
        self._prompt = self._new_prompt()
        self._missing = BadEntries(self.views)
        self._foreign = BadEntries(self.views)
        self._mismatches = _Mismatches()
        self._ledger = CacheLedger(self.views)
        self._last_reported_seq = 0
        self._other_rendering: StoreProblem | None = None
        self._open_calls: dict[CallPurpose, ReplayedCall] = {}

    async def begin(self) -> None:
        """Load the tenant and render the entries that are already visible."""
        self._tenant = (await self._store.info(self._conversation)).tenant
        await self._render_visible()

    def _new_prompt(self) -> PromptView:
        return PromptView(self.views.tail, renderer_for(self.views.turns.edition))

    async def _render_visible(self) -> None:
        """Render the prompt at the current views."""
        self._prompt = self._new_prompt()
        entries, payloads = dict[int, Entry](), dict[BlobRef, bytes]()
        async for entry in self._load_entries(needed_seqs(self.views)):
            entries[entry.seq] = entry
            found, wrong = await self._load_payloads(entry)
            payloads.update(found)
            self._watch_entry(entry, wrong)
        for n, (seq, stand) in enumerate(self.views.visible.shown.items()):
            self._prompt.append_visible(seq, stand, entries[stand.by if stand else seq], self.views, payloads)
            if n % FOLD_SLICE_ENTRIES == 0:
                await asyncio.sleep(0)

    async def replay_entry(self, entry: Entry) -> list[ReplayedCall | StoreProblem]:
        """Add the next entry; return the calls whose outcome is known now, and new findings."""
        found: list[ReplayedCall | StoreProblem] = []
        match entry.block:
            case ModelCalled() as block:
                found += await self._check_call(entry, block)
            case ModelAnswered() as block:
                found += self._complete_call(entry, block)
            case Hidden() | Pruned() | RangeSummary() as block:
                self._mismatches.mark_forgotten()
                self._ledger.add_forgetting(block)
            case Unknown(foreign_type=ModelCalled.type_name) as block:
                found += self._report_once(self._unknown_block(entry, block))
            case _:
                pass
        return found + await self.follow_entry(entry)

    async def follow_entry(self, entry: Entry) -> list[StoreProblem]:
        """Add the next entry without checking requests; return the findings about it."""
        payloads, wrong = await self._load_payloads(entry)
        self.views.add(entry)
        if self._prompt.renderer is renderer_for(self.views.turns.edition):
            self._prompt.add(entry, self.views, payloads)
        else:
            # A turn with another edition begins, which renders the whole conversation again.
            await self._render_visible()
        self._watch_entry(entry, wrong)
        return wrong

    async def rebuild_prompt(self, entry: Entry, block: ModelCalled) -> RebuiltPrompt:
        """Return the request of this call, before the call is added; raises if a payload is missing."""
        decision = block.purpose == "decision"
        missing = self._missing.first_visible_problem() if decision else None
        if missing:
            raise CodedError(missing.code, missing.message)
        system, tail, tools = [await self._load_text(text) for text in (block.system, block.tail, block.tools)]
        return RebuiltPrompt(
            call=self._compare(entry, block, "" if block.erased else self._hash_request(block, system, tail, tools)),
            system=system,
            segments=self._prompt.segments(self._cache_point_seqs(block)) if decision else (),
            tail=tail,
            seqs=tuple(needed_seqs(self.views)) if decision else (),
            tools=tools,
        )

    def finish(self) -> Iterator[ReplayedCall | StoreProblem]:
        """Yield the remaining results: calls without an outcome, and differences that no later call explains."""
        yield from sorted(map(_without_outcome, self._open_calls.values()), key=lambda call: call.seq)
        yield from self._mismatches.finish()

    async def _check_call(self, entry: Entry, block: ModelCalled) -> list[ReplayedCall | StoreProblem]:
        found: list[ReplayedCall | StoreProblem] = []
        if before := self._open_calls.pop(block.purpose, None):
            found.append(_without_outcome(before))
        rebuilt, row = "", None
        if block.erased:
            self._ledger.skip_call(entry)
            self._open_calls[block.purpose] = self._compare(entry, block, rebuilt)
            return found
        try:
            system, tail, tools = [await self._load_text(text) for text in (block.system, block.tail, block.tools)]
        except BlobError as error:
            found.append(self._missing_payload(entry, error))
            self._ledger.skip_call(entry)
        else:
            if block.purpose != "decision" or not self._missing.first_visible_problem():
                rebuilt = self._hash_request(block, system, tail, tools)
            if block.purpose == "decision":
                # Tools precede the system text in a provider's cache.
                row = await self._with_path(self._ledger.add_call(entry, block, self._prompt, (tools + system, tail)))
        call = self._open_calls[block.purpose] = replace(self._compare(entry, block, rebuilt), cache=row)
        if row and not row.reproduced and call.verdict == "same":
            found.append(self._points_differ(entry))
        excuse = self._find_excuse(entry, block) if call.verdict == "differs" and block.purpose == "decision" else None
        if excuse is None:
            return found + self._mismatches.add_call(call)
        self._open_calls[block.purpose] = replace(call, verdict="unchecked")
        return found + self._report_once(excuse)

    def _find_excuse(self, entry: Entry, block: ModelCalled) -> StoreProblem | None:
        """Return why this version cannot rebuild the same bytes, if there is a known reason."""
        rendering = self._prompt.renderer.number
        if block.rendering == rendering:
            return self._foreign.first_visible_problem()
        if self._other_rendering is None:
            version = f"version {block.rendering} of the rendering, and this timeloom has version {rendering}"
            message = f"the request of entry {entry.seq} was made by {version}: check it with that version"
            self._other_rendering = StoreProblem("rendering_other", message, self._conversation, entry.seq)
        return self._other_rendering

    def _complete_call(self, entry: Entry, block: ModelAnswered) -> list[ReplayedCall]:
        self._ledger.add_outcome(entry)
        call = self._open_calls.get(block.purpose)
        if call is None or (call.turn_id, call.round, call.attempt) != (entry.turn_id, block.round, block.attempt):
            return []
        del self._open_calls[block.purpose]
        row = self._ledger.complete_row(block, call.cache) if call.cache else None
        return [replace(call, ended=block.error or block.stop_reason, usage=block.usage, cache=row)]

    async def _with_path(self, row: CacheRow) -> CacheRow:
        """Return the row with the path of the block that differs."""
        if row.change is None or not row.change.seq:
            return row
        page = await self._store.load(self._conversation, after=row.change.seq - 1, limit=1)
        return replace(row, change=replace(row.change, path=page[0].path if page else ""))

    def _points_differ(self, entry: Entry) -> StoreProblem:
        message = f"entry {entry.seq}: its recorded cache points or lifetimes differ from those computed from the log"
        return StoreProblem("cache_differs", message, self._conversation, entry.seq)

    def _cache_point_seqs(self, block: ModelCalled) -> tuple[int, ...]:
        return block.cache.seqs if block.cache else find_cache_points(self.views).seqs

    def _hash_request(self, block: ModelCalled, system: str, tail: str, tools: str) -> str:
        return request_sha256(system, self._prompt.fingerprint() if block.purpose == "decision" else "", tail, tools)

    def _compare(self, entry: Entry, block: ModelCalled, rebuilt: str) -> ReplayedCall:
        verdict: ReplayVerdict = "same" if rebuilt == block.request_sha256 else "differs"
        return ReplayedCall(
            conversation=self._conversation,
            seq=entry.seq,
            path=entry.path,
            turn_id=entry.turn_id,
            round=block.round,
            attempt=block.attempt,
            purpose=block.purpose,
            model=block.model,
            stored_sha256=block.request_sha256,
            rebuilt_sha256=rebuilt,
            verdict=verdict if rebuilt else "unchecked",
            erased=block.erased,
        )

    async def _load_entries(self, seqs: Sequence[int]) -> AsyncIterator[Entry]:
        """Yield the entries with these seqs, read in pages together with the entries between them."""
        wanted = deque(seqs)
        while wanted:
            page = await self._store.load(self._conversation, after=wanted[0] - 1, limit=PAGE)
            if not page:
                # The conversation was deleted and recreated during the read.
                raise ConversationUnknownError(self._conversation)
            for entry in page:
                if wanted and entry.seq == wanted[0]:
                    wanted.popleft()
                    yield entry

    def _watch_entry(self, entry: Entry, wrong: Iterable[StoreProblem]) -> None:
        for finding in wrong:
            self._missing.add(entry, finding)
        if isinstance(entry.block, Unknown):
            self._foreign.add(entry, self._unknown_block(entry, entry.block))

    async def _load_payloads(self, entry: Entry) -> tuple[dict[BlobRef, bytes], list[StoreProblem]]:
        payloads: dict[BlobRef, bytes] = {}
        wrong: list[StoreProblem] = []
        for ref in needed_payloads(entry):
            try:
                payloads[ref] = await self._store.read_blob(self._tenant, ref)
            except BlobError as error:
                payloads[ref] = b""
                wrong.append(self._missing_payload(entry, error))
        return payloads, wrong

    async def _load_text(self, text: Text) -> str:
        if isinstance(text, str):
            return text
        return (await self._store.read_blob(self._tenant, text)).decode("utf-8", "replace")

    def _missing_payload(self, entry: Entry, error: BlobError) -> StoreProblem:
        return StoreProblem(error.code, f"entry {entry.seq}: {error}", self._conversation, entry.seq)

    def _unknown_block(self, entry: Entry, block: Unknown) -> StoreProblem:
        kind = one_line(block.foreign_type)
        message = f"entry {entry.seq} is a {kind} in an unknown format: use the timeloom version that wrote it"
        return StoreProblem("store_format_unknown", message, self._conversation, entry.seq)

    def _report_once(self, finding: StoreProblem) -> list[StoreProblem]:
        """Return the finding, unless it or one of a later entry was already reported."""
        seq = finding.seq or 0
        if seq <= self._last_reported_seq:
            return []
        self._last_reported_seq = seq
        return [finding]


def _without_outcome(call: ReplayedCall) -> ReplayedCall:
    row = call.cache
    return replace(call, cache=replace(row, change=row.change or PromptChange("no_outcome"))) if row else call


class _Mismatches:
    """Collects calls that differ and narrows down the cause with the calls around them.

    A prompt contains all of the previous one unless entries were hidden. So all entries before an equal call are
    correct. A differing call between two equal ones differs in the system text, tail or hash that it recorded itself.
    """

    def __init__(self) -> None:
        self._same_seq = 0
        self._first: ReplayedCall | None = None
        self._count = 0
        self._forgot = False

    def mark_forgotten(self) -> None:
        """Record that entries were hidden."""
        self._forgot = True

    def add_call(self, call: ReplayedCall) -> list[StoreProblem]:
        """Add the next call; return findings about earlier calls whose cause is certain now."""
        if call.purpose != "decision":
            return [_difference(call, _OWN_CAUSE)] if call.verdict == "differs" else []
        if call.verdict == "same":
            found = self._conclude(own=not self._forgot)
            self._same_seq = call.seq
            return found
        if call.verdict == "differs":
            if self._first is None:
                self._first, self._forgot = call, False
            self._count += 1
        return []

    def finish(self) -> list[StoreProblem]:
        """Return the remaining findings at the end of the log."""
        return self._conclude(own=False)

    def _conclude(self, *, own: bool) -> list[StoreProblem]:
        first, more = self._first, self._count - 1
        self._first, self._count = None, 0
        if first is None:
            return []
        here = f"something in entries {self._same_seq + 1} to {first.seq} was changed, or rendered by another version"
        return [_difference(first, _OWN_CAUSE if own else here, more)]


def _difference(call: ReplayedCall, cause: str, more: int = 0) -> StoreProblem:
    which = f"entry {call.seq}, attempt {call.attempt} of {call.path} ({call.purpose})"
    after = f"; {more} calls after it differ, too" if more else ""
    return StoreProblem(
        "replay_differs", f"{which}, does not render to its hash: {cause}{after}", call.conversation, call.seq
    )
