"""Builds the prompt of a round incrementally: each round renders only the entries added since the last one."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import islice
from typing import Final
from weakref import WeakMethod

import msgspec

from timeloom.core.blocks import ModelAnswered, ModelCalled, SourcesAdded
from timeloom.core.blocks.caching import CacheForecast, CachePoint, CacheRates, CacheSettings, Lifetime
from timeloom.core.blocks.round import ReplyProtocol
from timeloom.core.payload import BlobRef
from timeloom.core.policy.cache.plan import CachePlanRequest, place_points, plan_cache
from timeloom.core.policy.cache.points import find_cache_points
from timeloom.core.policy.next_step import AskModel, TurnLimits
from timeloom.core.render.editions import EDITIONS, renderer_for
from timeloom.core.render.entry_text import needed_payloads
from timeloom.core.render.facts import AnnouncedBudget, RoundFacts
from timeloom.core.render.prompt import PromptDelta, PromptView, needs_rendering
from timeloom.core.render.renderer import Renderer
from timeloom.core.render.section import join_sections
from timeloom.core.render.segments import RenderedSegment
from timeloom.core.render.v1.tail.announce import cache_line
from timeloom.core.stream.native_reply import NativeReply, decode_calls
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.context.visible import ShownEntries
from timeloom.ports.model import DataSegment, ModelRequest, Segment, TextSegment
from timeloom.runtime.governance.governor import Governor
from timeloom.runtime.prompt.hashing import request_sha256
from timeloom.runtime.prompt.payload_cache import PayloadCache
from timeloom.runtime.prompt.prompt_snapshot import SAVE_AFTER, load_prompt_snapshot, save_prompt_snapshot
from timeloom.runtime.prompt.request import PromptRequest
from timeloom.runtime.prompt.system_text import SystemText, SystemTexts
from timeloom.runtime.session.session import Session

PAGE: Final = 2_000
"""Entries read at once when a stored conversation is rendered; smaller costs more reads, larger more memory."""

RENDER_SLICE_ENTRIES: Final = 50
"""Entries rendered before the event loop runs other tasks; they take about 1 ms. More would make streams stutter."""

PromptObserver = Callable[[Session, tuple[RenderedSegment, ...]], None]
"""Called with the cacheable part of each prompt when its request is recorded."""


class PromptSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a prompt besides the conversation."""

    model: str = ""
    """The name of the model; its reported token counts calibrate the estimates."""
    limits: TurnLimits = TurnLimits()
    window_tokens: int = 200_000
    max_output_tokens: int = 8_192
    thinking_tokens: int = 0
    cache: CacheSettings = CacheSettings()
    protocol: ReplyProtocol = "channels"
    """How the model states its decisions."""


