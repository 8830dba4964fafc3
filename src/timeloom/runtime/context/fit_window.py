"""Prunes, compacts or shortens the conversation before a request so that it fits the model's context window."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from timeloom.core.blocks import Cut, ExternalEvent, Followup, Pruned, Steer, UserPrompt
from timeloom.core.paths import EntriesPath, TurnIndexesPath
from timeloom.core.policy.compaction import (
    CompactSettings,
    RequestSize,
    find_best_cut,
    find_last_cut,
    max_kept_tokens,
    max_request_tokens,
    max_summary_tokens,
)
from timeloom.core.policy.next_step import AskModel
from timeloom.core.render.entries.cards import shorten_entry
from timeloom.core.render.prompt import PromptView
from timeloom.core.render.summary import MAX_OUTSIDE, truncate_to_tokens, turn_index_paths
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.views import Views
from timeloom.ports.model import Model
from timeloom.runtime.context.compact import Compactor
from timeloom.runtime.context.prune import Pruner
from timeloom.runtime.context.read_range import load_card_context
from timeloom.runtime.prompt.builder import PromptBuilder
from timeloom.runtime.session.session import Session

EXACT_CHECK_MARGIN_TOKENS: Final = 1_000
"""Distance to the limit at which the exact size is computed; the tail may have grown this much since the last one."""

SHORTENED_CHARS: Final = (4_000, 1_000, 240, 0)
"""Characters kept of each shortened entry, step by step until the request fits."""

MIN_SUMMARY_TOKENS: Final = 150
"""Minimum tokens of a useful summary: it must name the turns it covers."""


class CompactionEvent(msgspec.Struct, frozen=True):
    """The start or result of a compaction, as reported to clients; tokens are in the model's own count."""

    status: Literal["started", "completed", "skipped"]
    before_tokens: int
    after_tokens: int = 0


