"""Pinned entries stay visible where others are pruned or summarized."""

from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    Cut,
    Hidden,
    Notes,
    Pinned,
    Pruned,
    RangeSummary,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.blocks.redact import redact_block
from timeloom.core.ids import CallId, TurnId
from timeloom.core.policy.cache.misses import PromptChange, find_forgotten_change
from timeloom.core.render.prompt import PromptView
from timeloom.core.render.segments import as_text
from timeloom.core.render.v1.renderer import V1_RENDERER
from timeloom.core.timeline import Entry
from timeloom.core.view.context.visible import Stub
from timeloom.core.view.views import Views, fold

TURN = TurnId("turn_1")
PROMPT, ANSWER = "ar:turn_1.user.prompt", "ar:turn_1.assistant.completion.1"
TALK: tuple[AnyBlock, ...] = (TurnStarted(n=1), UserPrompt(text="ask"), Completion(text="answer"))
SUMMARY = RangeSummary(covered_turn_ids=(TURN,), text="sum", first_seq=1, last_seq=3)


def log(*blocks: AnyBlock) -> list[Entry]:
    return [Entry(turn_id=TURN, ts="2026-02-09T02:14:32Z", block=block, seq=seq) for seq, block in enumerate(blocks, 1)]


def prompt(*blocks: AnyBlock) -> str:
    """The prompt, which is the same whether it is rendered entry by entry or at the end."""
    entries, views, view = log(*blocks), Views(), PromptView()
    for entry in entries:
        views.add(entry)
        view.add(entry, views)
    text = as_text(view.segments())
    again = PromptView.from_views(views, {entry.seq: entry for entry in entries})
    assert as_text(again.segments()) == text
    assert again.tokens == view.tokens
    return text


def test_a_summary_leaves_a_pinned_message_in_its_section() -> None:
    text = prompt(*TALK, Pinned(target=PROMPT), SUMMARY, Notes(tool_call_id=CallId("c1"), text="next"))
    sections = text.split("RECENT INTACT TURNS")
    assert sections[0].startswith("[COMPACTED PRIOR CONVERSATION MEMORY]")
    assert f"sum\n\n{V1_RENDERER.pinned_line}[USER MESSAGE]\n[path: {PROMPT}]\nask\n" in sections[0]
    assert "answer" not in text
    assert "next" in sections[1]


def test_pruning_leaves_a_pinned_answer_and_a_later_summary_moves_it() -> None:
    pruned = (*TALK, Pinned(target=ANSWER), Pruned(cuts=(Cut(1, 3, "[card]"),)))
    text = prompt(*pruned)
    assert text.startswith("PRUNED PRIOR TURNS\n\n[card]\n\n[PINNED] kept on request\n[ASSISTANT MESSAGE]")
    text = prompt(*pruned, SUMMARY)
    assert text.startswith("[COMPACTED PRIOR CONVERSATION MEMORY]")
    assert text.count(V1_RENDERER.pinned_line) == 1
    assert "[card]" not in text


def test_pinning_alone_changes_no_byte() -> None:
    assert prompt(*TALK, Pinned(target=PROMPT)) == prompt(*TALK)
    kept = (*TALK, Pinned(target=PROMPT), SUMMARY)
    assert prompt(*kept, Pinned(target=PROMPT, pinned=False)) == prompt(*kept)


def test_a_pin_that_ended_protects_nothing() -> None:
    unpinned = Pinned(target=PROMPT, pinned=False)
    views = fold(log(*TALK, Pinned(target=PROMPT), unpinned, SUMMARY))
    assert (views.visible.pins, views.visible.pinned, views.visible.kept) == ({}, {}, {})
    assert views.visible.shown[1] == Stub("summary", 6)
    assert 2 not in views.visible.shown
    views = fold(log(*TALK, Pinned(target=PROMPT), SUMMARY, unpinned, SUMMARY))
    assert 2 not in views.visible.shown
    assert views.visible.kept == {}


def test_hiding_a_pinned_block_ends_its_pin() -> None:
    views = fold(log(*TALK, Pinned(target=PROMPT), Hidden(target=PROMPT, replacement="x")))
    assert views.visible.pins == {}
    assert views.visible.shown[2] == Stub("hidden", 5, "x")
    views.add(Entry(turn_id=TURN, ts="2026-02-09T02:14:32Z", block=Pinned(target=PROMPT), seq=6))
    assert views.visible.pins == {}


def test_a_path_without_a_number_names_the_newest_answer() -> None:
    bare = "ar:turn_1.assistant.completion"
    views = fold(log(*TALK, Completion(text="second", n=2), Pinned(target=bare, tokens=7)))
    assert views.visible.pins[bare].seqs == (4,)
    assert views.visible.pinned_tokens == 7
    assert (views.visible.pin_path(bare), views.visible.pin_path(ANSWER)) == (bare, "")
    views = fold(log(*TALK, Pinned(target=ANSWER)))
    assert views.visible.pin_path(bare) == ANSWER
    assert views.visible.pin_path("ar:turn_9.assistant.completion") == ""


def test_one_block_has_one_pin_and_a_summary_has_none() -> None:
    bare = "ar:turn_1.assistant.completion"
    views = fold(log(*TALK, Pinned(target=ANSWER), Pinned(target=bare)))
    assert list(views.visible.pins) == [ANSWER]
    views = fold(
        log(*TALK, SUMMARY, Pinned(target="su:turn_1.conv.range.summary.1"), Pinned(target="ar:turn_9.user.prompt"))
    )
    assert views.visible.pins == {}


def test_the_first_change_of_a_cut_is_its_first_entry_without_a_pin() -> None:
    views = fold(log(*TALK, Pinned(target=PROMPT)))
    assert find_forgotten_change(Pruned(cuts=(Cut(2, 3),)), views.visible) == PromptChange("prune", 3)
    assert find_forgotten_change(Pruned(cuts=(Cut(2, 2),)), views.visible) is None
    hide = Hidden(target=PROMPT, replacement="x")
    assert find_forgotten_change(hide, views.visible) == PromptChange("hide", 2)
    by_turn = RangeSummary(covered_turn_ids=(TURN,), text="sum")
    assert find_forgotten_change(by_turn, views.visible) == PromptChange("compaction", 1)


def test_an_erased_pin_still_names_its_block() -> None:
    erased = redact_block(Pinned(target=PROMPT, text="why"))
    assert isinstance(erased, Pinned)
    assert (erased.target, erased.text, erased.erased) == (PROMPT, "[ERASED]", True)
