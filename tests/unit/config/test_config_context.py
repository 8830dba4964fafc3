"""Settings of the context window are applied to conversations."""

from tests.harness.config import resolve_settings
from timeloom.app import AgentSettings
from timeloom.core.policy.compaction import CompactSettings
from timeloom.core.policy.pruning import PruneSettings
from timeloom.core.render.facts import CardLimits


def test_without_a_word_the_defaults_count() -> None:
    setting = AgentSettings.from_settings(resolve_settings())
    assert (setting.prune, setting.cards, setting.compact) == (PruneSettings(), CardLimits(), CompactSettings())


def test_every_setting_of_context_reaches_the_conversation() -> None:
    toml = """[context]
keep_turns = 1
keep_rounds = 2
min_saving_tokens = 3
patience = 4.5
compact_at = 0.5
keep_share = 0.25
summary_tokens = 600
prose_tokens = 200
text_chars = 7
result_chars = 8
result_items = 9
result_keys = 10
rows = 11
"""
    setting = AgentSettings.from_settings(resolve_settings(toml))
    assert setting.prune == PruneSettings(keep_turns=1, keep_rounds=2, min_saving_tokens=3, patience=4.5)
    assert setting.cards == CardLimits(text_chars=7, result_chars=8, result_items=9, result_keys=10, rows=11)
    assert setting.compact == CompactSettings(compact_at=0.5, keep_share=0.25, summary_tokens=600, prose_tokens=200)