CompactionListener = Callable[[CompactionEvent], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFitter:
    """Keeps the prompts of one conversation inside the context window."""

    session: Session
    model: Model
    prompt_builder: PromptBuilder
    pruner: Pruner
    compactor: Compactor
    reply_tokens: int
    _listeners: list[CompactionListener] = field(default_factory=list[CompactionListener])

    def listen(self, listener: CompactionListener) -> None:
        """Call the listener when a compaction starts and when it is finished."""
        self._listeners.append(listener)

    async def fit(self, step: AskModel, interrupt: asyncio.Event) -> str:
        """Reduce the conversation until the request of this step fits; return why it cannot fit, else ""."""
        view = await self.prompt_builder.render()
        estimated = self._to_size(view, self.prompt_builder.fixed_tokens + EXACT_CHECK_MARGIN_TOKENS)
        if step.smaller or estimated.total > max_request_tokens(estimated, self._settings):
            size = await self._measure(step)
            most = max_request_tokens(size, self._settings, smaller=step.smaller)
            if size.total > most:
                return await self._compact(step, size, most, interrupt)
        await self.pruner.prune(view, self.prompt_builder.rates)
        return ""

    @property
    def _settings(self) -> CompactSettings:
        return self.compactor.settings

    async def _compact(self, step: AskModel, size: RequestSize, most: int, interrupt: asyncio.Event) -> str:
        before = self._to_model_tokens(size.total)
        self._notify(CompactionEvent("started", before))
        if size.fixed + size.reply > size.window:
            # The fixed parts alone are too large, so reducing the conversation would not help.
            self._notify(CompactionEvent("skipped", before, before))
            return self._overflow_text(size)
        first = size
        async for _ in self._reduce_in_stages(size, most, interrupt):
            size = await self._measure(step)
            if size.total <= most:
                break
        after = self._to_model_tokens(size.total)
        self._notify(CompactionEvent("completed" if size.total < first.total else "skipped", before, after))
        if size.total <= size.window:
            return ""
        return self._overflow_text(size)

    def _notify(self, event: CompactionEvent) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    def _overflow_text(self, size: RequestSize) -> str:
        sizes = (size.window, size.fixed, size.cacheable, size.reply)
        window, fixed, rest, reply = (self._to_model_tokens(one) for one in sizes)
        return (
            f"the request does not fit the model's window of {window} tokens: the system text and the tail have "
            f"{fixed}, what is left of the conversation {rest}, and the reply may have {reply}"
        )

    async def _reduce_in_stages(self, size: RequestSize, most: int, interrupt: asyncio.Event) -> AsyncIterator[None]:
        """Reduce the request in stages, yielding after each; the caller stops when the request fits."""
        session = self.session
        view = await self.prompt_builder.render()
        cut = find_best_cut(session.views, max_kept_tokens(size, most, self._settings), view.tokens_from)
        if await self._summarize(cut, size, most, interrupt):
            yield
        if await self._summarize(
            find_last_cut(session.views), size, most, interrupt, fallback_reason="the first one left too much"
        ):
            yield
        for chars in SHORTENED_CHARS:
            max_tokens = most - size.fixed - size.reply
            if await self._shorten_largest(chars, max_tokens):
                yield
        if await self._collapse(max(0, most - size.fixed - size.reply) // 4):
            yield

    async def _summarize(
        self, cut: int, size: RequestSize, most: int, interrupt: asyncio.Event, *, fallback_reason: str = ""
    ) -> bool:
        view = await self.prompt_builder.render()
        covered = view.tokens_between(1, cut) if cut else 0
        tokens = min(max_summary_tokens(size, most, self._settings), covered * 2 // 3)
        if tokens < MIN_SUMMARY_TOKENS:
            return False
        await self.compactor.compact(cut, tokens, interrupt, fallback_reason=fallback_reason)
        return True

    async def _shorten_largest(self, chars: int, max_tokens: int) -> bool:
        """Shorten the largest visible entries, user messages last, until the conversation has at most `max_tokens`."""
        view, views = await self.prompt_builder.render(), self.session.views
        excess_tokens = view.tokens - max_tokens
        large_entries = dict(view.find_heavy(chars // 4 + 60, views.tail, views.forgetting.summed_seq + 1))
        entries = await self.session.entries(
            sorted(seq for seq in large_entries if views.visible.shown.get(seq, 0) is None)
        )
        known = await load_card_context(self.session, entries)
        cuts: list[Cut] = []
        for entry in sorted(entries, key=lambda one: (_is_user_message(one), -large_entries[one.seq])):
            text = shorten_entry(entry, chars, known.payloads)
            if (gain := large_entries[entry.seq] - estimate_tokens(text)) > 0 and excess_tokens > 0:
                cuts.append(Cut(entry.seq, entry.seq, text))
                excess_tokens -= gain
        return await self._append_cuts(cuts, f"the request did not fit: {len(cuts)} entries were shortened")

    async def _collapse(self, tokens: int) -> bool:
        """Replace all visible entries after the summary with one card."""
        views = self.session.views
        turn = views.turns.turns[views.progress.turn_id]
        prompts = await self.session.entries(views.paths.find(f"ar:{views.progress.turn_id}.user.prompt")[:1])
        known = await load_card_context(self.session, prompts)
        head = _collapsed_head(views, turn.n)
        words = [shorten_entry(entry, 4 * tokens, known.payloads) for entry in prompts]
        text = "\n".join([head, *(truncate_to_tokens(one, max(0, tokens - estimate_tokens(head))) for one in words)])
        cut = Cut(views.forgetting.summed_seq + 1, views.tail, text)
        return await self._append_cuts([cut], "the request did not fit: all that was left was pruned")

    async def _append_cuts(self, cuts: list[Cut], reason: str) -> bool:
        if not cuts:
            return False
        cuts.sort(key=lambda cut: cut.first_seq)
        await self.session.append([Pruned(cuts=tuple(cuts), reason=reason)], self.session.views.progress.turn_id)
        return True

    async def _measure(self, step: AskModel) -> RequestSize:
        prompt = await self.prompt_builder.build_prompt(self.session, step)
        view = await self.prompt_builder.render()
        return self._to_size(view, prompt.estimated_tokens - view.tokens)

    def _to_size(self, view: PromptView, fixed: int) -> RequestSize:
        return RequestSize(
            cacheable=view.tokens,
            fixed=fixed,
            reply=self._to_estimated_tokens(self.reply_tokens),
            window=self._to_estimated_tokens(self.model.window_tokens),
        )

    def _to_model_tokens(self, estimated: int) -> int:
        return self.session.views.reported.to_model_tokens(self.model.name, estimated)

    def _to_estimated_tokens(self, tokens: int) -> int:
        """Return the model's tokens converted to estimated tokens."""
        million = self._to_model_tokens(1_000_000)
        return tokens * 1_000_000 // million if million else tokens


def _is_user_message(entry: Entry) -> bool:
    return isinstance(entry.block, UserPrompt | Followup | Steer | ExternalEvent)


def _collapsed_head(views: Views, n: int) -> str:
    """Return the head of the turn's card; it names the paths of all entries that no summary covers."""
    done = views.forgetting.summed_seq
    first = next(turn.n for turn in views.turns.turns.values() if turn.spans[-1][1] > done)
    outside = [seq for seq in views.forgetting.outside if seq > done][-MAX_OUTSIDE:]
    lines = [f'[PRUNED TURN {n}] all of it: react.read(["{TurnIndexesPath.from_numbers([n])}"])']
    if first < n:
        lines.append(f"What came before, an index for each turn: {turn_index_paths(first, n - 1)}")
    if outside:
        lines.append(f"Of no turn: {EntriesPath.from_numbers(outside)}")
    return "\n".join(lines)
