"""Reductions: their order, the conditions under which one is left out, and the budget of each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from timeloom.core.policy.compaction import CompactSettings, RequestSize
from timeloom.core.policy.reduction import (
    LEFT_TOO_MUCH,
    SHORTENED_CHARS,
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

SIZE = RequestSize(cacheable=90_000, fixed=5_000, reply=5_000, window=100_000)
BEST, LAST = CutPoint(40, 60_000), CutPoint(70, 80_000)
TOO_LARGE = ReductionFacts(
    before=SIZE, total_tokens=SIZE.total, limit=85_000, settings=CompactSettings(), best_cut=BEST, last_cut=LAST
)

WRITTEN = WriteSummary(cut=40, max_tokens=6_000)
EXTRACTED = ExtractSummary(cut=40, max_tokens=6_000, reason="its model failed")
EXTRACTED_LAST = ExtractSummary(cut=70, max_tokens=6_000, reason=LEFT_TOO_MUCH, at_last_cut=True)
SHORTENED = [ShortenEntries(max_chars=chars, max_tokens=75_000) for chars in SHORTENED_CHARS]
COLLAPSED = Collapse(max_tokens=18_750)
REDUCTIONS: list[Reduction] = [Prune(), WRITTEN, EXTRACTED, EXTRACTED_LAST, *SHORTENED, COLLAPSED]


def after(last: Reduction, failure: str | None = None) -> ReductionFacts:
    return replace(TOO_LARGE, last=last, summary_failure=failure)


def test_a_requested_compaction_writes_one_summary() -> None:
    fits = replace(TOO_LARGE, total_tokens=1)
    assert next_requested_reduction(fits) == WRITTEN
    assert next_requested_reduction(replace(fits, last=WRITTEN)) is None
    failed = replace(fits, last=WRITTEN, summary_failure="its model failed")
    assert next_requested_reduction(failed) == EXTRACTED
    assert next_requested_reduction(replace(fits, last=EXTRACTED)) is None
    assert next_requested_reduction(replace(fits, best_cut=CutPoint(40, 200))) is None


def test_a_requested_compaction_that_does_nothing_has_a_reason() -> None:
    assert "has only 7 tokens" in explain_nothing_to_compact(2, CutPoint(9, 7), summarized_before=True)
    assert "already covers" in explain_nothing_to_compact(2, CutPoint(), summarized_before=True)
    assert explain_nothing_to_compact(1, CutPoint(), summarized_before=False).endswith("before the newest round")


def test_a_request_that_fits_is_pruned_once() -> None:
    fits = replace(TOO_LARGE, total_tokens=TOO_LARGE.limit)
    assert next_reduction(fits) == Prune()
    assert next_reduction(replace(fits, last=Prune())) is None


@pytest.mark.parametrize("last", REDUCTIONS)
def test_a_request_that_has_come_to_fit_is_reduced_no_further(last: Reduction) -> None:
    assert next_reduction(replace(after(last), total_tokens=TOO_LARGE.limit)) is None


def test_a_request_whose_fixed_parts_exceed_the_window_is_not_reduced() -> None:
    fixed = replace(SIZE, fixed=95_001)
    assert next_reduction(replace(TOO_LARGE, before=fixed, total_tokens=fixed.total)) is None
    assert next_reduction(replace(TOO_LARGE, before=replace(SIZE, fixed=95_000))) is not None


@pytest.mark.parametrize("last", [None, Prune()])
def test_a_request_that_is_too_large_is_summarized_up_to_the_best_cut(last: Reduction | None) -> None:
    assert next_reduction(replace(TOO_LARGE, last=last)) == WRITTEN


@pytest.mark.parametrize("failure", ["its model failed", ""])
def test_a_rule_makes_the_summary_that_no_model_wrote(failure: str) -> None:
    assert next_reduction(after(WRITTEN, failure)) == ExtractSummary(cut=40, max_tokens=6_000, reason=failure)


@pytest.mark.parametrize("last", [WRITTEN, EXTRACTED])
def test_a_summary_that_left_too_much_is_followed_by_one_up_to_the_last_cut(last: Reduction) -> None:
    assert next_reduction(after(last)) == EXTRACTED_LAST


def test_entries_are_shortened_step_by_step_after_the_second_summary() -> None:
    assert next_reduction(after(EXTRACTED_LAST)) == SHORTENED[0]
    assert [next_reduction(after(one)) for one in SHORTENED] == [*SHORTENED[1:], COLLAPSED]


def test_nothing_is_left_after_the_card_for_everything() -> None:
    assert next_reduction(after(COLLAPSED)) is None


def test_a_summary_takes_at_most_two_thirds_of_the_tokens_it_covers() -> None:
    assert next_reduction(replace(TOO_LARGE, best_cut=CutPoint(9, 300))) == WriteSummary(cut=9, max_tokens=200)
    small = replace(after(WRITTEN), last_cut=CutPoint(9, 300))
    assert next_reduction(small) == ExtractSummary(cut=9, max_tokens=200, reason=LEFT_TOO_MUCH, at_last_cut=True)


def test_a_summary_that_would_be_too_short_to_be_useful_is_left_out() -> None:
    short = CutPoint(9, 224)
    assert next_reduction(replace(TOO_LARGE, best_cut=short)) == EXTRACTED_LAST
    assert next_reduction(replace(TOO_LARGE, best_cut=short, last_cut=short)) == SHORTENED[0]
    assert next_reduction(replace(after(WRITTEN), last_cut=short)) == SHORTENED[0]


def test_without_a_legal_cut_entries_are_shortened() -> None:
    assert next_reduction(replace(TOO_LARGE, best_cut=CutPoint(), last_cut=CutPoint())) == SHORTENED[0]


def test_budgets_derive_from_the_size_before_the_first_reduction() -> None:
    reduced = replace(after(EXTRACTED_LAST), total_tokens=85_001)
    assert next_reduction(reduced) == SHORTENED[0]


def test_the_card_for_everything_has_no_negative_budget() -> None:
    tight = replace(after(SHORTENED[-1]), limit=9_000)
    assert next_reduction(tight) == Collapse(max_tokens=0)


@given(
    total=st.integers(1, 200_000),
    covered=st.integers(0, 100_000),
    failures=st.lists(st.none() | st.just("refused"), min_size=20, max_size=20),
)
def test_reductions_end_whatever_they_achieve(total: int, covered: int, failures: list[str | None]) -> None:
    facts = replace(TOO_LARGE, total_tokens=total, best_cut=CutPoint(40, covered), last_cut=CutPoint(70, covered))
    seen: list[Reduction] = []
    while (reduction := next_reduction(facts)) is not None:
        assert reduction not in seen
        seen.append(reduction)
        facts = replace(facts, last=reduction, summary_failure=failures[len(seen)])
    assert len(seen) <= len(SHORTENED) + 4
