"""Cache arithmetic: forecasts are those of a slow model of a provider that keeps whole prefixes and looks at each."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.cache import RULES, SECONDS, make_cache_point, make_kept_prefix, prefix_hash, timestamp_after
from timeloom.core.blocks.caching import CacheForecast, CachePoint, CacheRates, Lifetime
from timeloom.core.policy.cache.costs import (
    CacheRules,
    RequestForecast,
    RequestShape,
    TokenScale,
    cache_rules_for,
    can_reach,
    expected_calibration,
    fill_forecast,
    find_cache_state,
    forecast_request,
    token_scale_for,
    with_lifetimes,
)
from timeloom.core.tokens import Calibration
from timeloom.core.view.context.provider_caches import (
    MAX_PREFIXES,
    CachedPrefix,
    ContentRatio,
    MeasuredPrefix,
    ModelCache,
)


class Sent(msgspec.Struct, frozen=True):
    """A request in the property: blocks by their words, points by how many blocks they stand after, and a pause."""

    blocks: tuple[str, ...]
    points: tuple[tuple[int, Lifetime], ...]
    pause_s: int


class Naive:
    """A provider that keeps every marked prefix as it was sent, and walks back block by block from each point."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, ...], tuple[Lifetime, int]] = {}

    def ask(self, sent: Sent, now_s: int) -> tuple[int, int, int, int]:
        hit: tuple[str, ...] | None = None
        points = [one for one in sent.points if tokens(sent.blocks[: one[0]]) >= RULES.min_tokens]
        for count, _ in points:
            for back in range(RULES.look_back_blocks):
                if count - back < 0:
                    break
                prefix = sent.blocks[: count - back]
                if self._has(prefix, now_s) and len(prefix) >= len(hit or ()):
                    hit = prefix
        read = tokens(hit) if hit is not None else 0
        ends = [read, *(tokens(sent.blocks[:count]) for count, _ in points)]
        longs = [read, *(tokens(sent.blocks[:count]) for count, lifetime in points if lifetime == "1h")]
        # As in `kept_after`: what extends a prefix of five minutes is not trusted to last longer than that.
        longest: Lifetime = self.kept[hit][0] if hit is not None else "1h"
        if hit is not None:
            self._use(hit, "5m", now_s)
        for count, lifetime in points:
            self._use(sent.blocks[:count], min(lifetime, longest, key=SECONDS.__getitem__), now_s)
        return read, max(ends) - max(longs), max(longs) - read, tokens(sent.blocks) - max(ends)

    def _use(self, prefix: tuple[str, ...], lifetime: Lifetime, now_s: int) -> None:
        self.kept[prefix] = (self.kept[prefix][0] if self._has(prefix, now_s) else lifetime, now_s)

    def _has(self, prefix: tuple[str, ...], now_s: int) -> bool:
        if prefix not in self.kept:
            return False
        lifetime, used_s = self.kept[prefix]
        return now_s - used_s < SECONDS[lifetime]


def tokens(blocks: tuple[str, ...]) -> int:
    """The system text has five tokens, and each block as many as its word has letters."""
    return 5 + sum(map(len, blocks))


