"""The local model's rules that extract values from a message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom_local.calls import build_search_params, find_list_items
from timeloom_local.edits import (
    Edit,
    LineInsertion,
    LineRemoval,
    TextReplacement,
    ValueChange,
    apply_edit,
    describe_edit,
    parse_edit,
)
from timeloom_local.text_rules import (
    find_file_names,
    find_literal_content,
    find_quotations,
    find_subject,
    is_question,
    make_file_stem,
    normalize_form,
    split_clauses,
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
    ("message", "parts"),
    [
        ("write a.txt, then show a.txt", ["write a.txt", "show a.txt"]),
        ('write "x, then y" to a.txt and then show it', ['write "x, then y" to a.txt', "show it"]),
        ("Write a.txt. Show a.txt. Delete line 1 of a.txt", ["Write a.txt", "Show a.txt", "Delete line 1 of a.txt"]),
        ("more then ever", ["more", "ever"]),
        ("what is that?", ["what is that?"]),
    ],
)
def test_a_message_is_cut_where_it_says_what_comes_next(message: str, parts: list[str]) -> None:
    assert split_clauses(message) == parts


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ('save "a" and "b" to x.txt', "a\nb"),
        ('make x.json containing {"a": 1}', '{"a": 1}'),
        ("create x.csv with the line a,b", "a,b"),
        ("create x.md: all is well", "all is well"),
        ("note this: all is well. The file should be x.md", "all is well."),
        ("write a poem to x.md", None),
    ],
)
def test_what_is_to_be_written_word_for_word(message: str, content: str | None) -> None:
    assert find_literal_content(message) == content


@pytest.mark.parametrize(
    ("message", "about"),
    [
        ("Please write a poem about rain and save it in rain.md", "write a poem about rain"),
        ("could you create a file called tips.md with three tips", "Write a text with three tips"),
        ("notes.txt", "notes.txt"),
    ],
)
def test_what_a_text_is_about(message: str, about: str) -> None:
    assert find_subject(message) == about


def test_a_file_without_a_name_gets_one_from_its_subject() -> None:
    assert make_file_stem("Write a file about the history of tea") == "history-tea"
    assert make_file_stem("!!!") == "text"


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


@pytest.mark.parametrize(
    ("message", "params"),
    [
        ('find "a+b" in the files', {"pattern": "a\\+b", "ignore_case": True}),
        ("which files mention tea?", {"pattern": "tea", "ignore_case": True}),
        ("where is the rent mentioned?", {"pattern": "rent", "ignore_case": True}),
        ("grep ferry", {"pattern": "ferry", "ignore_case": True}),
        ("list the python files", {"name": "\\.py$"}),
        ("files ending in .md", {"name": "\\.md$"}),
        ("find the file named a.txt", {"name": "a\\.txt"}),
        ("what files are there?", {"name": "."}),
    ],
)
def test_what_is_searched_for(message: str, params: dict[str, object]) -> None:
    assert build_search_params(message) == params


TEXT = "# List\nmilk: 2\ntea\nTea again\n"


@pytest.mark.parametrize(
    ("message", "edit", "after"),
    [
        (
            'replace "milk" with "oat milk" in a.md',
            TextReplacement("milk", "oat milk"),
            "# List\noat milk: 2\ntea\nTea again\n",
        ),
        ("change milk to water in a.md", TextReplacement("milk", "water"), "# List\nwater: 2\ntea\nTea again\n"),
        ('in a.md say "rum" instead of "tea"', TextReplacement("tea", "rum"), "# List\nmilk: 2\nrum\nTea again\n"),
        ("change the milk in a.md from 2 to 3", TextReplacement("2", "3"), "# List\nmilk: 3\ntea\nTea again\n"),
        ("set milk to 5 in a.md", ValueChange("milk", "5"), "# List\nmilk: 5\ntea\nTea again\n"),
        ('set the title to "Shop" in a.md', ValueChange("title", "Shop"), "# Shop\nmilk: 2\ntea\nTea again\n"),
        ('append "rice" to a.md', LineInsertion("rice"), TEXT + "rice\n"),
        ('add the line "# Top" at the top of a.md', LineInsertion("# Top", top=True), "# Top\n" + TEXT),
        ("delete the last line of a.md", LineRemoval(place=-1), "# List\nmilk: 2\ntea\n"),
        ("remove line 2 from a.md", LineRemoval(place=2), "# List\ntea\nTea again\n"),
        ("remove the lines about tea from a.md", LineRemoval(words="tea"), "# List\nmilk: 2\n"),
        ('remove ": 2" from a.md', TextReplacement(": 2", ""), "# List\nmilk\ntea\nTea again\n"),
        ("replace MILK with rum in a.md", TextReplacement("MILK", "rum"), "# List\nrum: 2\ntea\nTea again\n"),
        ("replace rum with gin in a.md", TextReplacement("rum", "gin"), None),
    ],
)
def test_edits_are_read_and_carried_out(message: str, edit: Edit, after: str | None) -> None:
    assert parse_edit(message) == edit
    assert apply_edit(TEXT, edit) == after
    assert describe_edit(edit)


def test_a_value_in_json_keeps_its_quotes() -> None:
    assert apply_edit('{"host": "a", "port": 1}', ValueChange("host", "b")) == '{"host": "b", "port": 1}'


@pytest.mark.parametrize("message", ["make a.md nicer", "", "hello"])
def test_what_is_no_edit_is_none(message: str) -> None:
    assert parse_edit(message) is None


@given(st.text(max_size=200))
def test_any_message_can_be_read(message: str) -> None:
    for read in (
        find_file_names,
        find_quotations,
        normalize_form,
        split_clauses,
        find_literal_content,
        find_subject,
        make_file_stem,
        find_list_items,
        build_search_params,
    ):
        read(message)
    edit = parse_edit(message)
    if edit is not None:
        apply_edit(message, edit)
        describe_edit(edit)
