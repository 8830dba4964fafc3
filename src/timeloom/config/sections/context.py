"""Settings of context: what of a conversation stays in a model's sight, and when older parts go out of it."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from timeloom.config.field_help import About
from timeloom.core.policy.compaction import CompactSettings
from timeloom.core.policy.pruning import PruneSettings
from timeloom.core.render.entries.cards import CardLimits

Count = Annotated[int, Meta(ge=1, le=10_000_000)]
OptionalCount = Annotated[int, Meta(ge=0, le=10_000_000)]
Share = Annotated[float, Meta(gt=0, le=0.95)]
Factor = Annotated[float, Meta(gt=0, le=1000)]

_PRUNE: Final = PruneSettings()
_CARDS: Final = CardLimits()
_COMPACT: Final = CompactSettings()


class ContextSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What stays in sight."""

    keep_turns: Annotated[OptionalCount, About("Turns before the current one that are never shown as cards.")] = (
        _PRUNE.keep_turns
    )
    keep_rounds: Annotated[OptionalCount, About("Newest rounds that are never shown as rows.")] = _PRUNE.keep_rounds
    min_saving_tokens: Annotated[Count, About("Fewest tokens for which old turns and rounds are pruned.")] = (
        _PRUNE.min_saving_tokens
    )
    patience: Annotated[
        Factor,
        About("How many times the rewrite keeping old turns must have cost before they are pruned from a warm cache."),
    ] = _PRUNE.patience
    compact_at: Annotated[
        Share, About("Share of the window from which on older parts of a conversation are summed up.")
    ] = _COMPACT.compact_at
    keep_share: Annotated[Share, About("Share of the window that stays as it is when the rest is summed up.")] = (
        _COMPACT.keep_share
    )
    summary_tokens: Annotated[
        Count, About("Most tokens of a summary; it never has more than a tenth of the window.")
    ] = _COMPACT.summary_tokens
    prose_tokens: Annotated[Count, About("Most tokens of a summary that a model writes.")] = _COMPACT.prose_tokens
    text_chars: Annotated[Count, About("Most characters of a message in an old turn.")] = _CARDS.text_chars
    result_chars: Annotated[Count, About("Most characters of a tool's result in an old turn.")] = _CARDS.result_chars
    result_items: Annotated[Count, About("Items of a list that the shape of an old result is told from.")] = (
        _CARDS.result_items
    )
    result_keys: Annotated[Count, About("Keys of an object that the shape of an old result names.")] = (
        _CARDS.result_keys
    )
    rows: Annotated[Count, About("Most rows of an old turn.")] = _CARDS.rows

    def prune(self) -> PruneSettings:
        """What stays whole, and what a prune must save."""
        return PruneSettings(
            keep_turns=self.keep_turns,
            keep_rounds=self.keep_rounds,
            min_saving_tokens=self.min_saving_tokens,
            patience=self.patience,
        )

    def cards(self) -> CardLimits:
        """How much a card shows."""
        return CardLimits(
            text_chars=self.text_chars,
            result_chars=self.result_chars,
            result_items=self.result_items,
            result_keys=self.result_keys,
            rows=self.rows,
        )

    def compact(self) -> CompactSettings:
        """When the conversation is summed up, and how."""
        return CompactSettings(
            compact_at=self.compact_at,
            keep_share=self.keep_share,
            summary_tokens=self.summary_tokens,
            prose_tokens=self.prose_tokens,
        )
