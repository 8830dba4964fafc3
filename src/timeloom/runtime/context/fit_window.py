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
    Size,
    best_cut,
    kept_tokens,
    last_cut,
    most_tokens,
    summary_tokens,
)
from timeloom.core.policy.next_step import AskModel
from timeloom.core.render.entries.cards import shortened
from timeloom.core.render.prompt import PromptView
from timeloom.core.render.summary import MAX_OUTSIDE, indexes_of, within
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate
from timeloom.core.view.views import Views
from timeloom.ports.model import Model
from timeloom.runtime.context.compact import Compactor
from timeloom.runtime.context.prune import Pruner
from timeloom.runtime.context.read_range import known_of
from timeloom.runtime.prompt.builder import ConversationPrompter
from timeloom.runtime.session.session import Session

NEAR_TOKENS: Final = 1_000
"""Distance to the limit at which the exact size is computed; the tail may have grown this much since the last one."""

SQUEEZED_CHARS: Final = (4_000, 1_000, 240, 0)
"""Characters kept of each shortened entry, step by step until the request fits."""

LEAST_SUMMARY_TOKENS: Final = 150
"""Minimum tokens of a useful summary: it must name the turns it covers."""


class Compaction(msgspec.Struct, frozen=True):
    """The start or result of a compaction, as reported to clients; tokens are in the model's own count."""

    status: Literal["started", "completed", "skipped"]
    before_tokens: int
    after_tokens: int = 0


