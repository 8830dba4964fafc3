"""Settings of the context: when old parts of a conversation are pruned or summarized."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from timeloom.config.field_help import SettingHelp
from timeloom.core.policy.compaction import CompactSettings
from timeloom.core.policy.pruning import PruneSettings
from timeloom.core.render.editions import THIRD_EDITION
from timeloom.core.render.facts import CardLimits

Count = Annotated[int, Meta(ge=1, le=10_000_000)]
OptionalCount = Annotated[int, Meta(ge=0, le=10_000_000)]
Share = Annotated[float, Meta(gt=0, le=0.95)]
Factor = Annotated[float, Meta(gt=0, le=1000)]

_PRUNE: Final = PruneSettings()
_CARDS: Final = CardLimits()
_COMPACT: Final = CompactSettings()


class ContextSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The edition of the prompt, its pruning and its compaction."""

    edition: Annotated[
        Literal[1, 2, 3],
        SettingHelp(
            "Edition of all that models read and write, for new turns: 2 has shorter prompts, aliases and raw "
            "channels, 3 also shorter messages and calls."
        ),
    ] = THIRD_EDITION
    keep_turns: Annotated[
        OptionalCount, SettingHelp("Number of turns before the current one that are never shortened to cards.")
    ] = _PRUNE.keep_turns
    keep_rounds: Annotated[OptionalCount, SettingHelp("Number of newest rounds that are never shortened to rows.")] = (
        _PRUNE.keep_rounds
    )
    min_saving_tokens: Annotated[
        Count, SettingHelp("Minimum number of tokens that pruning old turns and rounds must save.")
    ] = _PRUNE.min_saving_tokens
    patience: Annotated[
        Factor,
        SettingHelp("Prune from a warm cache once keeping old turns has cost this many times the rewrite."),
    ] = _PRUNE.patience
    compact_at: Annotated[
        Share, SettingHelp("Share of the window from which older parts of a conversation are summarized.")
    ] = _COMPACT.compact_at
    keep_share: Annotated[
        Share, SettingHelp("Share of the window that stays unchanged when the rest is summarized.")
    ] = _COMPACT.keep_share
    summary_tokens: Annotated[
        Count, SettingHelp("Maximum tokens of a summary; never more than a tenth of the window.")
    ] = _COMPACT.summary_tokens
    prose_tokens: Annotated[Count, SettingHelp("Maximum tokens of the part of a summary that a model writes.")] = (
        _COMPACT.prose_tokens
    )
    text_chars: Annotated[Count, SettingHelp("Maximum characters of a message in an old turn.")] = _CARDS.text_chars
    result_chars: Annotated[Count, SettingHelp("Maximum characters of a tool result in an old turn.")] = (
        _CARDS.result_chars
    )
    result_items: Annotated[
        Count, SettingHelp("Number of list items that the shape of an old result is derived from.")
    ] = _CARDS.result_items
    result_keys: Annotated[Count, SettingHelp("Number of object keys that the shape of an old result names.")] = (
        _CARDS.result_keys
    )
    rows: Annotated[Count, SettingHelp("Maximum rows of an old turn.")] = _CARDS.rows

    def to_prune_settings(self) -> PruneSettings:
        """Return the pruning settings."""
        return PruneSettings(
            keep_turns=self.keep_turns,
            keep_rounds=self.keep_rounds,
            min_saving_tokens=self.min_saving_tokens,
            patience=self.patience,
        )

    def to_card_limits(self) -> CardLimits:
        """Return the limits of the cards of old turns."""
        return CardLimits(
            text_chars=self.text_chars,
            result_chars=self.result_chars,
            result_items=self.result_items,
            result_keys=self.result_keys,
            rows=self.rows,
        )

    def to_compact_settings(self) -> CompactSettings:
        """Return the compaction settings."""
        return CompactSettings(
            compact_at=self.compact_at,
            keep_share=self.keep_share,
            summary_tokens=self.summary_tokens,
            prose_tokens=self.prose_tokens,
        )