class PromptBuilder:
    """Keeps the rendered conversation in memory and adds newly appended entries before each prompt."""

    def __init__(
        self,
        session: Session,
        systems: SystemTexts,
        settings: PromptSettings,
        governor: Governor | None = None,
        rates: Callable[[], CacheRates] = CacheRates,
        *,
        observers: Sequence[PromptObserver],
    ) -> None:
        self._session = session
        self._governor = governor or Governor(session=session)
        self._settings = settings
        self._systems = systems
        self._pinned_functions: dict[int, str] | None = None if settings.protocol == "native" else {}
        """The functions that the conversation has pinned, by edition, where they are others than those of its tools;
        None before they were looked up."""
        # Looked up only when a prompt is built, because loading prices may take a while.
        self._rates = cache(rates)
        self._sources: tuple[str, int] | None = None
        self._tail_tokens = 0
        self._view: PromptView | None = None
        self._request_segments = _RequestSegments(PayloadCache(session))
        self._unrendered: deque[Entry] = deque()
        if len(session.pending_entries) == session.views.tail:
            # A new conversation has no stored entries to read.
            self._view, self._unrendered = PromptView(), deque(session.pending_entries)
        self._observers = tuple(observers)
        self._observed_prompt: tuple[int, tuple[RenderedSegment, ...]] = (0, ())
        """The last entry and the cacheable part of the newest prompt, kept only if there are observers."""
        # Weak, so that a session that outlives its builder does not keep the rendered conversation in memory.
        on_entry = WeakMethod(self._on_entry)
        session.watch(lambda entry: (listener := on_entry()) and listener(entry))

    async def render(self) -> PromptView:
        """Return the cacheable part at the current tail."""
        return await self._render_pending()

    @property
    def fixed_tokens(self) -> int:
        """Estimated tokens of the system text and the tail, the latter as it was in the last prompt."""
        return self._system.tokens + self._sources_section()[1] + self._tail_tokens

    @property
    def _system(self) -> SystemText:
        turns = self._session.views.turns
        pinned = (self._pinned_functions or {}).get(turns.edition, "")
        return self._systems.get(turns.edition, turns.output, pinned, turns.channels)

    @property
    def rates(self) -> CacheRates:
        """The cost of cached tokens relative to plain input tokens."""
        return self._rates()

    async def build_prompt(self, session: Session, step: AskModel) -> PromptRequest:
        """Return the prompt at the tail at which it was rendered; entries may be appended while this waits."""
        # Read first: whatever arrives while this waits is rendered below.
        budgets = await self._governor.budgets_for_prompt()
        refused = await self._refused_reply()
        rendered = self._render_prompt(session, step, await self._render_pending(), budgets, refused)
        request = ModelRequest(
            system=self._system.text,
            segments=await self._request_segments.segments(rendered.plan.points, rendered.tail),
            system_cache_lifetime=_system_lifetime(rendered.plan),
            max_output_tokens=self._settings.max_output_tokens,
            thinking_tokens=self._settings.thinking_tokens,
            number=rendered.number,
            opening=session.first_user_message,
            conversation=session.conversation,
            tools=self._system.native.functions,
            several_calls=self._settings.limits.fanout == "safe_fanout",
        )
        return PromptRequest(
            request,
            request_sha256(self._system.text, rendered.fingerprint, rendered.tail, self._system.native.text),
            self._system.text,
            rendered.tail,
            rendered.seq,
            rendered.estimated_tokens,
            rendered.plan,
            self._system.sections,
            self._system.native.text,
        )

    def _render_prompt(
        self,
        session: Session,
        step: AskModel,
        view: PromptView,
        budgets: tuple[AnnouncedBudget, ...],
        refused: str,
    ) -> "_RenderedPrompt":
        """Render the tail to the cacheable part of `view`; it waits for nothing, so both show the same entries."""
        views, settings = session.views, self._settings
        points = find_cache_points(views, settings.cache).seqs
        if self._observers:
            self._observed_prompt = view.seq, view.segments(points)
        fingerprint = view.fingerprint()
        prompt_delta = view.compute_delta(points)
        self._request_segments.update(prompt_delta)
        plan_request = self._cache_plan_request(step)
        placement = place_points(views.cached, plan_request, prompt_delta.ends, view.end_at)
        sources, sources_tokens = self._sources_section()
        known_tokens = view.tokens + self._system.tokens + sources_tokens
        round_facts = RoundFacts(
            iteration=step.round,
            max_iterations=step.round if step.last else settings.limits.max_iterations + views.progress.credits,
            now=plan_request.at,
            budgets=budgets,
            prompt_tokens=views.reported.to_model_tokens(settings.model, known_tokens),
            window_tokens=settings.window_tokens,
            cache=cache_line(views.reported.last, len(placement.ends)),
            refused=refused,
        )
        turn, announced = view.renderer.current_turn(views), view.renderer.announce(round_facts, views)
        tail = join_sections(turn, sources, announced)
        self._tail_tokens = estimate_tokens(turn) + estimate_tokens(announced)
        estimated_tokens = known_tokens + self._tail_tokens
        full_request = msgspec.structs.replace(plan_request, total_tokens=estimated_tokens)
        return _RenderedPrompt(
            seq=view.seq,
            fingerprint=fingerprint,
            tail=tail,
            estimated_tokens=estimated_tokens,
            plan=plan_cache(views.cached, full_request, placement, view.end_at),
            number=views.spend.outcomes.get("decision", 0),
        )

    async def _refused_reply(self) -> str:
        """Return the reply that is asked for again because it could not be executed; empty if there is none."""
        progress = self._session.views.progress
        if not progress.told:
            return ""
        (entry,) = await self._session.entries([progress.answer_seq])
        assert isinstance(entry.block, ModelAnswered)
        text = await self._session.text(entry.block.text)
        if entry.block.protocol == "channels":
            return text
        return NativeReply(text, decode_calls(await self._session.text(entry.block.tool_calls))).as_text()

    def _on_entry(self, entry: Entry) -> None:
        self._unrendered.append(entry)
        seq, segments = self._observed_prompt
        if segments and isinstance(entry.block, ModelCalled) and entry.seq == seq + 1:
            for observe in self._observers:
                observe(self._session, segments)

    def _cache_plan_request(self, step: AskModel) -> CachePlanRequest:
        return CachePlanRequest(
            model=self._settings.model,
            calibration=self._session.views.reported.calibrations.get(self._settings.model),
            system=self._system.hash,
            system_tokens=self._system.tokens,
            at=self._session.now(),
            last=step.last,
            settings=self._settings.cache,
            rates=self._rates(),
        )

    async def _pin_functions(self) -> None:
        """Take over the functions that the conversation has pinned, if they are others than those of its tools now."""
        pinned = await self._session.text(self._session.views.native_tools.pinned)
        self._pinned_functions = {
            edition: pinned for edition in EDITIONS if pinned and pinned != self._systems.get(edition).native.text
        }

    @property
    def _renderer(self) -> Renderer:
        return renderer_for(self._session.views.turns.edition)

    async def _render_pending(self) -> PromptView:
        if self._pinned_functions is None:
            await self._pin_functions()
        if self._view and self._view.renderer is not self._renderer:
            # A turn with another edition began, which renders the whole conversation again.
            self._view, self._sources = None, None
            self._request_segments = _RequestSegments(PayloadCache(self._session))
        if self._view is None:
            # Pending entries must not wait until a long conversation is read.
            await self._session.flush()
            self._view = await self._load_view()
        while self._unrendered:
            # Removed only after it was rendered: a read that fails or is cancelled must not leave a gap.
            entry = self._unrendered[0]
            self._view.add(entry, self._session.views, await self._payloads([entry]))
            self._unrendered.popleft()
            if isinstance(entry.block, SourcesAdded):
                self._sources = None
        return self._view

    async def _load_view(self) -> PromptView:
        """Return the prompt at the current tail; entries that are appended while this reads wait in `_unrendered`."""
        shown, tail = self._session.views.visible.copy_shown(), self._session.views.tail
        self._unrendered.clear()
        view = await load_prompt_snapshot(self._session, self._renderer)
        stored_seq = view.seq if view else 0
        if view and tail - stored_seq <= len(shown):
            await self._add_stored(view, tail)
        else:
            view, stored_seq = await self._render_shown(shown, tail), 0
        if tail - stored_seq >= SAVE_AFTER:
            await save_prompt_snapshot(self._session, view)
        return view

    async def _add_stored(self, view: PromptView, tail: int) -> None:
        """Add the stored entries up to `tail`."""
        views = self._session.views
        while view.seq < tail:
            page = range(view.seq + 1, min(view.seq + PAGE, tail) + 1)
            for n, entry in enumerate(await self._session.entries(page)):
                needed = [entry] if needs_rendering(entry, views) else []
                view.add(entry, views, await self._payloads(needed))
                if n % RENDER_SLICE_ENTRIES == 0:
                    await asyncio.sleep(0)

    async def _render_shown(self, shown: ShownEntries, tail: int) -> PromptView:
        """Return the prompt at `tail`, rendered from these entries and stubs."""
        view, views, rest = PromptView(tail, self._renderer), self._session.views, iter(shown.items())
        while page := list(islice(rest, PAGE)):
            needed = sorted({stub.by if stub else seq for seq, stub in page})
            entries = {entry.seq: entry for entry in await self._session.entries(needed)}
            for n, (seq, stub) in enumerate(page):
                entry = entries[stub.by if stub else seq]
                view.append_visible(seq, stub, entry, views, await self._payloads([entry]))
                if n % RENDER_SLICE_ENTRIES == 0:
                    await asyncio.sleep(0)
        return view

    async def _payloads(self, entries: Iterable[Entry]) -> dict[BlobRef, bytes]:
        return {ref: await self._session.payload(ref) for entry in entries for ref in needed_payloads(entry)}

    def _sources_section(self) -> tuple[str, int]:
        """Return the sources section and its tokens; it is rendered again only after sources were added."""
        if self._sources is None:
            text = self._renderer.sources(self._session.views.sources.pool, self._session.views)
            self._sources = text, estimate_tokens(text)
        return self._sources


