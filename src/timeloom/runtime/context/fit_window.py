"""Applies the reductions that the policy chooses, until a request fits the model's context window."""

import asyncio
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, Literal, assert_never

import msgspec

from timeloom.core.blocks import CompactionEnded, Cut, ExternalEvent, Followup, Pruned, Steer, UserPrompt
from timeloom.core.ids import TurnId
from timeloom.core.policy.compaction import (
    KEPT_ROUNDS,
    CompactSettings,
    RequestSize,
    find_best_cut,
    find_last_cut,
    find_requested_cut,
    max_entry_tokens,
    max_kept_tokens,
    max_request_tokens,
    needs_exact_size,
)
from timeloom.core.policy.next_step import AskModel
from timeloom.core.policy.pins import max_pinned_tokens
from timeloom.core.policy.reduction import (
    Collapse,
    CutPoint,
    ExtractSummary,
    Prune,
    Reduction,
    ReductionFacts,
    ShortenEntries,
    WriteSummary,
    explain_nothing_to_compact,
    next_reduction,
    next_requested_reduction,
)
from timeloom.core.render.editions import renderer_for
from timeloom.core.render.entry_text import MAX_WORDS_CHARS
from timeloom.core.render.facts import CardContext
from timeloom.core.render.prompt import PromptView
from timeloom.core.render.renderer import Renderer
from timeloom.core.render.v1.summary import MAX_OUTSIDE, truncate_to_tokens
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.context.compactions import CompactionRequest
from timeloom.core.view.views import Views
from timeloom.ports.model import Model
from timeloom.runtime.context.compact import Compactor, FailedSummary, SummaryOrder
from timeloom.runtime.context.pins import PinKeeper
from timeloom.runtime.context.prune import Pruner
from timeloom.runtime.context.read_range import load_card_context
from timeloom.runtime.context.summary_facts import collect_calls
from timeloom.runtime.prompt.builder import PromptBuilder
from timeloom.runtime.session.session import Session


class CompactionEvent(msgspec.Struct, frozen=True):
    """The start or result of a compaction, as reported to clients; tokens are in the model's own count."""

    status: Literal["started", "completed", "skipped"]
    before_tokens: int
    after_tokens: int = 0


MAX_UNSEEN_LINES: Final = 16
"""Maximum number of calls that the last card names in a line each. More, as a program makes, are named in groups."""

COLLAPSE_OVERHEAD_TOKENS: Final = 40
"""Tokens that the last card adds besides its text: the title of its section, and where the turn's beginning is."""

CompactionListener = Callable[[CompactionEvent], None]


