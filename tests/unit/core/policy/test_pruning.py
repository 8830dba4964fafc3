"""Pruning: which turns and rounds are old, when a cache is cold, and whether forgetting is worth a rewrite."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ConversationStarted,
    Cut,
    Feedback,
    Followup,
    ModelAnswered,
    ModelCalled,
    Note,
    Notice,
    Pruned,
    RangeSummary,
    ResultContent,
    RoundStarted,
    Titled,
    ToolCall,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.blocks.caching import CacheRates
from timeloom.core.blocks.digest import Shown
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.policy.compaction import find_last_cut
from timeloom.core.policy.pruning import (
    CARD_TOKENS,
    MARGIN,
    READ_AGAIN_PRIOR,
    ROWS_PRIOR,
    CachedPrompt,
    PrunableRounds,
    PruneSavings,
    PruneSettings,
    TurnSpan,
    estimate_card_savings,
    find_cached_prompt,
    find_prunable_rounds,
    find_prunable_turns,
    read_again_share,
    reason_to_prune,
    rows_share,
)
from timeloom.core.timeline import NO_TURN, Draft, Entry, to_entry
from timeloom.core.view.context.forgetting import ForgettingView
from timeloom.core.view.context.provider_caches import CachedPrefix, ModelCache, ProviderCachesView
from timeloom.core.view.context.row_tokens import MAX_READING_CALLS, RowTokens
from timeloom.core.view.turns import Turn
from timeloom.core.view.views import Views, fold

TS = "2026-02-09T02:14:32Z"
CALL = CallId("c1")
SETTINGS = PruneSettings()


def turn_drafts(n: int, rounds: int = 2) -> list[Draft]:
    turn = TurnId(f"turn_{n}")
    blocks: list[AnyBlock] = [TurnStarted(n=n), UserPrompt(text=f"ask {n}")]
    blocks += [RoundStarted(round=r) for r in range(1, rounds + 1)]
    return [Draft(turn, TS, block) for block in [*blocks, Completion(text="so"), TurnEnded(reason="completed")]]


def views_of(drafts: Sequence[Draft]) -> Views:
    header = Draft(NO_TURN, TS, ConversationStarted(tenant="t", project="p", user="u"))
    return fold(to_entry(draft, seq) for seq, draft in enumerate([header, *drafts], 1))


def conversation(turns: int, rounds: int = 2) -> list[Draft]:
    return [draft for n in range(1, turns + 1) for draft in turn_drafts(n, rounds)]


def after(turn: int, block: AnyBlock) -> Draft:
    return Draft(TurnId(f"turn_{turn}"), TS, block)


def test_the_current_turn_and_those_before_it_stay() -> None:
    for count in (0, 1, 3):
        assert find_prunable_turns(views_of(conversation(count)), SETTINGS) == ()
    found = find_prunable_turns(views_of(conversation(6)), SETTINGS)
    assert [(turn.n, turn.runs) for turn in found] == [(1, ((2, 7),)), (2, ((8, 13),)), (3, ((14, 19),))]
    assert found[-1].last_seq == 19


def test_a_turn_counts_the_requests_sent_since_it_could_have_gone() -> None:
    found = find_prunable_turns(views_of(conversation(6)), SETTINGS)
    assert [turn.requests for turn in found] == [4, 2, 0]
    every = find_prunable_turns(views_of(conversation(3)), PruneSettings(keep_turns=0))
    assert [turn.requests for turn in every] == [2, 0]


def test_what_is_pruned_or_summed_up_is_not_looked_at_again() -> None:
    drafts = conversation(6)
    pruned = after(6, Pruned(cuts=(Cut(2, 7, "card"), Cut(8, 13, "card")), through_seq=13))
    assert [turn.n for turn in find_prunable_turns(views_of([*drafts, pruned]), SETTINGS)] == [3]
    summary = after(6, RangeSummary(covered_turn_ids=(), text="sum", first_seq=2, last_seq=10))
    found = find_prunable_turns(views_of([*drafts, summary]), SETTINGS)
    assert [(turn.n, turn.runs) for turn in found] == [(2, ((11, 13),)), (3, ((14, 19),))]


def test_what_was_said_of_an_old_turn_later_goes_with_it_as_far_as_it_is_old() -> None:
    drafts = conversation(6)
    drafts.insert(10, after(1, Feedback(reaction="ok", origin="user")))
    drafts.append(after(1, Feedback(reaction="not_ok", origin="user")))
    first = find_prunable_turns(views_of(drafts), SETTINGS)[0]
    assert first.runs == ((2, 7), (12, 12))


def test_the_newest_rounds_stay() -> None:
    views = views_of(conversation(3, rounds=5))
    found = find_prunable_rounds(views, PruneSettings(keep_rounds=8))
    assert [(one.turn_n, one.n) for one in found] == [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 1), (2, 2)]
    assert [(one.first_seq, one.last_seq) for one in found[:2]] == [(4, 4), (5, 5)]
    # The last round of a turn has its answer and its end.
    assert (found[4].first_seq, found[4].last_seq) == (8, 10)
    assert find_prunable_rounds(views_of(conversation(1)), SETTINGS) == ()


def test_rounds_that_were_looked_at_are_not_looked_at_again() -> None:
    drafts = conversation(3, rounds=5)
    rows = after(3, Pruned(cuts=(Cut(4, 5, "rows"), Cut(8, 8, "one entry"))))
    found = find_prunable_rounds(views_of([*drafts, rows]), SETTINGS)
    assert (found[0].turn_n, found[0].n) == (1, 3)


@given(st.integers(0, 8), st.integers(0, 4), st.integers(0, 3), st.integers(0, 5))
def test_spans_are_in_order_and_apart(turns: int, rounds: int, keep_turns: int, keep_rounds: int) -> None:
    settings = PruneSettings(keep_turns=keep_turns, keep_rounds=keep_rounds)
    views = views_of(conversation(turns, rounds))
    runs = [run for turn in find_prunable_turns(views, settings) for run in turn.runs]
    runs += [(one.first_seq, one.last_seq) for one in find_prunable_rounds(views, settings)]
    assert all(first <= last for first, last in runs)
    assert all(before[1] < after[0] for before, after in pairwise(runs))


def hundred_each(first: int, last: int) -> int:
    return 100 * (last + 1 - first)


def test_old_rounds_are_summed_up_request_by_request() -> None:
    settings = PruneSettings(keep_rounds=2)
    old = PrunableRounds()
    for rounds, (tokens, sent) in {2: (0, 0), 3: (100, 100), 4: (200, 300), 5: (300, 600)}.items():
        views = views_of(conversation(1, rounds)[: rounds + 2])
        old.update(views, settings, hundred_each)
        assert (old.tokens, old.sent_tokens) == (tokens, sent)
    assert (old.before_tokens, old.first_seq) == (300, 4)
    half = RowTokens(rounds=10**12, rows=int(10**12 / MARGIN / 2))
    assert old.estimate_savings(CachedPrompt(None, 2_000), half) == PruneSavings(150, 2_000 - 300 - 150, 300)


def test_old_rounds_begin_anew_when_something_is_forgotten() -> None:
    settings = PruneSettings(keep_rounds=2)
    old, drafts = PrunableRounds(), conversation(1, 6)
    old.update(views_of(drafts), settings, hundred_each)
    old.tried = RowTokens(400, 100)
    assert old.tokens == 400
    rows = after(1, Pruned(cuts=(Cut(4, 5, "rows"),)))
    old.update(views_of([*drafts, rows]), settings, hundred_each)
    assert (old.tokens, old.sent_tokens, old.tried) == (200, 200, RowTokens())


def test_no_old_rounds_save_nothing() -> None:
    assert PrunableRounds().estimate_savings(CachedPrompt(None, 2_000), RowTokens()) == PruneSavings(0, 0, 0)


def test_the_share_of_rows_begins_at_a_guess_and_is_learned_from_prunes() -> None:
    weight, guess = ROWS_PRIOR
    assert rows_share(RowTokens()) == guess
    assert rows_share(RowTokens(weight, weight // 2)) == pytest.approx((guess + 0.5) / 2)
    long_rows = PrunableRounds(tokens=100, sent_tokens=100).estimate_savings(
        CachedPrompt(None, 0), RowTokens(10, 10**6)
    )
    assert (long_rows.saved, long_rows.regret) == (0, 0)


def test_an_attempt_in_vain_tells_the_next_one_the_size_of_its_rows() -> None:
    old = PrunableRounds(tokens=100_000, first_seq=4, sent_tokens=300_000, tried=RowTokens(10**6, 240_000))
    assert old.estimate_savings(CachedPrompt((), 0), RowTokens(10**9, 0)) == PruneSavings(70_000, 0, 210_000)


def test_the_tokens_of_rows_are_folded_and_newer_prunes_count_more() -> None:
    view = RowTokens()
    cuts = (Cut(3, 4, "rows"),)
    blocks = [
        Pruned(cuts=cuts, round_tokens=1_000, row_tokens=200),
        Pruned(cuts=cuts),
        Note(tool_call_id=CALL, text="n"),
    ]
    for seq, block in enumerate([*blocks, Pruned(cuts=cuts, round_tokens=100, row_tokens=40)], 5):
        view.add(Entry(turn_id=TurnId("turn_1"), ts=TS, block=block, seq=seq))
    assert view == RowTokens(rounds=600, rows=140)


def read(path: str, tokens: int, call_id: str = "c9") -> ResultContent:
    shown = Shown(how="whole", tokens=tokens)
    return ResultContent(tool_call_id=CallId(call_id), artifact_path=path, text="t", mime="text/plain", shown=shown)


def folded(*blocks: AnyBlock) -> RowTokens:
    view = RowTokens()
    for seq, block in enumerate(blocks, 5):
        view.add(Entry(turn_id=TurnId("turn_1"), ts=TS, block=block, seq=seq))
    return view


PRUNE = Pruned(cuts=(Cut(3, 4, "rows"),), round_tokens=1_000, row_tokens=200)
READS = ToolCall(tool_call_id=CallId("c9"), tool_id="react.read", params="{}")


def test_what_is_read_by_path_after_a_prune_counts_as_read_again() -> None:
    result = "tc:turn_1.c1.result"
    assert folded(READS, read(result, 50), PRUNE).read_again == 0
    assert folded(PRUNE, READS, read(result, 50), read("fi:turn_1.files/a.md", 10)).read_again == 60
    assert folded(PRUNE, READS, read(result, 50), PRUNE).read_again == 25
    # An index is never pruned, and another tool's result is new.
    assert folded(PRUNE, READS, read("ar:turns[1].react.turn.index", 50), read(result, 50, "c2")).read_again == 0
    assert folded(PRUNE, READS, msgspec.structs.replace(read(result, 50), shown=None)).read_again == 0


def test_only_the_newest_reading_calls_are_remembered() -> None:
    calls = [msgspec.structs.replace(READS, tool_call_id=CallId(f"c{n}")) for n in range(30)]
    assert folded(PRUNE, *calls).reading == tuple(CallId(f"c{n}") for n in range(30 - MAX_READING_CALLS, 30))


def test_the_share_that_is_read_again_is_learned_from_the_conversation() -> None:
    weight, guess = READ_AGAIN_PRIOR
    assert read_again_share(RowTokens()) == pytest.approx(guess)
    assert read_again_share(RowTokens(rounds=weight)) == pytest.approx(guess / 2)
    assert read_again_share(RowTokens(rounds=weight, read_again=weight // 2)) == pytest.approx((guess + 0.5) / 2)
    assert read_again_share(RowTokens(read_again=10**9)) == 1.0


def test_what_is_likely_to_be_read_again_is_pruned_later() -> None:
    saving, rates = PruneSavings(10_000, 1_000, 30_000), CacheRates(read=0.1, write_5m=1.25)
    assert "each request saves 10000" in reason_to_prune(saving, False, SETTINGS, rates)
    assert "reading again 500 x 2.05" in reason_to_prune(saving, False, SETTINGS, rates, 0.05)
    assert reason_to_prune(saving, False, SETTINGS, rates, 0.1) == ""
    assert reason_to_prune(saving, True, SETTINGS, rates, 1.0)


def cached(kept: tuple[CachedPrefix, ...] = (), model: str = "m", called_at: str = TS) -> ProviderCachesView:
    return ProviderCachesView(models={"m": ModelCache(kept=kept)}, model=model, called_at=called_at)


def prefix(blocks: int, used_at: str, seq: int = 3, tokens: int = 5_000) -> CachedPrefix:
    return CachedPrefix("s", f"p{blocks}", seq, blocks, tokens, "5m", used_at)


WARM = "2026-02-09T02:14:00Z"


@pytest.mark.parametrize(
    ("view", "cold"),
    [
        (cached((prefix(2, WARM),)), False),
        (cached((prefix(2, "2026-02-09T02:00:00Z"),)), True),
        (cached((prefix(0, WARM),)), True),
        (cached((prefix(9, WARM),)), True),
        (cached(model="other"), True),
        (cached(called_at="2026-02-09T02:10:00Z"), False),
        (cached(called_at="2026-02-09T02:09:00Z"), True),
    ],
)
def test_a_cache_is_cold_when_nothing_of_the_conversation_is_left_in_it(view: ProviderCachesView, cold: bool) -> None:
    assert find_cached_prompt(view, "m", TS, hash_of, 1_000).is_cold == cold


def hash_of(blocks: int) -> str:
    """The hash of a prefix of the prompt; it has eight blocks."""
    return f"p{blocks}" if blocks <= 8 else ""


def test_a_cut_loses_all_that_is_cached_after_the_last_prefix_before_it() -> None:
    kept = (prefix(0, WARM, 0, 20_000), prefix(2, WARM, 30, 24_000), prefix(8, WARM, 90, 40_000))
    found = find_cached_prompt(cached(kept), "m", TS, hash_of, 0)
    assert [found.lost_tokens(first, 0) for first in (20, 31, 91)] == [20_000, 16_000, 0]


def test_without_reports_a_cut_loses_all_that_follows_it() -> None:
    found = find_cached_prompt(cached(called_at=WARM), "m", TS, hash_of, 9_000)
    assert found.lost_tokens(31, 2_000) == 7_000


def test_a_guess_takes_a_card_for_as_long_as_most_are() -> None:
    turns = [TurnSpan(TurnId("turn_1"), 1, ((2, 7),), 10), TurnSpan(TurnId("turn_2"), 2, ((8, 9),), 3)]
    saving = estimate_card_savings(turns, [CARD_TOKENS + 1_000, 50], [CARD_TOKENS, CARD_TOKENS], 5_000)
    assert saving == PruneSavings(1_000, 4_000, 10_000)


def test_a_cold_cache_asks_only_that_something_is_saved() -> None:
    assert reason_to_prune(PruneSavings(1_999, 50_000, 0), True, SETTINGS, CacheRates()) == ""
    assert "2000 tokens less" in reason_to_prune(PruneSavings(2_000, 50_000, 0), True, SETTINGS, CacheRates())


def test_a_warm_cache_asks_that_keeping_has_cost_more_than_the_rewrite() -> None:
    rates = CacheRates()
    patient = PruneSettings(patience=2)
    assert reason_to_prune(PruneSavings(9_000, 10_000, 230_000), False, patient, rates) == ""
    reason = reason_to_prune(PruneSavings(9_000, 10_000, 230_001), False, patient, rates)
    assert "230001 x 0.1 = 23000, over 2 times the rewrite of 10000 x (1.25 - 0.1) = 11500" in reason


def test_forgetting_keeps_the_marks_and_what_must_outlive_a_summary() -> None:
    view = ForgettingView()
    blocks: list[tuple[str, AnyBlock]] = [
        ("", ConversationStarted(tenant="t", project="p", user="u")),
        ("", Titled(text="a title")),
        ("turn_1", Note(tool_call_id=CallId("c1"), text="[P] note")),
        ("turn_1", Followup(message_id=MessageId("m1"), text="and?")),
        ("turn_1", Pruned(cuts=(Cut(3, 4, "card"), Cut(6, 6)), through_seq=4)),
        ("turn_1", RangeSummary(covered_turn_ids=(), text="sum", first_seq=2, last_seq=3)),
        ("turn_1", ModelCalled(round=1, model="m", request_sha256="0")),
    ]
    for seq, (turn, block) in enumerate(blocks, 1):
        view.add(Entry(turn_id=TurnId(turn), ts=TS, block=block, seq=seq))
    expected = ForgettingView(
        cards_seq=4,
        rounds_seq=4,
        summary_seq=6,
        summed_seq=3,
        notes=[3],
        said=[4],
        outside=[2],
        records_calls=True,
        asked_seq=7,
    )
    assert view == expected
    assert view.done_seq == 4


def test_a_turn_of_an_older_log_may_have_no_round() -> None:
    assert Turn(1).rounds == []
    assert find_prunable_rounds(views_of(conversation(4, rounds=0)), PruneSettings(keep_rounds=0)) == ()


def answered(purpose: CallPurpose = "decision", error: str = "", *, interrupted: bool = False) -> ModelAnswered:
    return ModelAnswered(round=1, model="m", stop_reason="end", purpose=purpose, error=error, interrupted=interrupted)


ASKED = ModelCalled(round=1, model="m", request_sha256="0")
TOLD = Notice(code="c", text="n")


@pytest.mark.parametrize(
    ("blocks", "unseen"),
    [
        ([TOLD], 0),
        ([ASKED, answered(), TOLD, TOLD], 3),
        ([ASKED, answered(), TOLD, ASKED, answered()], 0),
        ([ASKED, TOLD, answered(), TOLD], 2),
        ([ASKED, answered(), TOLD, ASKED, answered(error="overloaded")], 3),
        ([ASKED, answered(), TOLD, ASKED, answered(interrupted=True), ASKED, TOLD, answered()], 7),
        ([ASKED, answered(), TOLD, ASKED, answered(purpose="compaction")], 3),
        ([answered(), TOLD], 0),
    ],
)
def test_entries_are_unseen_until_a_request_with_them_is_answered(blocks: list[AnyBlock], unseen: int) -> None:
    view = ForgettingView()
    for seq, block in enumerate(blocks, 1):
        view.add(Entry(turn_id=TurnId("turn_1"), ts=TS, block=block, seq=seq))
    assert view.unseen_seq == unseen


def test_unseen_entries_are_never_pruned_or_cut() -> None:
    settings = PruneSettings(keep_turns=0, keep_rounds=0)
    drafts = conversation(3)
    views = views_of(drafts)
    unseen = views.turns.turns[TurnId("turn_2")].rounds[1].first_seq
    assert [turn.n for turn in find_prunable_turns(views, settings)] == [1, 2]
    assert find_last_cut(views) > unseen
    views.forgetting.unseen_seq = unseen
    assert find_prunable_turns(views, settings) == ()
    assert all(span.last_seq < unseen for span in find_prunable_rounds(views, settings))
    assert find_last_cut(views) < unseen