@st.composite
def conversations(draw: st.DrawFn) -> list[Sent]:
    """Prompts that grow, with parts forgotten now and then, points anywhere and pauses of any length."""
    blocks: tuple[str, ...] = ()
    sent: list[Sent] = []
    # With more points than these the view would forget some that the slow model remembers.
    for n in range(draw(st.integers(1, MAX_PREFIXES // 4))):
        if blocks and draw(st.integers(0, 4)) == 0:
            cut = draw(st.integers(0, len(blocks) - 1))
            blocks = (*blocks[:cut], f"stub{n}")
        blocks += tuple(f"{n}{'x' * draw(st.integers(0, 8))}" for _ in range(draw(st.integers(1, 30))))
        places = sorted(draw(st.sets(st.integers(0, len(blocks)), min_size=1, max_size=4)))
        long = draw(st.integers(0, len(places)))
        lifetimes: list[Lifetime] = ["1h" if at < long else "5m" for at in range(len(places))]
        points = tuple(zip(places, lifetimes, strict=True))
        sent.append(Sent(blocks, points, draw(st.sampled_from([1, 100, 299, 300, 301, 2000, 3599, 3600, 9000]))))
    return sent


@given(conversations())
def test_forecasts_are_those_of_a_provider_that_looks_at_every_prefix(requests: list[Sent]) -> None:
    naive, left, now_s = Naive(), tuple[CachedPrefix, ...](), 0
    for sent in requests:
        now_s += sent.pause_s
        points = tuple(
            CachePoint(count, count, tokens(sent.blocks[:count]), _hash(sent, count), lifetime)
            for count, lifetime in sent.points
        )
        shape = RequestShape(system="s", points=points, total_tokens=tokens(sent.blocks))
        cached = find_cache_state(left, "s", lambda count, sent=sent: _hash(sent, count), RULES, timestamp_after(now_s))
        made = forecast_request(shape, cached)
        left = made.after
        assert (made.read, made.written_5m, made.written_1h, made.uncached) == naive.ask(sent, now_s)


def _hash(sent: Sent, count: int) -> str:
    return "\n".join(sent.blocks[:count]) if count else ""


def asked(
    points: tuple[CachePoint, ...], total: int, *before: CachedPrefix, rules: CacheRules = RULES
) -> RequestForecast:
    cached = find_cache_state(before, "s", prefix_hash, rules, timestamp_after(10))
    return forecast_request(RequestShape(system="s", points=points, total_tokens=total), cached)


def test_what_is_dearer_to_write_is_counted_apart() -> None:
    made = asked(
        (make_cache_point(0, 20, "1h"), make_cache_point(3, 50, "1h"), make_cache_point(4, 70)),
        90,
        make_kept_prefix(0, 20),
    )
    assert (made.read, made.written_1h, made.written_5m, made.uncached) == (20, 30, 20, 20)
    assert made.cost(CacheRates()) == pytest.approx(20 * 0.1 + 30 * 2 + 20 * 1.25 + 20)


def test_a_prefix_keeps_the_lifetime_it_was_written_with() -> None:
    made = asked((make_cache_point(2, 50, "1h"),), 60, make_kept_prefix(2, 50))
    assert [one.lifetime for one in made.after] == ["5m"]
    assert [one.used_at for one in made.after] == [timestamp_after(10)]


@pytest.mark.parametrize(("distance", "found"), [(0, True), (19, True), (20, False)])
def test_a_provider_looks_back_twenty_blocks_with_the_points_own(distance: int, found: bool) -> None:
    made = asked((make_cache_point(40, 100),), 120, make_kept_prefix(40 - distance, 50))
    assert (made.read > 0) == found == can_reach(40, 40 - distance, RULES)


def test_what_is_too_small_is_neither_written_nor_kept() -> None:
    made = asked((make_cache_point(0, 4), make_cache_point(1, 9)), 12)
    assert (made.written_5m, made.uncached, made.after) == (0, 12, ())
    assert all(one.small for one in made.points)


def test_an_automatic_cache_counts_in_steps_and_writes_for_nothing() -> None:
    rules = cache_rules_for("openai:gpt-5")
    made = asked(
        (make_cache_point(9, 5_000),), 5_500, make_kept_prefix(8, 4_000), make_kept_prefix(2, 900), rules=rules
    )
    assert (made.read, made.written_5m, made.written_1h, made.uncached) == (31 * 128, 0, 0, 5_500 - 31 * 128)
    assert asked((make_cache_point(90, 5_000),), 5_500, make_kept_prefix(8, 4_000), rules=rules).read == 31 * 128
    assert asked((make_cache_point(3, 1_000),), 1_100, rules=rules).after == ()


def test_rules_follow_from_the_name_of_the_model() -> None:
    assert cache_rules_for("anthropic:claude-sonnet-4-5").min_tokens == 1024
    assert cache_rules_for("anthropic:claude-opus-4-5-20251101").min_tokens == 4096
    assert cache_rules_for("anthropic:claude-3-5-haiku-latest").min_tokens == 2048
    assert cache_rules_for("local").kind == cache_rules_for("openai:x").kind == "automatic"
    assert cache_rules_for("script") == CacheRules()


def test_only_what_stands_and_lives_is_still_kept() -> None:
    others = (
        msgspec.structs.replace(make_kept_prefix(3, 9), system="other"),
        msgspec.structs.replace(make_kept_prefix(4, 9), prefix="gone"),
    )
    every = [make_kept_prefix(2, 9, "1h", -600), make_kept_prefix(5, 9, at=-600), *others, make_kept_prefix(0, 9)]
    assert [one.blocks for one in find_cache_state(every, "s", prefix_hash, RULES, timestamp_after(10)).matching] == [
        0,
        2,
    ]


def test_counts_are_anchored_in_the_prefixes_that_the_model_has_counted() -> None:
    cache = ModelCache(anchors=(MeasuredPrefix("s", "p3", 3, 1_000, 1_300), MeasuredPrefix("s", "", 0, 600, 1_000)))
    scale = token_scale_for(cache, "s", prefix_hash, Calibration(1.2, 3))
    assert scale == TokenScale(1.2, ((600, 1_000), (1_000, 1_300)))
    assert [scale.to_model_tokens(count) for count in (0, 300, 600, 800, 1_000, 1_100)] == [
        0,
        500,
        1_000,
        1_150,
        1_300,
        1_420,
    ]


def test_a_cut_leaves_the_measured_prefixes_before_it() -> None:
    lost = MeasuredPrefix("s", "gone", 9, 5_000, 9_000)
    cache = ModelCache(anchors=(MeasuredPrefix("s", "p3", 3, 1_000, 1_300), lost))
    assert token_scale_for(cache, "s", prefix_hash, None).to_model_tokens(1_000) == 1_300


def test_new_content_has_the_ratio_of_content_and_the_tail_its_own() -> None:
    system = MeasuredPrefix("s", "", 0, 1_000, 2_000)
    cache = ModelCache(
        anchors=(system,), content=ContentRatio(99_500, 99_500), tail=ContentRatio(estimated=500, reported=1_500)
    )
    scale = token_scale_for(cache, "s", prefix_hash, Calibration(2.0, 9))
    assert scale.to_model_tokens(11_000) == 2_000 + 10_050
    assert scale.tail_ratio == 2.5
    shape = RequestShape(system="s", points=(make_cache_point(0, 1_000),), total_tokens=1_100, scale=scale)
    rules = CacheRules(min_tokens=1)
    state = find_cache_state((), "s", prefix_hash, rules, timestamp_after(10))
    assert forecast_request(shape, state).uncached == 250
    # Without a point, nothing has been counted apart.
    assert forecast_request(msgspec.structs.replace(shape, points=()), state).uncached == scale.to_model_tokens(1_100)


def test_reports_that_contradict_each_other_are_left_out() -> None:
    cache = ModelCache(anchors=(MeasuredPrefix("s", "", 0, 600, 1_400), MeasuredPrefix("s", "p3", 3, 1_000, 1_300)))
    assert token_scale_for(cache, "s", prefix_hash, None).anchors == ((600, 1_400),)


def test_claude_counts_more_than_we_estimate_before_it_has_counted() -> None:
    assert expected_calibration("anthropic:claude-opus-4-6").ratio > expected_calibration("openai:x").ratio == 1.0


@pytest.mark.parametrize(
    "anchor",
    [
        None,
        MeasuredPrefix("other", "p3", 3, 10, 13),
        MeasuredPrefix("s", "gone", 3, 10, 13),
        MeasuredPrefix("s", "p3", 3, 0, 0),
    ],
)
def test_without_such_a_prefix_the_ratio_alone_counts(anchor: MeasuredPrefix | None) -> None:
    cache = ModelCache(anchors=(anchor,) if anchor else (), content=ContentRatio(9_000, 9_000))
    assert token_scale_for(cache, "s", prefix_hash, None) == TokenScale(1.0)
    assert token_scale_for(cache, "s", prefix_hash, Calibration(2.0, 1)).to_model_tokens(50) == 100


def test_the_record_of_a_forecast_holds_all_of_it() -> None:
    made = asked((make_cache_point(0, 20, "1h"), make_cache_point(4, 70)), 90, make_kept_prefix(0, 20))
    record = fill_forecast(made, CacheForecast(at=timestamp_after(10), system="s", last=True))
    assert (record.read_tokens, record.written_tokens, record.uncached_tokens) == (20, 50, 20)
    assert (record.prompt_tokens, record.seqs, record.last) == (90, (4,), True)
    assert msgspec.json.decode(msgspec.json.encode(record), type=CacheForecast) == record


def test_the_longer_lifetimes_come_first() -> None:
    assert [
        one.lifetime
        for one in with_lifetimes((make_cache_point(0, 1), make_cache_point(1, 2), make_cache_point(2, 3)), 2)
    ] == ["1h", "1h", "5m"]
