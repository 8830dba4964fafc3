"""The local model's rules that extract values from a message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom_local.text_rules import (
    MAX_MESSAGE_CHARS,
    extract_quotations,
    find_file_names,
    find_list_items,
    find_quotations,
    is_question,
    normalize_form,
    restore_quotations,
)


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("show notes.txt", ["notes.txt"]),
        ('put it in "docs/a b.md" and src/main.py', ["b.md", "src/main.py"]),
        ("see https://example.com/page.html, e.g. at 5 p.m.", []),
        ("a.tar.gz and a.tar.gz again", ["a.tar.gz"]),
        ("write to example.com", []),
        ("Done. Next", []),
    ],
)
def test_file_names_are_found(message: str, names: list[str]) -> None:
    assert find_file_names(message) == names


def test_quotations_are_those_of_all_kinds_but_for_file_names() -> None:
    assert find_quotations('"one" “two” «three» `four` \'five\' "six.txt" it\'s') == [
        "one",
        "two",
        "three",
        "four",
        "five",
    ]


def test_the_form_of_a_message_has_no_names_and_no_quotations() -> None:
    assert normalize_form('Save  "buy milk" to\nshop/list.txt or "b.txt"') == "Save TEXT to FILE or FILE"


@pytest.mark.parametrize(
    ("message", "held"),
    [
        ('save "a\nb" to x.txt', ["a\nb"]),
        ('make x.json with {"a": {"b": 1}}', ['{"a": {"b": 1}}']),
        ("save this as x.txt:\none\n two", ["one\n two"]),
        ("run\n```python\nprint(1)\n```", ["print(1)"]),
        ("a \ue000 b", []),
    ],
)
def test_given_text_is_held_as_it_is(message: str, held: list[str]) -> None:
    hidden, found = extract_quotations(message)
    assert found == held
    assert restore_quotations(hidden, ["X"] * len(held)).count("X") == len(held)


def test_questions_are_told_from_wishes() -> None:
    assert is_question("who is it")
    assert is_question("rain today?")
    assert not is_question("make it so")


@pytest.mark.parametrize(
    ("message", "items"),
    [
        ("plan: 1. wake up 2. get up", ["wake up", "get up"]),
        ("a plan: wake up, get up and go, then sleep", ["wake up", "get up and go", "sleep"]),
        ("a plan for: tea", []),
        ("a plan", []),
    ],
)
def test_listed_items(message: str, items: list[str]) -> None:
    assert find_list_items(message) == items


@given(st.text(max_size=200))
def test_any_message_can_be_read(message: str) -> None:
    for read in (find_file_names, find_quotations, normalize_form, find_list_items, extract_quotations):
        read(message)


def test_long_messages_are_cut() -> None:
    assert len(extract_quotations("x " * MAX_MESSAGE_CHARS)[0]) <= MAX_MESSAGE_CHARS
