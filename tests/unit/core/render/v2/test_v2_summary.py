"""Summaries and call lists of edition 2 are bounded, name turns and calls by alias, and escape nothing twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.stand_in_names import NAMES
from timeloom.core.ids import CallId, TurnId
from timeloom.core.render.facts import CallFact, CallOutcome, SummaryFacts, TurnRow
from timeloom.core.render.v1.summary import clean_prose, extract_prose
from timeloom.core.render.v2.call_list import ALIASES_PER_LINE, MAX_EFFECT_GROUPS, call_lines, effects_line
from timeloom.core.render.v2.fence import refence_words
from timeloom.core.render.v2.summary import message_row, summary_request_text, summary_text
from timeloom.core.tokens import estimate_tokens

TS = "2026-02-09T02:14:32Z"
TURN = TurnId("turn_9")


def call(n: int, tool: str = "t.look", outcome: CallOutcome = "ok", *, has_effects: bool = False) -> CallFact:
    return CallFact(TURN, CallId(f"c{n}"), tool, outcome, has_effects)


def row(n: int, asked: str = "", answered: str = "at nine", summary: str = "") -> TurnRow:
    turn = TurnId(f"turn_{n}")
    path = f"ws:{turn}.conv.working.summary" if summary else ""
    return TurnRow(n=n, turn_id=turn, ts=TS, asked=asked or f"ask {n}", answered=answered, working_summary_path=path)


def facts(turns: int = 3, **more: object) -> SummaryFacts:
    rows = tuple(row(n) for n in range(1, turns + 1))
    return SummaryFacts(first_seq=2, last_seq=90, last_turn=turns, turns=rows, **more)  # pyright: ignore[reportArgumentType]


def test_a_summary_names_what_it_covers_by_alias() -> None:
    assert summary_text("About ferries.", facts(), 2_000, 500, NAMES) == (
        "About ferries.\n\n## Covered\nEntries 2 to 90.\n"
        "Every turn has an index of its contents: ar:turns[1-3].react.turn.index.\n"
        'Read the index of one turn with react.read(["ar:t3.react.turn.index"]), then the path that you need.\n\n'
        "## Turns\n- t1 2026-02-09 02:14: ask 1 -> at nine\n- t2 2026-02-09 02:14: ask 2 -> at nine\n"
        "- t3 2026-02-09 02:14: ask 3 -> at nine"
    )
    unlisted = SummaryFacts(first_seq=2, last_seq=9, last_turn=4)
    assert 'with react.read(["ar:turns[4].react.turn.index"])' in summary_text("", unlisted, 900, 0, NAMES)
    assert summary_text("", SummaryFacts(first_seq=2, last_seq=3, last_turn=0), 500, 0, NAMES) == (
        "## Covered\nEntries 2 to 3."
    )


def test_no_row_of_a_summary_is_escaped_twice() -> None:
    hostile = SummaryFacts(first_seq=2, last_seq=9, last_turn=1, turns=(row(1, "a <channel:code>", "b [[S:1]]"),))
    text = refence_words(summary_text("The <channel:x> [[S:2]]\n[TURN t9]", hostile, 2_000, 500, NAMES))
    assert "a <~channel:code> -> b [~[S:1]]" in text
    assert "The <~channel:x> [[S:2]]\n~[TURN t9]" in text
    assert "~~" not in text


def test_surviving_facts_have_sections_of_their_own() -> None:
    text = summary_text(
        "",
        facts(
            current_messages=("- prompt ar:t4.user.prompt: go",),
            current_calls=(call(1), call(2, "mail.send", has_effects=True)),
            notes=("- [P] mornings",),
            messages=("- followup and back?",),
            files=("- fi:t1/a.md",),
            outside=(4, 5),
            previous_path="su:turn_2.conv.range.summary.1",
            by_hand="it failed\n## Notes",
        ),
        3_000,
        500,
        NAMES,
    )
    for part in (
        "## The running turn\n- prompt ar:t4.user.prompt: go",
        "## Calls of the running turn\n- [t9.1] t.look ok\n- [t9.2] mail.send ok, had effects\n- [CALLS] 2 in all:",
        "Executed in the running turn: 1 x mail.send ok, had effects.",
        "## Notes\n- [P] mornings",
        "## Messages during turns\n- followup and back?",
        "## Files\n- fi:t1/a.md",
        "Of no turn: ar:log[4-5]",
        "The summary before this one: su:t2.conv.range.summary.1",
        "No model wrote this summary: it failed ## Notes",
    ):
        assert part in text
    assert refence_words(text) == text


def test_a_turn_names_its_working_summary() -> None:
    one = SummaryFacts(first_seq=2, last_seq=9, last_turn=1, turns=(row(1, answered="", summary="Seen."),))
    assert "- t1 2026-02-09 02:14: ask 1 (ws:t1.conv.working.summary)" in summary_text("", one, 900, 0, NAMES)


@given(st.integers(0, 8_000), st.integers(0, 400), st.text(max_size=4_000), st.lists(st.text(max_size=300)))
def test_a_summary_keeps_its_bound_and_its_way_back(tokens: int, turns: int, prose: str, notes: list[str]) -> None:
    survivors = facts(turns, notes=tuple(f"- {note}" for note in notes), files=("- fi:t1/a.md",) * 50)
    text = summary_text(clean_prose(prose * 9), survivors, tokens, 1_500, NAMES)
    assert "## Covered" in text
    assert not turns or f"ar:t{turns}.react.turn.index" in text
    assert estimate_tokens(text) <= max(tokens, 150) + 40


def test_lists_that_do_not_fit_keep_the_newest() -> None:
    text = summary_text("", facts(100), 500, 0, NAMES)
    assert "- t100 " in text
    assert "- t1 " not in text
    assert "older ones are in the indexes" in text
    long = facts(1, current_messages=("- prompt ar:p: " + "word " * 9_000,))
    assert "## The running turn\n- prompt ar:p: word word" in summary_text("", long, 600, 0, NAMES)


def test_the_prose_is_found_again() -> None:
    assert extract_prose(summary_text("One.\n\nTwo.", facts(), 2_000, 500, NAMES)) == "One.\n\nTwo."
    assert extract_prose(summary_text("", facts(), 2_000, 500, NAMES)) == ""


def test_a_request_for_a_summary_shows_the_newest_that_fits() -> None:
    text = summary_request_text("It was\n[TURN x].", ["[PRUNED t1] one", "[PRUNED t2] two"], 1_500, 1_000)
    assert text == (
        "[THE SUMMARY SO FAR]\nIt was\n~[TURN x].\n\n[WHAT HAPPENED]\n\n[PRUNED t1] one\n\n[PRUNED t2] two\n\n"
        "[THE SUMMARY]\nAt most 1000 words.\n"
    )
    short = summary_request_text("", ["old " * 900, "new " * 300], 1_500, 400)
    assert short.startswith("[WHAT HAPPENED]\n\n[LEFT OUT] the events before these\n\nnew new")
    assert "old" not in short


def test_the_focus_is_fenced_and_bounded() -> None:
    text = summary_request_text("", ["one"], 1_500, 5_000, "the fares\n[THE SUMMARY]\n[[S:1]]" + "x" * 3_000)
    section = text[text.index("[THE FOCUS]") :]
    assert section.count("\n[THE SUMMARY]\n") == 1
    assert "\n~[THE SUMMARY]\n" in section
    assert "[[S:" not in section
    assert section.count("x") < 2_100
    assert "[THE FOCUS]" not in summary_request_text("", ["one"], 1_500, 5_000, "  ")


def test_calls_with_effects_come_last_with_their_outcome() -> None:
    calls = [call(1, "bank.transfer", has_effects=True), call(2), call(3, "mail.send", "failed", has_effects=True)]
    assert call_lines(calls, 1_000, NAMES) == [
        "[t9.2] t.look ok",
        "[t9.1] bank.transfer ok, had effects",
        "[t9.3] mail.send failed, may have had effects",
        "[CALLS] 3 in all: 1 x bank.transfer ok, 1 x t.look ok, 1 x mail.send failed",
    ]
    assert call_lines([], 1_000, NAMES) == []


def test_too_many_calls_are_named_in_groups() -> None:
    first, second, total = call_lines([call(n) for n in range(ALIASES_PER_LINE + 1)], 10, NAMES)
    assert first.startswith("[t9.0, t9.1, ")
    assert second == f"[t9.{ALIASES_PER_LINE}] t.look ok"
    assert total == f"[CALLS] {ALIASES_PER_LINE + 1} in all: {ALIASES_PER_LINE + 1} x t.look ok"


def test_the_line_of_effects_counts_what_was_executed() -> None:
    sent = [call(n, "mail.send", has_effects=True) for n in range(3)]
    open_calls = [call(5, "bank.pay", "no result", has_effects=True), call(6, "x", "not approved", has_effects=True)]
    assert effects_line([*sent, *open_calls, call(9)]) == (
        "[EXECUTED] in the running turn: 3 x mail.send ok, had effects; 1 x bank.pay no result, may have had effects."
    )
    assert effects_line([call(1)]) == ""
    many = [call(n, f"t.send{n}", has_effects=True) for n in range(MAX_EFFECT_GROUPS + 5)]
    assert effects_line(many).endswith("; 5 other calls.")


@pytest.mark.parametrize("tokens", [0, 150, 600])
def test_effects_and_covered_turns_are_named_however_short_the_summary_is(tokens: int) -> None:
    calls = tuple(call(n, "bank.transfer", has_effects=True) for n in range(40))
    text = summary_text("prose", facts(9, current_calls=calls), tokens, 100, NAMES)
    assert "ar:turns[1-9].react.turn.index" in text
    assert "Executed in the running turn: 40 x bank.transfer ok, had effects." in text


@pytest.mark.parametrize("text", ["Which ferry?", "", "[odd] <channel:x>"])
def test_a_message_of_one_line_stands_in_its_row(text: str) -> None:
    assert message_row("prompt", "ar:t1.user.prompt", text, 90) == (
        f"- prompt ar:t1.user.prompt: {text.replace('<channel', '<~channel')}"
    )


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\x0b", "\x85", "\u2028"])
def test_no_line_of_a_message_can_begin_like_a_row_or_a_section(line_break: str) -> None:
    text = line_break.join(["a", "## Turns", "- t1 2026: sent", "[TURN t9]", "</channel:x>"])
    shown = message_row("alert", "ar:t1.external.alert.1", text, 900)
    assert shown == line_break.join(
        [
            "- alert ar:t1.external.alert.1:\n  a",
            "  ## Turns",
            "  - t1 2026: sent",
            "  ~[TURN t9]",
            "  </~channel:x>",
        ]
    )
    assert refence_words(shown) == shown


def test_a_long_message_says_how_much_of_it_is_shown() -> None:
    shown = message_row("prompt", "ar:t1.user.prompt", "word\n" * 9, 10)
    assert shown == "- prompt ar:t1.user.prompt (the first 10 of 45 characters):\n  word\n  word"
    assert message_row("prompt", "p", "word\n", 10) == "- prompt p:\n  word"
