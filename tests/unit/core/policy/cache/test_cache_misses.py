"""Cache misses: each reason for which a request reads less than it could has a name."""

import pytest
from msgspec.structs import replace

from tests.harness.cache import make_cache_point, timestamp_after
from timeloom.core.blocks import Cut, Hidden, Pruned, RangeSummary, Usage, UserPrompt, WorkingSummary
from timeloom.core.blocks.caching import CacheForecast, CachePoint
from timeloom.core.ids import TurnId
from timeloom.core.policy.cache.misses import (
    REASON_TEXTS,
    MissReason,
    PromptChange,
    RequestDetails,
    RequestPair,
    explain_deviation,
    explain_smaller_read,
    find_forgotten_change,
)
from timeloom.core.render.catalogue import CatalogueTool
from timeloom.core.render.system import ORDER, build_system_text
from timeloom.core.timeline import Draft, to_entry
from timeloom.core.view.context.visible import VisibleView


def texts(own: str = "", *tools: str) -> str:
    words = {name: f"words of {name}" for name in (*ORDER, "one_action")}
    return build_system_text(words, [CatalogueTool(tool_id=one, purpose="does it") for one in tools], bundle_text=own)


SYSTEM = texts("Be kind.", "a.tool")
LAST = make_cache_point(5, 9_000)


def sent(*points: CachePoint, hit: CachePoint | None = None, text: str = SYSTEM, rendering: int = 2) -> RequestDetails:
    return RequestDetails(
        CacheForecast(at=timestamp_after(0), system="s", points=points, hit=hit), "m", text, rendering
    )


BEFORE = sent(make_cache_point(0, 4_000), LAST)
NOW = sent(make_cache_point(0, 4_000), make_cache_point(6, 9_500), hit=make_cache_point(0, 4_000))


def why(case: RequestPair) -> MissReason | None:
    change = explain_smaller_read(case)
    return change.reason if change else None


def test_the_first_request_and_one_that_reads_all_need_no_reason() -> None:
    assert why(RequestPair(now=NOW)) is None
    assert why(RequestPair(now=sent(make_cache_point(6, 9_500), hit=LAST), before=BEFORE)) is None


def test_another_model_or_another_rendering_has_another_cache() -> None:
    assert why(RequestPair(now=replace(NOW, model="other"), before=BEFORE)) == "model"
    assert why(RequestPair(now=replace(NOW, rendering=3), before=BEFORE)) == "rendering"


def test_a_change_of_the_catalogue_is_told_from_one_of_the_text() -> None:
    assert (
        why(RequestPair(now=replace(NOW, system=texts("Be kind.", "a.tool", "b.tool")), before=BEFORE)) == "catalogue"
    )
    assert why(RequestPair(now=replace(NOW, system=texts("Be brief.", "a.tool")), before=BEFORE)) == "system"


def test_the_first_of_what_was_forgotten_is_named() -> None:
    changes = [PromptChange("hide", 9), PromptChange("prune", 4), PromptChange("hide", 5)]
    assert explain_smaller_read(RequestPair(now=NOW, before=BEFORE, changes=changes)) == PromptChange("prune", 4)


def test_what_was_forgotten_behind_the_last_point_is_no_reason() -> None:
    assert why(RequestPair(now=NOW, before=BEFORE, changes=[PromptChange("hide", 6)], alive=False)) == "expired"


def test_what_stands_and_lives_was_edited_or_too_far_back() -> None:
    edited = PromptChange("edit", 3)
    assert explain_smaller_read(RequestPair(now=NOW, before=BEFORE, edited=edited)) == edited
    assert why(RequestPair(now=NOW, before=BEFORE)) == "look_back"


def test_a_prefix_that_was_too_small_was_never_kept() -> None:
    small = sent(replace(LAST, small=True))
    assert why(RequestPair(now=NOW, before=small)) == "too_small"
    assert why(RequestPair(now=sent(), before=small)) is None


EXPECTED = CacheForecast(
    at=timestamp_after(0), system="s", points=(LAST,), read_tokens=9_000, written_5m_tokens=500, uncached_tokens=500
)


@pytest.mark.parametrize(
    ("usage", "reason"),
    [
        (Usage(input_tokens=490, cache_read_tokens=9_010, cache_write_tokens=500), None),
        (Usage(input_tokens=10_000), "not_reported"),
        (Usage(input_tokens=500, cache_write_tokens=9_500), "evicted"),
        (Usage(input_tokens=500, cache_read_tokens=9_500), "more_kept"),
        (Usage(input_tokens=600, cache_read_tokens=10_800, cache_write_tokens=600), "estimate"),
        (Usage(input_tokens=900, cache_read_tokens=9_000, cache_write_tokens=500), "estimate"),
    ],
)
def test_a_report_is_held_against_what_was_expected(usage: Usage, reason: MissReason | None) -> None:
    change = explain_deviation(EXPECTED, usage)
    assert (change.reason if change else None) == reason
    assert change is None or change.text == REASON_TEXTS[change.reason]


def test_who_has_no_cache_and_is_expected_to_have_none_reports_rightly() -> None:
    assert (
        explain_deviation(
            CacheForecast(at=timestamp_after(0), system="s", uncached_tokens=500), Usage(input_tokens=510)
        )
        is None
    )


ONE, TWO = TurnId("turn_1"), TurnId("turn_2")


def visible() -> VisibleView:
    view = VisibleView()
    summary = RangeSummary(covered_turn_ids=(), text="sum", first_seq=1, last_seq=2)
    blocks = [
        (ONE, UserPrompt(text="a")),
        (ONE, UserPrompt(text="b")),
        (ONE, WorkingSummary(text="w")),
        (TWO, UserPrompt(text="c")),
        (TWO, summary),
    ]
    for seq, (turn, block) in enumerate(blocks, 1):
        view.add(to_entry(Draft(turn, timestamp_after(0), block), seq))
    return view


@pytest.mark.parametrize(
    ("block", "change"),
    [
        (Hidden(target="ar:turn_2.user.prompt", replacement="x"), PromptChange("hide", 4)),
        (Hidden(target="ws:turn_1.conv.working.summary", replacement="x"), PromptChange("hide", 3)),
        (Hidden(target="su:turn_2.conv.range.summary", replacement="x"), PromptChange("hide", 1)),
        (Hidden(target="ar:turn_9.user.prompt", replacement="x"), None),
        (Pruned(cuts=(Cut(2, 3), Cut(4, 4))), PromptChange("prune", 3)),
        (Pruned(cuts=(Cut(2, 2),)), None),
        (RangeSummary(covered_turn_ids=(), text="x", first_seq=2, last_seq=9), PromptChange("compaction", 3)),
        (RangeSummary(covered_turn_ids=(), text="x", first_seq=8, last_seq=9), None),
        (RangeSummary(covered_turn_ids=(TWO, ONE), text="x"), PromptChange("compaction", 1)),
    ],
)
def test_the_first_entry_that_goes_out_of_sight_is_known_before_it_does(
    block: Hidden | Pruned | RangeSummary, change: PromptChange | None
) -> None:
    assert find_forgotten_change(block, visible()) == change
