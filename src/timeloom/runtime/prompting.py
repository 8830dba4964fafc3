"""Prompting: the prompt of a round, made from the conversation as it stands; a round costs what it adds."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from timeloom.core.payload import BlobRef
from timeloom.core.policy.caching import cache_points
from timeloom.core.policy.next_step import AskModel, Limits
from timeloom.core.render.announce import Round
from timeloom.core.render.catalogue import CatalogueTool
from timeloom.core.render.entry_text import needed_payloads
from timeloom.core.render.prompt import PromptView, needed_seqs
from timeloom.core.render.segments import RenderedSegment
from timeloom.core.render.system import system
from timeloom.core.render.tail import tail_text
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate
from timeloom.ports.model import DataSegment, ModelRequest, Segment, TextSegment
from timeloom.ports.tool import ToolSpec
from timeloom.runtime.ask_model import Prompt
from timeloom.runtime.load_texts import load_texts
from timeloom.runtime.session import Session

Watcher = Callable[[Session, tuple[RenderedSegment, ...]], None]

watchers: Final[list[Watcher]] = []
"""Called with the cacheable part of every prompt; the test suite hangs its prefix check here."""


def request_sha256(system_text: str, fingerprint: str, tail: str) -> str:
    """The hash of a request, which a model call records: system text, fingerprint of the cacheable part, and tail."""
    joined = "\0".join((system_text, fingerprint, tail))
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


class PromptSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a prompt is made with besides the conversation."""

    limits: Limits = Limits()
    window_tokens: int = 200_000
    max_output_tokens: int = 8_192
    instructions: str = ""
    """What the assistant is told of its own, after the instructions that all have."""


class ConversationPrompter:
    """Keeps the rendered conversation and adds to it what was appended since."""

    def __init__(self, session: Session, tools: Sequence[ToolSpec], settings: PromptSettings) -> None:
        self._session = session
        self._settings = settings
        self._system = system(
            load_texts(),
            [_catalogued(spec) for spec in tools],
            several_actions=settings.limits.fanout == "safe_fanout",
            own=settings.instructions,
        )
        self._view: PromptView | None = None
        self._fresh: list[Entry] = []
        session.listen(self._fresh.append)

    async def prompt(self, session: Session, step: AskModel) -> Prompt:
        """The prompt at the present tail."""
        view = await self._rendered()
        views = session.views
        limits = self._settings.limits
        this = Round(
            iteration=step.round,
            max_iterations=step.round if step.last else limits.max_iterations + views.progress.credits,
            now=session.now(),
            prompt_tokens=view.tokens + estimate(self._system),
            window_tokens=self._settings.window_tokens,
        )
        tail = tail_text(this, views, view.live)
        rendered = view.segments(cache_points(views).seqs)
        for watcher in watchers:
            watcher(session, rendered)
        request = ModelRequest(
            system=self._system,
            segments=(*[await self._segment(one) for one in rendered], TextSegment(tail)),
            max_output_tokens=self._settings.max_output_tokens,
            number=views.spend.outcomes.get("decision", 0),
            opening=session.opening,
        )
        return Prompt(request, request_sha256(self._system, view.fingerprint(), tail), self._system, tail)

    async def _rendered(self) -> PromptView:
        fresh, views = list(self._fresh), self._session.views
        self._fresh.clear()
        if self._view is None:
            entries = await self._session.entries(needed_seqs(views))
            payloads = await self._payloads(entries)
            self._view = PromptView.opened(views, {entry.seq: entry for entry in entries}, payloads)
            return self._view
        for entry in fresh:
            self._view.add(entry, views, await self._payloads([entry]))
        return self._view

    async def _payloads(self, entries: Iterable[Entry]) -> dict[BlobRef, bytes]:
        return {ref: await self._session.payload(ref) for entry in entries for ref in needed_payloads(entry)}

    async def _segment(self, rendered: RenderedSegment) -> Segment:
        if rendered.data is None:
            return TextSegment(rendered.text, rendered.cache_point)
        data = rendered.data if isinstance(rendered.data, bytes) else await self._session.payload(rendered.data)
        return DataSegment(rendered.mime, data, rendered.cache_point)


def _catalogued(spec: ToolSpec) -> CatalogueTool:
    return CatalogueTool(
        tool_id=spec.tool_id,
        purpose=spec.purpose,
        description=spec.description,
        params_schema=spec.params_schema,
        effect=spec.effect,
        examples=spec.examples,
    )
