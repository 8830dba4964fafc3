"""The prompt: incremental rendering equals rendering at once, and only grows unless entries are hidden."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    Completion,
    Cut,
    Hidden,
    ModelCalled,
    Pruned,
    RangeSummary,
    ResultContent,
    RoundStarted,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import CallId, TurnId
from timeloom.core.render.prompt import PromptView, needed_seqs
from timeloom.core.render.segments import RenderedSegment, as_text, is_byte_prefix, is_segment_prefix
from timeloom.core.timeline import Draft, Entry, EntryError, to_entry
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.views import Views, fold
from timeloom.testing.conversations import AnyPayload, conversations
from timeloom.testing.strategies import timelines

TS = "2026-02-09T02:14:32.676425Z"
ONE, TWO = TurnId("turn_1"), TurnId("turn_2")


def follow(entries: Sequence[Entry]) -> tuple[PromptView, Views]:
    """The prompt and the views after these entries, kept up to date entry by entry."""
    prompt, views = PromptView(), Views()
    for entry in entries:
        views.add(entry)
        prompt.add(entry, views, AnyPayload())
    return prompt, views


def placed(*drafts: Draft) -> list[Entry]:
    return [to_entry(draft, seq) for seq, draft in enumerate(drafts, 1)]


def at(turn: TurnId, *blocks: AnyBlock) -> list[Draft]:
    return [Draft(turn, TS, block) for block in blocks]


@given(timelines())
def test_a_prompt_knows_the_last_entry_that_it_shows(entries: Sequence[Entry]) -> None:
    prompt, views = follow(entries)
    opened = PromptView.from_views(views, {entry.seq: entry for entry in entries}, AnyPayload())
    assert prompt.seq == opened.seq == len(entries)


def test_a_prompt_takes_no_entry_out_of_order() -> None:
    first, second = placed(*at(ONE, TurnStarted(n=1), UserPrompt(text="x")))
    with pytest.raises(EntryError, match="after 0"):
        PromptView().add(second, fold([first, second]))


@given(timelines() | conversations(), st.data())
def test_asking_in_between_changes_nothing(entries: Sequence[Entry], data: st.DataObject) -> None:
    asked, views = PromptView(), Views()
    for entry in entries:
        views.add(entry)
        asked.add(entry, views, AnyPayload())
        if data.draw(st.booleans()):
            asked.segments([views.tail])
            asked.fingerprint()
    plain, _ = follow(entries)
    assert asked.segments() == plain.segments()
    assert asked.fingerprint() == plain.fingerprint()
    assert asked.tokens == plain.tokens


@given(timelines() | conversations(), st.lists(st.integers(0, 60), max_size=4), st.data())
def test_whoever_keeps_what_was_laid_out_has_all_segments(
    entries: Sequence[Entry], points: list[int], data: st.DataObject
) -> None:
    prompt, views = PromptView(), Views()
    kept: list[RenderedSegment] = []
    for entry in entries:
        views.add(entry)
        prompt.add(entry, views, AnyPayload())
        if data.draw(st.booleans()):
            prompt.segments()
        if data.draw(st.booleans()):
            laid = prompt.compute_delta(points)
            kept = [*kept[: laid.kept], *laid.fresh]
            assert tuple(kept) == prompt.segments()
            marked = [place for place, one in enumerate(prompt.segments(points)) if one.cache_point]
            assert list(laid.points) == marked


def test_a_round_lays_out_only_what_it_added() -> None:
    prompt, views = PromptView(), Views()
    for n in range(1, 4 * 50, 4):
        rounds = (n // 4) + 1
        blocks = [RoundStarted(round=rounds), Completion(text="so", n=rounds)]
        for draft in at(ONE, TurnStarted(n=1), *blocks, ModelCalled(round=rounds, model="m", request_sha256="0")):
            entry = to_entry(draft, views.tail + 1)
            views.add(entry)
            prompt.add(entry, views)
        assert len(prompt.compute_delta([views.tail]).fresh) == 1
    assert len(prompt.segments()) == 50


@given(conversations())
def test_a_prompt_opened_from_what_is_in_sight_is_the_same(entries: list[Entry]) -> None:
    prompt, views = follow(entries)
    opened = PromptView.from_views(views, {seq: entries[seq - 1] for seq in needed_seqs(views)}, AnyPayload())
    assert opened.segments() == prompt.segments()
    assert opened.fingerprint() == prompt.fingerprint()
    assert opened.tokens == prompt.tokens


@given(conversations(), st.lists(st.integers(1, 40), max_size=6))
def test_views_that_are_further_on_do_no_harm(entries: list[Entry], sizes: list[int]) -> None:
    late, views = PromptView(), Views()
    rest = list(entries)
    for size in [*sizes, len(rest)]:
        batch, rest = rest[:size], rest[size:]
        for entry in batch:
            views.add(entry)
        for entry in batch:
            late.add(entry, views, AnyPayload())
    prompt, _ = follow(entries)
    assert late.segments() == prompt.segments()
    assert (late.tokens, late.fingerprint()) == (prompt.tokens, prompt.fingerprint())


@given(timelines())
def test_any_log_opens_as_it_was_followed(entries: Sequence[Entry]) -> None:
    # With the final views a result may know a tool that was called later: in such a log only the outline is the same.
    prompt, views = follow(entries)
    opened = PromptView.from_views(views, {seq: entries[seq - 1] for seq in needed_seqs(views)}, AnyPayload())
    assert [segment.data for segment in opened.segments()] == [segment.data for segment in prompt.segments()]


@given(conversations(forgetting=False))
def test_the_cacheable_part_only_grows(entries: list[Entry]) -> None:
    before: tuple[RenderedSegment, ...] = ()
    prompt, views = PromptView(), Views()
    for entry in entries:
        views.add(entry)
        prompt.add(entry, views, AnyPayload())
        after = prompt.segments()
        assert is_byte_prefix(before, after)
        before = after


@given(timelines())
def test_only_forgetting_changes_what_was_sent(entries: Sequence[Entry]) -> None:
    before: tuple[RenderedSegment, ...] = ()
    prompt, views = PromptView(), Views()
    for entry in entries:
        views.add(entry)
        prompt.add(entry, views, AnyPayload())
        after = prompt.segments()
        if not isinstance(entry.block, Hidden | Pruned | RangeSummary):
            assert is_byte_prefix(before, after)
        before = after


@given(conversations(forgetting=False))
def test_what_was_sent_is_sent_again_in_the_same_segments(entries: list[Entry]) -> None:
    sent: tuple[RenderedSegment, ...] = ()
    prompt, views = PromptView(), Views()
    for entry in entries:
        if isinstance(entry.block, ModelCalled):
            request = prompt.segments([views.tail])
            assert is_segment_prefix(sent, request)
            sent = request
        views.add(entry)
        prompt.add(entry, views, AnyPayload())


@given(timelines() | conversations(), st.lists(st.integers(0, 60), max_size=4))
def test_a_cache_point_is_on_a_segment_that_shows_something(entries: Sequence[Entry], seqs: list[int]) -> None:
    prompt, views = follow(entries)
    segments = prompt.segments([*seqs, views.tail])
    assert all(segment.text or segment.data is not None for segment in segments)
    if segments:
        assert segments[-1].cache_point
    assert sum(segment.cache_point for segment in segments) <= len(seqs) + 1


@given(conversations())
def test_tokens_are_those_of_what_is_shown(entries: list[Entry]) -> None:
    prompt, _ = follow(entries)
    text = "".join(segment.text for segment in prompt.segments())
    pictures = sum(segment.data is not None for segment in prompt.segments())
    # Each entry is counted by itself, so the sum may be off by one for each.
    assert abs(prompt.tokens - 1600 * pictures - estimate_tokens(text)) <= 3 * len(entries)


def test_sections_come_in_their_order() -> None:
    entries = placed(
        *at(ONE, TurnStarted(n=1), UserPrompt(text="old"), Completion(text="older answer")),
        *at(TWO, TurnStarted(n=2), UserPrompt(text="newer")),
        *at(TWO, RangeSummary(covered_turn_ids=(), text="long ago", first_seq=1, last_seq=2)),
        *at(TWO, Pruned(cuts=(Cut(3, 3, "[card] an answer"),))),
    )
    prompt, _ = follow(entries)
    assert as_text(prompt.segments()) == (
        "[COMPACTED PRIOR CONVERSATION MEMORY]\n\n"
        "[CONVERSATION SUMMARY] covers a part of a turn\n[path: su:turn_2.conv.range.summary.1]\nlong ago\n\n"
        "PRUNED PRIOR TURNS\n\n"
        "[card] an answer\n\n"
        "RECENT INTACT TURNS\n(oldest first; the last turn here is the CURRENT TURN)\n\n"
        f"[TURN turn_2] ts={TS}\n\n"
        "[USER MESSAGE]\n[path: ar:turn_2.user.prompt]\nnewer\n\n"
    )


def test_what_is_hidden_shows_as_its_line() -> None:
    entries = placed(
        *at(ONE, UserPrompt(text="a very long prompt")),
        *at(ONE, Hidden(target="ar:turn_1.user.prompt", replacement="the\ntask.")),
    )
    prompt, _ = follow(entries)
    assert "HIDDEN — the task. Retrieve with react.read(ar:turn_1.user.prompt)\n" in prompt.segments()[0].text
    assert "long prompt" not in prompt.segments()[0].text


def test_a_hide_leaves_the_parts_before_it_as_they_are() -> None:
    asked = ModelCalled(round=1, model="m", request_sha256="0")
    result = ResultContent(
        tool_call_id=CallId("c1"), artifact_path="tc:turn_1.c1.result", mime="text/plain", text="bulk"
    )
    entries = placed(*at(ONE, UserPrompt(text="one"), asked, result, asked, RoundStarted(round=2)))
    prompt, views = follow(entries)
    before = prompt.segments()
    hide = to_entry(Draft(ONE, TS, Hidden(target="tc:turn_1.c1.result", replacement="seen")), 6)
    views.add(hide)
    prompt.add(hide, views)
    after = prompt.segments()
    assert [one is two for one, two in zip(before, after, strict=True)] == [True, False, True]


def test_pictures_in_a_row_are_segments_of_their_own() -> None:
    pictures = [
        Attachment(artifact_path=f"fi:turn_1.user.attachments/{name}.png", mime="image/png", data=name.encode())
        for name in ("a", "b")
    ]
    prompt, _ = follow(placed(*at(ONE, *pictures, UserPrompt(text="which?"))))
    assert [segment.data for segment in prompt.segments()] == [None, b"a", b"b", None]
    assert as_text(prompt.segments()[1:3]) == "<image media_type=image/png b64_len=4>\n\n" * 2


def test_tokens_from_an_entry_on_are_those_after_it() -> None:
    entries = placed(*at(ONE, UserPrompt(text="one"), RoundStarted(round=1), RoundStarted(round=2)))
    prompt, _ = follow(entries)
    whole, last = prompt.tokens_from(1), prompt.tokens_from(3)
    assert 0 < last < prompt.tokens_from(2) < whole <= prompt.tokens
    assert prompt.tokens_from(4) == PromptView().tokens_from(1) == 0


@given(conversations(), st.integers(0, 60), st.integers(0, 60))
def test_tokens_of_a_range_are_those_of_its_entries(entries: list[Entry], first: int, last: int) -> None:
    prompt, _ = follow(entries)
    assert prompt.tokens_between(first, last) == sum(tokens for _, tokens in prompt.find_heavy(0, last, first))


def test_heavy_entries_are_found_heaviest_first() -> None:
    entries = placed(*at(ONE, UserPrompt(text="word " * 50), Completion(text="word " * 90), UserPrompt(text="x")))
    prompt, _ = follow(entries)
    assert [seq for seq, _ in prompt.find_heavy(40, 3)] == [2, 1]
    assert [seq for seq, _ in prompt.find_heavy(40, 1)] == [1]
    assert prompt.find_heavy(10_000, 3) == []


def test_an_empty_prompt_has_nothing() -> None:
    prompt = PromptView()
    assert prompt.segments([0, 5]) == ()
    assert prompt.fingerprint() == ""
    assert needed_seqs(fold([])) == []


A, B, C = RenderedSegment("a"), RenderedSegment("b"), RenderedSegment(data=b"c", mime="image/png")


@pytest.mark.parametrize(
    ("before", "after", "holds"),
    [
        ((), (), True),
        ((), (A,), True),
        ((A,), (), False),
        ((A,), (A, B), True),
        ((A, B), (RenderedSegment("abc", cache_point=True),), True),
        ((A, C), (A, C, B), True),
        ((A, C), (A, RenderedSegment(data=b"d", mime="image/png")), False),
        ((A, C), (B, C), False),
        ((C, A), (C, RenderedSegment("ab")), True),
        ((C, A), (C,), False),
        ((A,), (B,), False),
        ((A,), (C, A), False),
    ],
)
def test_extending_is_beginning_with_the_same_bytes(
    before: tuple[RenderedSegment, ...], after: tuple[RenderedSegment, ...], *, holds: bool
) -> None:
    assert is_byte_prefix(before, after) is holds


def test_segments_are_kept_only_as_they_were_cut() -> None:
    assert is_segment_prefix((A,), (RenderedSegment("a", cache_point=True), B))
    assert not is_segment_prefix((A, B), (RenderedSegment("ab"),))
    assert not is_segment_prefix((A,), (B,))