@dataclass(frozen=True, slots=True)
class _AppliedReduction:
    """Whether a reduction changed the request; `failed` is the summary that no model wrote."""

    changed: bool
    failed: FailedSummary | None = None


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
        await self._extend_long_messages()
        size = await self._current_size(step)
        limit = max_request_tokens(size, self._settings, smaller=step.smaller)
        facts = ReductionFacts(before=size, total_tokens=size.total, limit=limit, settings=self._settings)
        if not facts.fits and await self._end_pins(facts):
            size = await self._measure(step)
            facts = msgspec.structs.replace(facts, before=size, total_tokens=size.total)
        if facts.fits:
            await self._reduce(facts, step, interrupt)
            return ""
        before = self._to_model_tokens(size.total)
        self._notify(CompactionEvent("started", before))
        reduced = await self._reduce(facts, step, interrupt)
        status = "completed" if reduced.total < size.total else "skipped"
        self._notify(CompactionEvent(status, before, _scale(before, reduced.total, size.total)))
        return "" if reduced.total <= reduced.window else self._overflow_text(reduced)

    async def compact(self, request: CompactionRequest, interrupt: asyncio.Event) -> None:
        """Carry out a requested compaction, and record its outcome together with the summary."""
        view, views = await self.prompt_builder.render(), self.session.views
        size = self._to_size(view, self.prompt_builder.fixed_tokens)
        limit = max_request_tokens(size, self._settings)
        kept = max_kept_tokens(size, limit, self._settings)
        # A log of another program may have rounds without the header of a turn; a summary belongs to a turn.
        has_turn = views.progress.turn_id in views.turns.turns
        cut = _cut_point(
            view, find_requested_cut(views, request.keep, kept, view.tokens_from) if has_turn else 0, views
        )
        facts = ReductionFacts(before=size, total_tokens=size.total, limit=limit, settings=self._settings, best_cut=cut)
        before = self._to_model_tokens(size.total)
        if next_requested_reduction(facts) is None:
            summarized = bool(views.forgetting.summary_seq)
            reason = explain_nothing_to_compact(request.keep or KEPT_ROUNDS, cut, summarized_before=summarized)
            skipped = CompactionEnded(message_id=request.message_id, outcome="skipped", text=reason)
            await self.session.append([skipped], views.progress.turn_id)
            self._notify(CompactionEvent("skipped", before, before))
            return
        self._notify(CompactionEvent("started", before))
        order = SummaryOrder(message_id=request.message_id, focus=request.focus, covered_tokens=cut.covered_tokens)
        failed = None
        while (reduction := next_requested_reduction(facts)) is not None:
            applied = await self._apply(reduction, failed, interrupt, order)
            failed = applied.failed
            facts = msgspec.structs.replace(facts, last=reduction, summary_failure=failed.reason if failed else None)
        after = self._to_size(await self.prompt_builder.render(), self.prompt_builder.fixed_tokens)
        self._notify(CompactionEvent("completed", before, _scale(before, after.total, size.total)))

    @property
    def pins(self) -> PinKeeper:
        """The pins of the conversation, bounded by the model's window."""
        return PinKeeper(self.session, self._to_estimated_tokens(self.model.window_tokens))

    async def _end_pins(self, facts: ReductionFacts) -> bool:
        """End the oldest pins that leave too little of the window, which may be that of another model now."""
        return await self.pins.end_oldest(
            min(max_pinned_tokens(facts.before.window), max(0, facts.available_tokens) // 2)
        )

    @property
    def _settings(self) -> CompactSettings:
        return self.compactor.settings

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

    async def _reduce(self, facts: ReductionFacts, step: AskModel, interrupt: asyncio.Event) -> RequestSize:
        """Apply reductions until the policy returns none; return the size of the request after the last one."""
        size, failed = facts.before, None
        while (reduction := next_reduction(await self._with_cuts(facts))) is not None:
            applied = await self._apply(reduction, failed, interrupt)
            failed = applied.failed
            if applied.changed and not facts.fits:
                size = await self._measure(step)
            facts = msgspec.structs.replace(
                facts,
                total_tokens=size.total,
                last=reduction,
                summary_failure=failed.reason if failed else None,
            )
        return size

    async def _with_cuts(self, facts: ReductionFacts) -> ReductionFacts:
        """Return the facts with the cuts that are legal now; a request that fits needs none."""
        if facts.fits:
            return facts
        view, views = await self.prompt_builder.render(), self.session.views
        keep = max(0, max_kept_tokens(facts.before, facts.limit, facts.settings) - views.visible.pinned_tokens)
        best = _cut_point(view, find_best_cut(views, keep, view.tokens_from), views)
        last = _cut_point(view, find_last_cut(views), views)
        return msgspec.structs.replace(facts, best_cut=best, last_cut=last)

    async def _apply(
        self,
        reduction: Reduction,
        failed: FailedSummary | None,
        interrupt: asyncio.Event,
        order: SummaryOrder | None = None,
    ) -> _AppliedReduction:
        """Apply the reduction; `failed` is the summary that the previous one did not complete.

        With `order`, the summary fulfils a request.
        """
        match reduction:
            case Prune():
                view = await self.prompt_builder.render()
                return _AppliedReduction(await self.pruner.prune(view, self.prompt_builder.rates))
            case WriteSummary(cut=cut, max_tokens=max_tokens):
                failed = await self.compactor.write_summary(cut, max_tokens, interrupt, order)
                return _AppliedReduction(failed is None, failed)
            case ExtractSummary(cut=cut, max_tokens=max_tokens, reason=reason):
                await self.compactor.extract_summary(cut, max_tokens, reason, failed, order)
                return _AppliedReduction(True)
            case ShortenEntries(max_chars=max_chars, max_tokens=max_tokens):
                return _AppliedReduction(await self._shorten_largest(max_chars, max_tokens))
            case Collapse(max_tokens=max_tokens):
                return _AppliedReduction(await self._collapse(max_tokens))
            case _:
                assert_never(reduction)

    async def _extend_long_messages(self) -> None:
        """Show more than the beginning of new messages that are too long for the usual limit: head and tail.

        They may take three quarters of the free window.
        """
        entries = [entry for entry in await self.session.entries(self._new_messages()) if _is_cut_when_shown(entry)]
        if not entries:
            return
        known = await load_card_context(self.session, entries)
        view = await self.prompt_builder.render()
        size = self._to_size(view, self.prompt_builder.fixed_tokens)
        free = max_request_tokens(size, self._settings) - size.total
        cuts: list[Cut] = []
        for entry in entries:
            shown = view.tokens_between(entry.seq, entry.seq)
            text = self._shorten_to(entry, 0, shown + free * 3 // 4 // len(entries), known)
            if estimate_tokens(text) > shown:
                cuts.append(Cut(entry.seq, entry.seq, text))
        await self._append_cuts(cuts, f"{len(cuts)} long messages are shown with their end")

    def _new_messages(self) -> list[int]:
        """Return the messages of the running turn that no request has contained."""
        views = self.session.views
        unseen = views.forgetting.unseen_seq or views.tail + 1
        is_first = (views.progress.round, views.progress.attempts) == (1, 0)
        prompts = views.paths.find(f"ar:{views.progress.turn_id}.user.prompt") if is_first else ()
        said = takewhile(lambda seq: seq >= unseen, reversed(views.forgetting.said))
        return [seq for seq in sorted({*prompts, *said}) if views.visible.shown.get(seq, 0) is None]

    async def _shorten_largest(self, chars: int, max_tokens: int) -> bool:
        """Shorten the largest visible entries, user messages last, until the conversation has at most `max_tokens`.

        Each keeps as much as fits, and at least `chars` characters.
        """
        view, views = await self.prompt_builder.render(), self.session.views
        excess_tokens = view.tokens - max_tokens
        large_entries = dict(view.find_heavy(chars // 4 + 60, views.tail, views.forgetting.summed_seq + 1))
        entries = await self.session.entries(await self._single_entries(large_entries))
        known = await load_card_context(self.session, entries)
        cuts: list[Cut] = []
        for are_messages in (False, True):
            group = [entry for entry in entries if _is_user_message(entry) == are_messages]
            share = max_entry_tokens([large_entries[entry.seq] for entry in group], excess_tokens, chars // 4)
            for entry in group:
                text = self._shorten_to(entry, chars, share, known)
                if excess_tokens > 0 and (gain := large_entries[entry.seq] - estimate_tokens(text)) > 0:
                    cuts.append(Cut(entry.seq, entry.seq, text))
                    excess_tokens -= gain
        return await self._append_cuts(cuts, f"the request did not fit: {len(cuts)} entries were shortened")

    async def _single_entries(self, seqs: Iterable[int]) -> list[int]:
        """Return those of the places that show one entry: as it is, or shortened before; pinned ones stay whole."""
        visible = self.session.views.visible
        stubs = {seq: visible.shown[seq] for seq in sorted(seqs) if seq not in visible.pinned}
        acts = await self.session.entries(sorted({stub.by for stub in stubs.values() if stub}))
        shortened = {
            (act.seq, cut.first_seq)
            for act in acts
            if isinstance(act.block, Pruned)
            for cut in act.block.cuts
            if cut.first_seq == cut.last_seq
        }
        return [seq for seq, stub in stubs.items() if stub is None or (stub.by, seq) in shortened]

    def _shorten_to(self, entry: Entry, chars: int, tokens: int, known: CardContext) -> str:
        """Return the entry's head and tail with about `tokens` tokens, and at least `chars` characters."""
        views = self.session.views
        whole = self._renderer.entry_text(entry, views, known.payloads)
        kept = max(chars, tokens * len(whole.text) // max(1, whole.tokens))
        return self._renderer.shorten_entry(entry, kept, views, known.payloads)

    async def _collapse(self, tokens: int) -> bool:
        """Replace all visible entries after the summary with one card.

        The calls with effects and the results that the model has not seen are always named.
        """
        views, turn_id = self.session.views, self.session.views.progress.turn_id
        prompts = await self.session.entries(views.paths.find(f"ar:{turn_id}.user.prompt")[:1])
        known = await load_card_context(self.session, prompts)
        calls = collect_calls(views, turn_id, views.tail, self.compactor.effect_of)
        head = "\n".join(one for one in (self._collapsed_head(turn_id), self._renderer.effects_line(calls)) if one)
        room = max(0, tokens - estimate_tokens(head))
        words = [self._shorten_prompt(one, tokens, room // 2, known) for one in prompts]
        text = "\n".join(one for one in (head, *words, *await self._unseen_rows(room)) if one)
        cut = Cut(views.forgetting.summed_seq + 1, views.tail, text)
        shown = (await self.prompt_builder.render()).tokens_between(cut.first_seq, cut.last_seq)
        if shown <= estimate_tokens(text) + COLLAPSE_OVERHEAD_TOKENS:
            # The card would replace the user's words with something longer.
            return False
        return await self._append_cuts([cut], "the request did not fit: all that was left was pruned")

    def _shorten_prompt(self, entry: Entry, tokens: int, room: int, known: CardContext) -> str:
        shortened = self._renderer.shorten_entry(entry, 2 * tokens, self.session.views, known.payloads)
        return truncate_to_tokens(shortened, room)

    def _collapsed_head(self, turn_id: TurnId) -> str:
        """Return the head of the turn's card; it names the paths of all entries that no summary covers."""
        views = self.session.views
        done = views.forgetting.summed_seq
        first = next(turn.n for turn in views.turns.turns.values() if turn.spans[-1][1] > done)
        outside = [seq for seq in views.forgetting.outside if seq > done][-MAX_OUTSIDE:]
        return self._renderer.collapsed_head(views.turns.turns[turn_id].n, first, outside)

    @property
    def _renderer(self) -> Renderer:
        return renderer_for(self.session.views.turns.edition)

    async def _unseen_rows(self, tokens: int) -> list[str]:
        """Return rows of the results that the model has not seen; if they do not fit, a line for each call."""
        views, unseen = self.session.views, self.session.views.forgetting.unseen_seq
        if not unseen:
            return []
        entries = await self.session.entries(range(unseen, views.tail + 1))
        rows = self._renderer.card_rows(entries, views, await load_card_context(self.session, entries))
        if sum(map(estimate_tokens, rows)) <= tokens:
            return rows
        calls = collect_calls(views, views.progress.turn_id, views.tail, self.compactor.effect_of, unseen)
        return self._renderer.call_lines(calls, 0 if len(calls) > MAX_UNSEEN_LINES else sys.maxsize, views)

    async def _append_cuts(self, cuts: list[Cut], reason: str) -> bool:
        if not cuts:
            return False
        cuts.sort(key=lambda cut: cut.first_seq)
        await self.session.append([Pruned(cuts=tuple(cuts), reason=reason)], self.session.views.progress.turn_id)
        return True

    async def _current_size(self, step: AskModel) -> RequestSize:
        """Return the size of the request: an estimate, unless the decision needs the exact size."""
        estimated = self._to_size(await self.prompt_builder.render(), self.prompt_builder.fixed_tokens)
        return (
            await self._measure(step)
            if needs_exact_size(estimated, self._settings, smaller=step.smaller)
            else estimated
        )

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


def _scale(tokens: int, part: int, whole: int) -> int:
    """Return the tokens of the part, in the count of the whole.

    The call that writes a summary also reports tokens; with its new calibration, sizes before and after it differ.
    """
    return tokens * part // max(1, whole)


def _cut_point(view: PromptView, seq: int, views: Views) -> CutPoint:
    pinned = sum(view.tokens_between(one, one) for one in views.visible.pinned if one <= seq)
    return CutPoint(seq, view.tokens_between(1, seq) - pinned) if seq else CutPoint()


def _is_cut_when_shown(entry: Entry) -> bool:
    """Whether a prompt shows only the beginning of the message; by its bytes if it is stored apart."""
    match entry.block:
        case UserPrompt(text=text) | Followup(text=text) | Steer(text=text):
            return (len(text) if isinstance(text, str) else text.size_bytes) > MAX_WORDS_CHARS
        case _:
            return False


def _is_user_message(entry: Entry) -> bool:
    return isinstance(entry.block, UserPrompt | Followup | Steer | ExternalEvent)
