"""Builds the prompt of a round incrementally: each round renders only the entries added since the last one."""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Final

import msgspec

from timeloom.core.blocks import ModelCalled, SourcesAdded
from timeloom.core.blocks.caching import CacheForecast, CachePoint, CacheRates, CacheSettings, Lifetime
from timeloom.core.payload import BlobRef
from timeloom.core.policy.cache.plan import CacheAsked, placed, planned
from timeloom.core.policy.cache.points import cache_points
from timeloom.core.policy.next_step import AskModel, Limits
from timeloom.core.render.catalogue import CatalogueTool
from timeloom.core.render.entries.entry_text import needed_payloads
from timeloom.core.render.prompt import PREFIX_CHARS, Laid, PromptView, needed_seqs
from timeloom.core.render.segments import RenderedSegment
from timeloom.core.render.system import system
from timeloom.core.render.tail.announce import Round, announce, cache_line
from timeloom.core.render.tail.sources_section import sources_section
from timeloom.core.render.tail.tail import current_turn, joined
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate
from timeloom.ports.model import DataSegment, ModelRequest, Segment, TextSegment
from timeloom.ports.tool import ToolSpec
from timeloom.runtime.governance.governor import Governor
from timeloom.runtime.prompt.instructions.load import load_texts
from timeloom.runtime.prompt.payload_cache import KeptPayloads
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.ask_model import Prompt

Watcher = Callable[[Session, tuple[RenderedSegment, ...]], None]

watchers: Final[list[Watcher]] = []
"""Called with the cacheable part of every prompt that is sent; the test suite registers its prefix check here."""


