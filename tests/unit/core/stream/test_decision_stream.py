"""Strings streamed while their JSON is incomplete equal those of a complete parse."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.stream.decision import (
    MAX_DECISION_CHARS,
    CallToolDecision,
    CompleteDecision,
    DecisionError,
    DecisionStream,
    parse_decision,
)
from timeloom.core.stream.json_fields import MAX_DEPTH, FieldDelta, FieldEnd, FieldEvent, FieldScanner
from timeloom.core.stream.surrogates import replace_lone_surrogates

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None

TEXT = st.text(st.characters(codec=None) | st.sampled_from('\\"/\n\tu{}\ud83d\ude00😀é'), max_size=12)


def objects(values: st.SearchStrategy[Json], max_size: int) -> st.SearchStrategy[dict[str, Json]]:
    """Objects whose keys stay apart when lone surrogates in them are replaced."""
    members = st.tuples(TEXT, values)
    return st.lists(members, max_size=max_size, unique_by=lambda member: replace_lone_surrogates(member[0])).map(
        dict[str, Json]
    )


VALUE: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | objects(inner, 3),
    max_leaves=6,
)
PARAMS = objects(VALUE, 2) | st.fixed_dictionaries({"x": VALUE, "content": VALUE | TEXT})
CALL = st.fixed_dictionaries({"tool_id": TEXT}, optional={"params": PARAMS | VALUE, "content": TEXT})
DOCUMENT = st.fixed_dictionaries(
    {},
    optional={
        "action": st.sampled_from(["call_tool", "complete", "exit", "other"]),
        "notes": TEXT | VALUE,
        "other": VALUE,
        "tool_call": CALL | VALUE,
        "final_answer": TEXT | VALUE,
        "suggested_followups": st.lists(TEXT, max_size=2),
    },
)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=5)


@st.composite
def written(draw: st.DrawFn) -> tuple[dict[str, Json], str]:
    """A document and one of the ways to write it."""
    document = draw(DOCUMENT)
    text = json.dumps(
        document,
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 0, 2, "\t", "\r"])),
        separators=(draw(st.sampled_from([",", " ,\n", ", "])), draw(st.sampled_from([":", " :\t", ": "]))),
    )
    return json.loads(replace_lone_surrogates(text)), text


def pieces(text: str, sizes: Sequence[int]) -> list[str]:
    cut: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(cut) % len(sizes)]
        cut.append(text[at : at + size])
        at += size
    return cut


def streamed(events: list[FieldEvent]) -> list[tuple[str, str]]:
    """Path and text of every field that came to its end."""
    fields: list[tuple[str, str]] = []
    text = ""
    for event in events:
        if isinstance(event, FieldDelta):
            assert event.text
            text += event.text
        else:
            fields.append((event.path, text))
            text = ""
    return fields


def strings_at(document: dict[str, Json]) -> list[tuple[str, str]]:
    """The same from the whole document, in the order of its keys."""
    found: list[tuple[str, str]] = []
    for key, value in document.items():
        if key in ("final_answer", "notes") and isinstance(value, str):
            found.append((key, replace_lone_surrogates(value)))
        if key == "tool_call" and isinstance(value, dict):
            params = value.get("params")
            if isinstance(params, dict) and isinstance(content := params.get("content"), str):
                found.append(("tool_call.params.content", replace_lone_surrogates(content)))
    return found


@given(written(), SIZES)
def test_the_streamed_strings_are_those_of_the_whole_document(
    doc: tuple[dict[str, Json], str], sizes: list[int]
) -> None:
    document, text = doc
    for cut in ([text], list(text), pieces(text, sizes)):
        stream = DecisionStream()
        assert streamed([event for piece in cut for event in stream.feed(piece)]) == strings_at(document)


@given(TEXT, TEXT, VALUE, SIZES, st.sampled_from(["", "\n", "```json\n", "``` ", "```JSON"]))
def test_the_streamed_fields_are_those_of_the_parsed_decision(
    notes: str, answer: str, other: Json, sizes: list[int], opening: str
) -> None:
    document = {"other": other, "notes": notes, "action": "complete", "final_answer": f"{answer}."}
    text = opening + json.dumps(document) + "\n```" * bool(opening.strip())
    stream = DecisionStream()
    fields = dict(streamed([event for piece in pieces(text, sizes) for event in stream.feed(piece)]))
    assert parse_decision(text) == CompleteDecision(fields["final_answer"], notes=fields["notes"], ignored=("other",))


@given(PARAMS, SIZES)
def test_the_streamed_content_is_that_of_the_parsed_params(params: dict[str, Json], sizes: list[int]) -> None:
    text = json.dumps({"action": "call_tool", "tool_call": {"params": params, "tool_id": "react.write"}})
    stream = DecisionStream()
    fields = streamed([event for piece in pieces(text, sizes) for event in stream.feed(piece)])
    decision = parse_decision(text)
    assert isinstance(decision, CallToolDecision)
    assert fields == strings_at({"tool_call": {"params": json.loads(decision.params)}})


@given(written(), st.data())
def test_the_scanner_accepts_exactly_what_a_json_parser_does(
    doc: tuple[dict[str, Json], str], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(doc[1])))
    length = data.draw(st.integers(0, 2))
    spoiled = doc[1][:at] + data.draw(
        st.sampled_from(["", '"', "\\", "{", "}", "[", "]", ",", ":", "\n", "1", "-", "."])
    )
    spoiled = replace_lone_surrogates(spoiled + doc[1][at + length :])
    scanner = FieldScanner(())
    scanner.feed(spoiled)
    assert (scanner.end is not None and not spoiled[scanner.end :].strip()) == is_json_object(spoiled)
    assert scanner.problem is None or scanner.end is None


def is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, object_pairs_hook=without_repetition), dict)
    except ValueError:
        return False


def without_repetition(members: list[tuple[str, Json]]) -> dict[str, Json]:
    found = {replace_lone_surrogates(key): value for key, value in members}
    if len(found) < len(members):
        raise ValueError
    return found


KEYS = st.sampled_from(["a", "b", "\\u0061", "c\\n", "\\ud800"])
LEAVES = st.sampled_from(["1", '"x"', "null", "[]", "{}", '"\\\\"', "1.5e3"])


def member_texts(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.builds('"{}"{}:{}'.format, KEYS, st.sampled_from(["", " "]), values), max_size=5).map(",".join)


NESTED = st.recursive(
    LEAVES,
    lambda inner: (
        member_texts(inner).map("{{{}}}".format) | st.lists(inner, max_size=3).map(",".join).map("[{}]".format)
    ),
    max_leaves=12,
)


@given(member_texts(NESTED), SIZES, st.sets(st.sampled_from(["a", "b", "a.a", "a.b", "b.a.a"])))
def test_a_key_that_stands_twice_is_refused_in_every_object_whatever_is_followed(
    members: str, sizes: list[int], fields: set[str]
) -> None:
    text = f"{{{members}}}"
    for cut in ([text], list(text), pieces(text, sizes)):
        scanner = FieldScanner(fields)
        for piece in cut:
            scanner.feed(piece)
        assert (scanner.problem is None) == is_json_object(text)
        whole = FieldScanner(())
        whole.feed(text)
        assert scanner.problem == whole.problem


@pytest.mark.parametrize(
    ("text", "fields", "first"),
    [
        (
            '{"action":"call_tool","tool_call":{"tool_id":"x","params":{"file":{"content":"A","content":"B"}}}}',
            ["tool_call.params.file.content"],
            [("tool_call.params.file.content", "A")],
        ),
        (
            '{"meta":{"a":"1","a":"2"},"action":"complete","final_answer":"x"}',
            ["meta.a", "final_answer"],
            [("meta.a", "1")],
        ),
        ('{"meta":{"a":"1","a":"2"},"action":"complete","final_answer":"x"}', ["final_answer"], []),
    ],
)
def test_a_stream_ends_where_the_decision_is_refused(
    text: str, fields: list[str], first: list[tuple[str, str]]
) -> None:
    assert streamed(DecisionStream(fields).feed(text)) == first
    with pytest.raises(DecisionError, match="stands twice"):
        parse_decision(text)


def test_a_stream_ends_where_a_decision_is_too_long() -> None:
    head = '{"notes": "'
    for sizes in ([MAX_DECISION_CHARS + 9], [700_000], [MAX_DECISION_CHARS - 1, 1]):
        stream = DecisionStream()
        text = head + "x" * MAX_DECISION_CHARS
        deltas = [event for piece in pieces(text, sizes) for event in stream.feed(piece)]
        assert sum(len(event.text) for event in deltas if isinstance(event, FieldDelta)) == MAX_DECISION_CHARS - len(
            head
        )


@given(written(), st.data(), SIZES)
def test_events_and_problems_do_not_depend_on_the_cuts(
    doc: tuple[dict[str, Json], str], data: st.DataObject, sizes: list[int]
) -> None:
    at = data.draw(st.integers(0, len(doc[1])))
    text = replace_lone_surrogates(
        doc[1][:at] + data.draw(st.sampled_from(["", '"', "\\", "\\u", "{", "}", "\n"])) + doc[1][at:]
    )
    outcomes = [outcome([text]), outcome(list(text)), outcome(pieces(text, sizes))]
    assert outcomes[0] == outcomes[1] == outcomes[2]


def outcome(cut: list[str]) -> tuple[object, ...]:
    scanner = FieldScanner(("final_answer", "notes", "tool_call.params.content"))
    fields = streamed([event for piece in cut for event in scanner.feed(piece)])
    return fields, scanner.problem and scanner.problem.at, scanner.end


def test_a_string_comes_out_while_it_is_being_written() -> None:
    stream = DecisionStream()
    assert stream.feed('{"final_answer": "Hel') == [FieldDelta("final_answer", "Hel")]
    assert stream.feed("lo\\") == [FieldDelta("final_answer", "lo")]
    assert stream.feed("nyou") == [FieldDelta("final_answer", "\nyou")]
    assert stream.feed('"') == [FieldEnd("final_answer")]


def test_a_surrogate_pair_waits_for_its_other_half() -> None:
    stream = DecisionStream()
    stream.feed('{"notes": "')
    assert stream.feed("\\ud83d") == []
    assert stream.feed("\\ude0") == []
    assert stream.feed("0") == [FieldDelta("notes", "😀")]
    assert stream.feed("\\ud83d\\ud83d") == [FieldDelta("notes", "\ufffd")]
    assert stream.feed("x") == [FieldDelta("notes", "\ufffdx")]


@pytest.mark.parametrize("after", ["x", "\\n", "\\u0041", "\\\\", '\\"', "\\ud83d\\ude00", "é"])
def test_a_lone_first_half_is_replaced_whatever_follows(after: str) -> None:
    text = f'{{"notes": "\\ud83d{after}"}}'
    for cut in ([text], list(text)):
        stream = DecisionStream()
        fields = streamed([event for piece in cut for event in stream.feed(piece)])
        assert fields == [("notes", "\ufffd" + json.loads(f'"{after}"'))]


def test_an_empty_string_has_an_end() -> None:
    assert DecisionStream().feed('{"notes": ""}') == [FieldEnd("notes")]


def test_a_key_may_be_written_with_escapes() -> None:
    assert streamed(DecisionStream().feed(r'{"\u006eotes": "x"}')) == [("notes", "x")]


def test_the_same_key_elsewhere_is_not_followed() -> None:
    text = '{"a": {"notes": "1"}, "b": [{"notes": "2"}], "tool_call": [{"params": {"content": "3"}}], "content": "4"}'
    assert DecisionStream().feed(text) == []


def test_a_path_and_a_path_through_it_can_both_be_followed() -> None:
    assert streamed(FieldScanner(["a", "a.b"]).feed('{"a": "x"}')) == [("a", "x")]
    assert streamed(FieldScanner(["a", "a.b"]).feed('{"a": {"b": "y"}}')) == [("a.b", "y")]


@pytest.mark.parametrize("second", ['"d"', '"\\u0064"'])
def test_a_key_that_stands_twice_is_reported_where_it_ends(second: str) -> None:
    text = '{"a": {"b": "x", "d": 1, "c": 1, ' + second + ': 2, "e": 1, "e": 1, '
    for fields in (["a.b"], []):
        for cut in ([text], list(text)):
            scanner = FieldScanner(fields)
            for piece in cut:
                scanner.feed(piece)
            assert scanner.problem is not None
            assert scanner.problem.at == text.rindex(second) + len(second) - 1


def test_the_same_key_may_stand_in_different_objects() -> None:
    scanner = FieldScanner(["a.a"])
    scanner.feed('{"a": {"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}, {"a": 1, "b": 2, "c": 3}]}}')
    assert scanner.problem is None
    assert scanner.end is not None


def test_nothing_comes_after_a_problem_or_after_the_end() -> None:
    stream = DecisionStream()
    assert stream.feed('{"notes": "a\x00b"') == [FieldDelta("notes", "a")]
    assert stream.feed(', "final_answer": "x"}') == []
    stream = DecisionStream()
    stream.feed("{}")
    assert stream.feed('{"notes": "a"}') == []


@pytest.mark.parametrize("opening", ["Sure: ", "``", "````", "```python\n", "[", "json", "\x00", "```json```json"])
def test_nothing_comes_when_other_text_stands_before_the_object(opening: str) -> None:
    for cut in ([opening + '{"notes": "a"}'], [opening, '{"notes": "a"}'], list(opening + '{"notes": "a"}')):
        stream = DecisionStream()
        assert [event for piece in [*cut, "`", '{"notes": "a"}'] for event in stream.feed(piece)] == []


def test_a_refused_opening_stays_refused() -> None:
    stream = DecisionStream()
    assert stream.feed("``{") == []
    assert stream.feed('`{"notes": "a"}') == []


def test_nesting_is_bounded() -> None:
    scanner = FieldScanner(())
    scanner.feed('{"a":' * MAX_DEPTH)
    assert scanner.problem is None
    scanner.feed("[")
    assert scanner.problem is not None


def test_hostile_megabytes_are_read_in_one_pass() -> None:
    for unit in ("\\\\", '\\"', "\\ud83d", "\\u0000", "x", "\\ud83d\\ude00", "é"):
        scanner = FieldScanner(["notes"])
        text = '{"notes": "' + unit * (200_000 // len(unit))
        events = [event for at in range(0, len(text), 4096) for event in scanner.feed(text[at : at + 4096])]
        assert scanner.problem is None
        assert all(isinstance(event, FieldDelta) for event in events)
    members = "".join(f'"{number}": {number}, ' for number in range(20_000))
    for text in ('{"a": {' + members, "{" + members):
        scanner = FieldScanner(["notes"])
        for at in range(0, len(text), 4096):
            scanner.feed(text[at : at + 4096])
        assert scanner.problem is None
    for unit in ("[", "{", "1", " ", '"a",', "1,"):
        scanner = FieldScanner(["notes"])
        scanner.feed('{"a": [')
        scanner.feed(unit * (200_000 // len(unit)))
        assert scanner.end is None


def test_a_string_that_goes_on_can_be_passed_by() -> None:
    scanner = FieldScanner(["a"])
    assert scanner.current is None
    assert scanner.feed('{"a": "x') == [FieldDelta("a", "x")]
    assert scanner.current == "a"
    scanner.record_skipped(len("y\\n"))
    assert scanner.feed("z") == [FieldDelta("a", "z")]
    assert scanner.feed("\\u00") == []
    assert scanner.current is None
    assert scanner.feed('e9"}') == [FieldDelta("a", "é"), FieldEnd("a")]
    assert (scanner.current, scanner.end) == (None, len('{"a": "xy\\nz\\u00e9"}'))


def test_what_was_passed_by_counts_for_where_a_problem_is() -> None:
    scanner = FieldScanner(["a"])
    scanner.feed('{"a": "x')
    scanner.record_skipped(100)
    scanner.feed("\n")
    assert scanner.problem
    assert (scanner.current, scanner.problem.at) == (None, len('{"a": "x') + 100)


def test_what_was_passed_by_counts_for_the_length_of_a_decision() -> None:
    stream = DecisionStream()
    stream.feed('{"notes": "x')
    assert stream.current == "notes"
    stream.record_skipped(stream.remaining_chars - 2)
    assert stream.feed("abc") == [FieldDelta("notes", "ab")]
    assert stream.remaining_chars == 0


def test_a_key_does_not_go_on_as_a_value_and_a_string_off_every_path_does() -> None:
    scanner = FieldScanner(["a"])
    scanner.feed('{"b')
    assert scanner.current is None
    scanner.feed('": "x')
    assert scanner.current == ""


def test_a_string_whose_last_character_is_half_does_not_go_on() -> None:
    scanner = FieldScanner(["a"])
    scanner.feed('{"a": "x\ud83d')
    assert scanner.current is None