Listener = Callable[[Compaction], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Keeps the prompts of one conversation inside the context window."""

    session: Session
    model: Model
    prompter: ConversationPrompter
    pruner: Pruner
    compactor: Compactor
    reply_tokens: int
    _listeners: list[Listener] = field(default_factory=list[Listener])

    def listen(self, listener: Listener) -> None:
        """Call the listener when a compaction starts and when it is finished."""
        self._listeners.append(listener)

    async def make(self, step: AskModel, interrupt: asyncio.Event) -> str:
        """Reduce the conversation until the request of this step fits; return why it cannot fit, else ""."""
        view = await self.prompter.sight()
        guess = self._size(view, self.prompter.standing_tokens + NEAR_TOKENS)
        if step.smaller or guess.total > most_tokens(guess, self._settings):
            size = await self._exact(step)
            most = most_tokens(size, self._settings, smaller=step.smaller)
            if size.total > most:
                return await self._compact(step, size, most, interrupt)
        await self.pruner.prune(view, self.prompter.rates)
        return ""

    @property
    def _settings(self) -> CompactSettings:
        return self.compactor.settings

    async def _compact(self, step: AskModel, size: Size, most: int, interrupt: asyncio.Event) -> str:
        before = self._reported(size.total)
        self._tell(Compaction("started", before))
        if size.fixed + size.reply > size.window:
            # The fixed parts alone are too large, so reducing the conversation would not help.
            self._tell(Compaction("skipped", before, before))
            return self._why_not(size)
        first = size
        async for _ in self._stages(size, most, interrupt):
            size = await self._exact(step)
            if size.total <= most:
                break
        after = self._reported(size.total)
        self._tell(Compaction("completed" if size.total < first.total else "skipped", before, after))
        if size.total <= size.window:
            return ""
        return self._why_not(size)

    def _tell(self, event: Compaction) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    def _why_not(self, size: Size) -> str:
        sizes = (size.window, size.fixed, size.cacheable, size.reply)
        window, fixed, rest, reply = (self._reported(one) for one in sizes)
        return (
            f"the request does not fit the model's window of {window} tokens: the system text and the tail have "
            f"{fixed}, what is left of the conversation {rest}, and the reply may have {reply}"
        )

    async def _stages(self, size: Size, most: int, interrupt: asyncio.Event) -> AsyncIterator[None]:
        """Reduce the request in stages, yielding after each; the caller stops when the request fits."""
        session = self.session
        view = await self.prompter.sight()
        cut = best_cut(session.views, kept_tokens(size, most, self._settings), view.tokens_from)
        if await self._sum_up(cut, size, most, interrupt):
            yield
        if await self._sum_up(last_cut(session.views), size, most, interrupt, by_hand="the first one left too much"):
            yield
        for chars in SQUEEZED_CHARS:
            room = most - size.fixed - size.reply
            if await self._squeeze(chars, room):
                yield
        if await self._wipe(max(0, most - size.fixed - size.reply) // 4):
            yield

    async def _sum_up(self, cut: int, size: Size, most: int, interrupt: asyncio.Event, *, by_hand: str = "") -> bool:
        view = await self.prompter.sight()
        covered = view.tokens_between(1, cut) if cut else 0
        tokens = min(summary_tokens(size, most, self._settings), covered * 2 // 3)
        if tokens < LEAST_SUMMARY_TOKENS:
            return False
        await self.compactor.compact(cut, tokens, interrupt, by_hand=by_hand)
        return True

    async def _squeeze(self, chars: int, room: int) -> bool:
        """Shorten the largest visible entries, user messages last, until the conversation has at most `max_tokens`."""
        view, views = await self.prompter.sight(), self.session.views
        need = view.tokens - room
        heavy = dict(view.heavy(chars // 4 + 60, views.tail, views.forgetting.summed_seq + 1))
        entries = await self.session.entries(sorted(seq for seq in heavy if views.visible.shown.get(seq, 0) is None))
        known = await known_of(self.session, entries)
        cuts: list[Cut] = []
        for entry in sorted(entries, key=lambda one: (_is_users(one), -heavy[one.seq])):
            text = shortened(entry, chars, known.payloads)
            if (gain := heavy[entry.seq] - estimate(text)) > 0 and need > 0:
                cuts.append(Cut(entry.seq, entry.seq, text))
                need -= gain
        return await self._forget(cuts, f"the request did not fit: {len(cuts)} entries were shortened")

    async def _wipe(self, tokens: int) -> bool:
        """Replace all visible entries after the summary with one card."""
        views = self.session.views
        turn = views.turns.turns[views.progress.turn_id]
        prompts = await self.session.entries(views.paths.find(f"ar:{views.progress.turn_id}.user.prompt")[:1])
        known = await known_of(self.session, prompts)
        head = _wiped(views, turn.n)
        words = [shortened(entry, 4 * tokens, known.payloads) for entry in prompts]
        text = "\n".join([head, *(within(one, max(0, tokens - estimate(head))) for one in words)])
        cut = Cut(views.forgetting.summed_seq + 1, views.tail, text)
        return await self._forget([cut], "the request did not fit: all that was left was pruned")

    async def _forget(self, cuts: list[Cut], reason: str) -> bool:
        if not cuts:
            return False
        cuts.sort(key=lambda cut: cut.first_seq)
        await self.session.append([Pruned(cuts=tuple(cuts), reason=reason)], self.session.views.progress.turn_id)
        return True

    async def _exact(self, step: AskModel) -> Size:
        prompt = await self.prompter.prompt(self.session, step)
        view = await self.prompter.sight()
        return self._size(view, prompt.estimated_tokens - view.tokens)

    def _size(self, view: PromptView, fixed: int) -> Size:
        return Size(
            cacheable=view.tokens,
            fixed=fixed,
            reply=self._estimated(self.reply_tokens),
            window=self._estimated(self.model.window_tokens),
        )

    def _reported(self, estimated: int) -> int:
        return self.session.views.reported.tokens(self.model.name, estimated)

    def _estimated(self, tokens: int) -> int:
        """Return the model's tokens converted to estimated tokens."""
        million = self._reported(1_000_000)
        return tokens * 1_000_000 // million if million else tokens


def _is_users(entry: Entry) -> bool:
    return isinstance(entry.block, UserPrompt | Followup | Steer | ExternalEvent)


def _wiped(views: Views, n: int) -> str:
    """Return the head of the turn's card; it names the paths of all entries that no summary covers."""
    done = views.forgetting.summed_seq
    first = next(turn.n for turn in views.turns.turns.values() if turn.spans[-1][1] > done)
    outside = [seq for seq in views.forgetting.outside if seq > done][-MAX_OUTSIDE:]
    lines = [f'[PRUNED TURN {n}] all of it: react.read(["{TurnIndexesPath.of([n])}"])']
    if first < n:
        lines.append(f"What came before, an index for each turn: {indexes_of(first, n - 1)}")
    if outside:
        lines.append(f"Of no turn: {EntriesPath.of(outside)}")
    return "\n".join(lines)