def request_sha256(system_text: str, fingerprint: str, tail: str) -> str:
    """Return the request hash that a model call records: system text, fingerprint of the cacheable part, tail."""
    hashed = _hashed(system_text).copy()
    hashed.update(f"\0{fingerprint}\0{tail}".encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


@lru_cache(maxsize=8)
def _hashed(system_text: str) -> "hashlib._Hash":  # pyright: ignore[reportPrivateUsage] - it has no other name
    # The system text is the longest part and the same in all requests of conversations that share it.
    return hashlib.sha256(system_text.encode("utf-8", "surrogatepass"))


def system_hash(system_text: str) -> str:
    """Return the short hash that identifies a system text in cache records; empty for an empty text."""
    if not system_text.strip():
        return ""
    return hashlib.sha256(system_text.encode("utf-8", "surrogatepass")).hexdigest()[:PREFIX_CHARS]


class PromptSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a prompt besides the conversation."""

    model: str = ""
    """The name of the model; its reported token counts calibrate the estimates."""
    limits: Limits = Limits()
    window_tokens: int = 200_000
    max_output_tokens: int = 8_192
    thinking_tokens: int = 0
    instructions: str = ""
    """Instructions of this deployment, placed after the built-in ones."""
    cache: CacheSettings = CacheSettings()


class SystemText(msgspec.Struct, frozen=True):
    """A system text with its token estimate and hash; conversations with the same tools and settings share it."""

    text: str
    tokens: int
    hash: str


def system_text(tools: Sequence[ToolSpec], settings: PromptSettings) -> SystemText:
    """Return the system text of conversations that have these tools."""
    text = system(
        load_texts(),
        [_catalogued(spec) for spec in tools],
        several_actions=settings.limits.fanout == "safe_fanout",
        own=settings.instructions,
    )
    return SystemText(text, estimate(text), system_hash(text))


class ConversationPrompter:
    """Keeps the rendered conversation in memory and adds newly appended entries before each prompt."""

    def __init__(
        self,
        session: Session,
        system: SystemText,
        settings: PromptSettings,
        governor: Governor | None = None,
        rates: Callable[[], CacheRates] = CacheRates,
    ) -> None:
        self._session = session
        self._governor = governor or Governor(session=session)
        self._settings = settings
        self._system = system
        # Looked up only when a prompt is built, because loading prices may take a while.
        self._rates = cache(rates)
        self._sources: tuple[str, int] | None = None
        self._tail_tokens = 0
        self._view: PromptView | None = None
        self._sent = _Sent(KeptPayloads(session))
        self._fresh: deque[Entry] = deque()
        if len(session.noted) == session.views.tail:
            # A new conversation has no stored entries to read.
            self._view, self._fresh = PromptView(), deque(session.noted)
        self._made: tuple[int, tuple[RenderedSegment, ...]] = (0, ())
        """The last entry and the cacheable part of the newest prompt, kept only if there are watchers."""
        session.watch(self._hear)

    async def sight(self) -> PromptView:
        """Return the cacheable part at the current tail."""
        return await self._rendered()

    @property
    def standing_tokens(self) -> int:
        """Estimated tokens of the system text and the tail, the latter as it was in the last prompt."""
        return self._system.tokens + self._sources_section()[1] + self._tail_tokens

    @property
    def rates(self) -> CacheRates:
        """The cost of cached tokens relative to plain input tokens."""
        return self._rates()

    async def prompt(self, session: Session, step: AskModel) -> Prompt:
        """Return the prompt at the current tail."""
        view = await self._rendered()
        views, settings = session.views, self._settings
        budgets = await self._governor.announced()
        points = cache_points(views, settings.cache).seqs
        if watchers:
            self._made = views.tail, view.segments(points)
        fingerprint = view.fingerprint()
        laid = view.laid(points)
        self._sent.take(laid)
        seq, asked = views.tail, self._asked(step)
        at = placed(views.cached, asked, laid.ends, view.end_at)
        sources, sources_tokens = self._sources_section()
        known_tokens = view.tokens + self._system.tokens + sources_tokens
        this = Round(
            iteration=step.round,
            max_iterations=step.round if step.last else settings.limits.max_iterations + views.progress.credits,
            now=asked.at,
            budgets=budgets,
            prompt_tokens=views.reported.tokens(settings.model, known_tokens),
            window_tokens=settings.window_tokens,
            cache=cache_line(views.reported.last, len(at.ends)),
        )
        turn, announced = current_turn(views), announce(this, views)
        tail = joined(turn, sources, announced)
        self._tail_tokens = estimate(turn) + estimate(announced)
        estimated_tokens = known_tokens + self._tail_tokens
        whole = msgspec.structs.replace(asked, total_tokens=estimated_tokens)
        plan = planned(views.cached, whole, at, view.end_at)
        request = ModelRequest(
            system=self._system.text,
            segments=await self._sent.segments(plan.points, tail),
            system_cache_lifetime=_system_lifetime(plan),
            max_output_tokens=settings.max_output_tokens,
            thinking_tokens=settings.thinking_tokens,
            number=views.spend.outcomes.get("decision", 0),
            opening=session.opening,
        )
        sha256 = request_sha256(self._system.text, fingerprint, tail)
        return Prompt(request, sha256, self._system.text, tail, seq, estimated_tokens, plan)

    def _hear(self, entry: Entry) -> None:
        self._fresh.append(entry)
        seq, segments = self._made
        if segments and isinstance(entry.block, ModelCalled) and entry.seq == seq + 1:
            for watcher in watchers:
                watcher(self._session, segments)

    def _asked(self, step: AskModel) -> CacheAsked:
        return CacheAsked(
            model=self._settings.model,
            calibration=self._session.views.reported.calibrations.get(self._settings.model),
            system=self._system.hash,
            system_tokens=self._system.tokens,
            at=self._session.now(),
            last=step.last,
            settings=self._settings.cache,
            rates=self._rates(),
        )

    async def _rendered(self) -> PromptView:
        if self._view is None:
            # Pending entries must not wait until a long conversation is read.
            await self._session.flush()
            self._view = await self._opened()
        while self._fresh:
            # Removed only after it was rendered: a read that fails or is cancelled must not leave a gap.
            entry = self._fresh[0]
            self._view.add(entry, self._session.views, await self._payloads([entry]))
            self._fresh.popleft()
            if isinstance(entry.block, SourcesAdded):
                self._sources = None
        return self._view

    async def _opened(self) -> PromptView:
        views, entries, payloads = self._session.views, dict[int, Entry](), dict[BlobRef, bytes]()
        # More entries may be appended while this reads.
        while missing := [seq for seq in needed_seqs(views) if seq not in entries]:
            found = await self._session.entries(missing)
            entries.update((entry.seq, entry) for entry in found)
            payloads.update(await self._payloads(found))
        self._fresh.clear()
        return PromptView.opened(views, entries, payloads)

    async def _payloads(self, entries: Iterable[Entry]) -> dict[BlobRef, bytes]:
        return {ref: await self._session.payload(ref) for entry in entries for ref in needed_payloads(entry)}

    def _sources_section(self) -> tuple[str, int]:
        """Return the sources section and its tokens; it is rendered again only after sources were added."""
        if self._sources is None:
            text = sources_section(self._session.views.sources.pool)
            self._sources = text, estimate(text)
        return self._sources


class _Sent:
    """The cacheable part as request segments; images and PDFs are kept as references and read per request."""

    def __init__(self, payloads: KeptPayloads) -> None:
        self._payloads = payloads
        self._segments: list[Segment] = []
        self._stored: list[tuple[int, str, BlobRef]] = []

    def take(self, laid: Laid) -> None:
        """Replace the segments that changed with the new layout."""
        del self._segments[laid.kept :]
        while self._stored and self._stored[-1][0] >= laid.kept:
            self._stored.pop()
        for rendered in laid.fresh:
            if isinstance(rendered.data, BlobRef):
                self._stored.append((len(self._segments), rendered.mime, rendered.data))
            self._segments.append(_segment(rendered))

    async def segments(self, points: Sequence[CachePoint], tail: str) -> tuple[Segment, ...]:
        """Return the segments of a request with these cache points, followed by the tail."""
        out = self._segments.copy()
        for place, mime, ref in self._stored:
            out[place] = DataSegment(mime, await self._payloads.read(ref))
        for point in points:
            if place := point.blocks:
                marked = msgspec.structs.replace(out[place - 1], cache_point=True, cache_lifetime=point.lifetime)
                out[place - 1] = marked
        out.append(TextSegment(tail))
        return tuple(out)


def _system_lifetime(plan: CacheForecast) -> Lifetime:
    return plan.points[0].lifetime if plan.points else "5m"


def _segment(rendered: RenderedSegment) -> Segment:
    if rendered.data is None:
        return TextSegment(rendered.text)
    return DataSegment(rendered.mime, rendered.data if isinstance(rendered.data, bytes) else b"")


def _catalogued(spec: ToolSpec) -> CatalogueTool:
    return CatalogueTool(
        tool_id=spec.tool_id,
        purpose=spec.purpose,
        description=spec.description,
        params_schema=spec.params_schema,
        effect=spec.effect,
        examples=spec.examples,
    )