class _RenderedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a prompt that are rendered together, and the entry up to which they show the log."""

    seq: int
    fingerprint: str
    tail: str
    estimated_tokens: int
    plan: CacheForecast
    number: int
    """Number of decisions that were recorded before it."""


class _RequestSegments:
    """The cacheable part as request segments; images and PDFs are kept as references and read per request."""

    def __init__(self, payloads: PayloadCache) -> None:
        self._payloads = payloads
        self._segments: list[Segment] = []
        self._blob_segments: list[tuple[int, str, BlobRef]] = []

    def update(self, prompt_delta: PromptDelta) -> None:
        """Replace the segments that changed with the new layout."""
        del self._segments[prompt_delta.kept :]
        while self._blob_segments and self._blob_segments[-1][0] >= prompt_delta.kept:
            self._blob_segments.pop()
        for rendered in prompt_delta.fresh:
            if isinstance(rendered.data, BlobRef):
                self._blob_segments.append((len(self._segments), rendered.mime, rendered.data))
            self._segments.append(_to_segment(rendered))

    async def segments(self, points: Sequence[CachePoint], tail: str) -> tuple[Segment, ...]:
        """Return the segments of a request with these cache points, followed by the tail."""
        out = self._segments.copy()
        for place, mime, ref in self._blob_segments:
            out[place] = DataSegment(mime, await self._payloads.read(ref))
        for point in points:
            if place := point.blocks:
                marked = msgspec.structs.replace(out[place - 1], cache_point=True, cache_lifetime=point.lifetime)
                out[place - 1] = marked
        out.append(TextSegment(tail))
        return tuple(out)


def _system_lifetime(plan: CacheForecast) -> Lifetime:
    return plan.points[0].lifetime if plan.points else "5m"


def _to_segment(rendered: RenderedSegment) -> Segment:
    if rendered.data is None:
        return TextSegment(rendered.text)
    return DataSegment(rendered.mime, rendered.data if isinstance(rendered.data, bytes) else b"")
