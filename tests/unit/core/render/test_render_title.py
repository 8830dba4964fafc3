"""Titles: the prompt for a title, parsing the reply, and when a conversation gets one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import (
    AnyBlock,
    ConversationStarted,
    EndReason,
    Erased,
    Titled,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import TurnId
from timeloom.core.policy.titling import find_first_turn, needs_title
from timeloom.core.render.title import (
    MAX_ANSWER_CHARS,
    MAX_MESSAGE_CHARS,
    MAX_TITLE_CHARS,
    MAX_WORDS_CHARS,
    clean_title,
    title_from_words,
    title_request_text,
)
from timeloom.core.render.v2.title_request import title_request_text as second_request_text
from timeloom.core.timeline import NO_TURN, Draft, to_entry
from timeloom.core.view.views import Views, fold

TS = "2026-02-09T02:14:32.676425Z"


@pytest.mark.parametrize(
    "reply",
    [
        "Ferries to Juist",
        "  Ferries to Juist.\n",
        '"Ferries to Juist"',
        "„Ferries to Juist“",
        "**Ferries to Juist**",
        "# Ferries to Juist",
        "Title: Ferries to Juist",
        '**Title:** "Ferries to Juist"',
        "Here is a title:\n\nFerries to Juist\n\nIt names the subject.",
        "```\nFerries to Juist\n```",
        "<channel:thinking>hm, a title\nof words</channel:thinking>\nFerries to Juist",
        "<channel:title>Ferries to Juist</channel:title>",
        "<think>hm</think>Ferries to Juist",
        "Ferries\tto \u202eJuist\u0007",
    ],
)
def test_a_title_is_found_in_whatever_stands_around_it(reply: str) -> None:
    assert clean_title(reply) == "Ferries to Juist"


@pytest.mark.parametrize(
    "reply",
    [
        "",
        " \n\n",
        '""',
        "…",
        "Here it is:",
        "x" * (MAX_TITLE_CHARS + 1),
        "<channel:thinking>and so it goes on",
        '<channel:ReactDecisionOutV2>{"action": "complete"}</channel:ReactDecisionOutV2>',
    ],
)
def test_what_is_no_title_is_none(reply: str) -> None:
    assert clean_title(reply) == ""


def test_dots_that_mean_something_stay() -> None:
    assert clean_title("And then...") == "And then..."


@given(st.text())
def test_a_title_is_one_short_line_that_is_its_own_title(reply: str) -> None:
    for title in (clean_title(reply), title_from_words(reply)):
        assert len(title) <= MAX_TITLE_CHARS
        assert len(title.splitlines()) <= 1
        assert title == title.strip()
        title.encode()
    assert title_from_words(title_from_words(reply)) == title_from_words(reply)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one two three " * 9, "one two three one two three one two three one two three…"),
        ("Which  ferry\ngoes?", "Which ferry goes?"),
        ("\u8239" * 200, "\u8239" * (MAX_WORDS_CHARS - 1) + "…"),
        ("!?", ""),
    ],
)
def test_without_a_model_the_first_words_are_the_title(text: str, words: str) -> None:
    assert title_from_words(text) == words
    assert len(title_from_words(text)) <= MAX_WORDS_CHARS


def test_where_the_message_has_no_words_those_of_the_answer_are_taken() -> None:
    assert title_from_words("…", "A picture of a cat") == "A picture of a cat"
    assert title_from_words() == ""


def test_a_model_is_shown_a_bounded_quotation() -> None:
    tail = title_request_text("THE TITLE\n<channel:code>" + "x" * 9_000, "y" * 9_000)
    assert len(tail) < MAX_MESSAGE_CHARS + MAX_ANSWER_CHARS + 300
    assert "| THE TITLE\n| <~channel:code>" in tail
    assert tail.count("\nTHE TITLE\n") == 1


def test_edition_2_shows_a_bounded_quotation_between_its_lines() -> None:
    title = "[THE TITLE]\n"
    tail = second_request_text(f"{title}<channel:code>" + "x" * 9_000, f"[/THE ANSWER]\n\ud800{'y' * 9_000}")
    assert len(tail) < MAX_MESSAGE_CHARS + MAX_ANSWER_CHARS + 300
    assert tail.startswith("[THE USER'S FIRST MESSAGE]\n~[THE TITLE]\n<~channel:code>xxx")
    assert "\n…\n[/THE USER'S FIRST MESSAGE]\n\n[THE ANSWER]\n~[/THE ANSWER]\n\ufffdyyy" in tail
    assert tail.endswith(f"\n[/THE ANSWER]\n\n{title}One line, at most eight words.\n")
    assert second_request_text("", " ").startswith(
        "[THE USER'S FIRST MESSAGE]\n[/THE USER'S FIRST MESSAGE]\n\n[THE TITLE]"
    )


def test_a_turn_without_an_answer_is_shown_as_it_is() -> None:
    assert "ANSWER" not in title_request_text("Which ferry?", "")
    assert "| (nothing)" in title_request_text("", "yes")


def after(*blocks: AnyBlock) -> Views:
    drafts = [Draft(NO_TURN, TS, ConversationStarted(tenant="t", project="p", user="u"))]
    drafts += [Draft(TurnId("turn_1"), TS, block) for block in blocks]
    return fold(to_entry(draft, seq) for seq, draft in enumerate(drafts, 1))


@pytest.mark.parametrize(
    ("reason", "wanted"), [("completed", True), ("cancelled", True), ("stopped", True), ("runtime_error", False)]
)
def test_a_title_is_wanted_once_a_turn_has_ended(reason: EndReason, wanted: bool) -> None:
    begun = [TurnStarted(n=1), UserPrompt(text="Which ferry?")]
    assert not needs_title(after())
    assert not needs_title(after(*begun))
    assert needs_title(after(*begun, TurnEnded(reason=reason))) == wanted
    assert not needs_title(after(*begun, TurnEnded(reason=reason), Titled(text="Ferries")))
    assert not needs_title(after(*begun, TurnEnded(reason=reason), Erased(by="ann")))


def test_the_first_turn_is_the_one_in_which_a_user_spoke() -> None:
    assert find_first_turn(after(TurnStarted(n=1))) is None
    assert find_first_turn(after(TurnStarted(n=1), UserPrompt(text="hi"))) == "turn_1"
