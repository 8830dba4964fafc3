"""Decisions: accepted forms, refused forms, and the text of a refusal."""

import json

import msgspec
import pytest

from timeloom.core.codes import CODES
from timeloom.core.stream.decision import (
    MAX_DECISION_CHARS,
    SHAPE,
    CallToolDecision,
    CompleteDecision,
    Decision,
    DecisionError,
    ExitDecision,
    parse_decision,
)


def refusal(text: str) -> str:
    with pytest.raises(DecisionError) as caught:
        parse_decision(text)
    assert caught.value.code == "protocol_violation.decision_malformed"
    assert caught.value.code in CODES
    assert str(caught.value).endswith(SHAPE)
    return str(caught.value).removesuffix(SHAPE)


def test_a_tool_call_keeps_its_params_as_they_were_written() -> None:
    call = '{"tool_id": "web.search", "params": {"q" : "a",  "n": 1.50}}'
    text = f'{{"action": "call_tool", "notes": "look", "tool_call": {call}}}'
    assert parse_decision(text) == CallToolDecision("web.search", '{"q" : "a",  "n": 1.50}', "look")


def test_params_may_be_missing_or_null() -> None:
    for call in ('{"tool_id": "a"}', '{"tool_id": "a", "params": null}', '{"tool_id": "a", "params": {}}'):
        assert parse_decision(f'{{"action": "call_tool", "tool_call": {call}}}') == CallToolDecision("a", "{}")


def test_a_call_may_stand_alone_where_that_is_taught() -> None:
    text = '{"tool_id": "a.b", "params": {"x":  1}, "notes": "now", "more": 1}'
    assert parse_decision(text, compact=True) == CallToolDecision("a.b", '{"x":  1}', "now", ("more",))
    assert parse_decision('{"tool_id": "a.b"}', compact=True) == CallToolDecision("a.b", "{}")
    for other in (text, '{"tool_id": "a.b", "action": "act"}', '{"tool_id": "a.b", "tool_call": {}}'):
        with pytest.raises(DecisionError):
            parse_decision(other, compact=other is not text)
    with pytest.raises(DecisionError, match="tool_id"):
        parse_decision('{"tool_id": " "}', compact=True)


def test_a_completion_has_an_answer_and_followups() -> None:
    text = '{"action": "complete", "final_answer": "42", "suggested_followups": ["why?", " "]}'
    assert parse_decision(text) == CompleteDecision("42", ("why?",))


def test_an_exit_needs_no_answer() -> None:
    assert parse_decision('{"action": "exit"}') == ExitDecision()
    assert parse_decision('{"action": "exit", "final_answer": "no", "notes": "n"}') == ExitDecision("no", notes="n")


def test_the_empty_values_of_the_shape_say_nothing() -> None:
    shape: dict[str, object] = json.loads(SHAPE)
    assert parse_decision(json.dumps({**shape, "action": "exit"})) == ExitDecision()
    assert parse_decision(json.dumps({**shape, "action": "complete", "final_answer": "x"})) == CompleteDecision("x")
    call: dict[str, object] = {**shape, "action": "call_tool", "tool_call": {"tool_id": "a", "params": {}}}
    assert parse_decision(json.dumps(call)) == CallToolDecision("a", "{}")


def test_null_is_as_good_as_missing() -> None:
    text = '{"action": "exit", "notes": null, "tool_call": null, "final_answer": null, "suggested_followups": null}'
    assert parse_decision(text) == ExitDecision()


def test_fields_without_meaning_are_ignored_and_named() -> None:
    call = '{"action": "call_tool", "why": 1, "final_answer": "x", "tool_call": {"tool_id": "a", "id": 3}}'
    assert parse_decision(call).ignored == ("why", "final_answer", "tool_call.id")
    done = '{"action": "complete", "final_answer": "x", "tool_call": {"tool_id": "a", "params": {}}}'
    assert parse_decision(done).ignored == ("tool_call",)


def test_the_names_of_ignored_fields_are_few_and_short() -> None:
    fields = {f"{number:03}" + "x" * 100: 1 for number in range(100)}
    ignored = parse_decision(json.dumps({"action": "exit", **fields})).ignored
    assert len(ignored) == 20
    assert max(map(len, ignored)) == 60


@pytest.mark.parametrize(
    "text",
    [
        ' \n{"action": "exit"}\n ',
        '```json\n{"action": "exit"}\n```',
        '```JSON\n{"action": "exit"}\n```\n',
        '```\n{"action": "exit"}```',
        '```json {"action": "exit"}',
    ],
)
def test_white_space_and_a_fence_around_the_object_are_tolerated(text: str) -> None:
    assert parse_decision(text) == ExitDecision()


def test_surrogate_escapes_are_joined_and_lone_ones_replaced() -> None:
    text = r'{"action": "complete", "final_answer": "\ud83d\ude00 \ud83d \ude00 \\ud83d \ud83d\ud83d\uDE00"}'
    assert parse_decision(text) == CompleteDecision("😀 \ufffd \ufffd \\ud83d \ufffd😀")


def test_raw_surrogates_are_joined_and_lone_ones_replaced() -> None:
    text = '{"action": "complete", "final_answer": "\ud83d\ude00 \ud83d"}'
    assert parse_decision(text) == CompleteDecision("😀 \ufffd")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("I will search", "no JSON object in it, it begins 'I will search'"),
        ('[{"action": "exit"}]', "text stands before the JSON object"),
        ('Sure: {"action": "exit"}', "text stands before the JSON object, it begins 'Sure: "),
        ('{"action": "exit"', "line 1, column 18, the text ends before the object is closed"),
        ('{"action": "exit', "the text ends before the object is closed"),
        ('{"action": "exit"} {"action": "exit"}', "column 19, more text follows the object; one channel holds one"),
        ('{"action": "exit"}\n```', "more text follows"),
        ('{"action": "exit",\n "notes": "a\nb"}', r"line 2, column 13, a string cannot contain a raw '\n'"),
        (r'{"action": "exit", "notes": "\x"}', "column 30, the string has the malformed escape"),
        (r'{"action": "exit", "notes": "\u12g4"}', "column 30, the string has the malformed escape"),
        ('{"action": "exit", "action": "complete"}', "the key 'action' stands twice"),
        ('{"action": "exit", "\\u0061ction": "complete"}', "the key 'action' stands twice"),
        (
            '{"action": "exit", "tool_call": {"params": {"content": "", "content": ""}}}',
            "the key 'content' stands twice",
        ),
        ('{"action": "exit", "a": {"b": 1, "b": 2}}', "column 36, the key 'b' stands twice in one object"),
        ('{"action": "exit", "a": [[{"b": {}, "c": 1, "b": 2}]]}', "the key 'b' stands twice in one object"),
        ('{"action": "exit", "a": {"b": [], "\\u0062": []}}', "the key 'b' stands twice in one object"),
        (
            '{"action": "exit", "a": {"\\ud800": 1, "\\udc00": 2, "c": 3}}',
            "the key '\ufffd' stands twice in one object",
        ),
        ('{"action": "exit", "a": {"": 1, "": 2}}', "the key '' stands twice in one object"),
        (
            '{"action": "call_tool", "tool_call": {"tool_id": "x", "params": {"f": {"content": "A", "content": "B"}}}}',
            "the key 'content' stands twice in one object",
        ),
        ('{"action": "exit",}', "column 19, expected a key, got '}'"),
        ('{"action" "exit"}', "column 11, expected `:`, got '\"'"),
        ('{"action": "exit" "a": 1}', "expected `,` or `}`, got '\"'"),
        ('{"action": "exit", "a": [1 2]}', "expected `,` or `]`, got '2'"),
        ('{"action": "exit", "a": [1,]}', "expected a value, got ']'"),
        ('{"action": "exit", "a": NaN}', "column 25, expected a value, got 'N'"),
        ('{"action": "exit", "a": -Infinity}', "expected a value, got '-Infinity'"),
        ("{'action': 'exit'}", 'expected a key or `}`, got "\'"'),
        ('{"é": "é", "a": trve}', "line 1, column 17, expected a value, got 'trve'"),
        ('{"action": "exit", "a": 01}', "expected a value, got '01'"),
        ('{"action": "exit", "a": 1.}', "expected a value, got '1.'"),
        ('{"action": "exit", "a": 1e999}', "out of range"),
        ('{"action": "exit", "a": ' + "[" * 63 + "1" + "]" * 63 + "}", ""),
        ('{"action": "exit", "a": ' + "[" * 64 + "1" + "]" * 64 + "}", "nested deeper than 64"),
        ('{"action": "exit", "a": ' + "[" * 100_000, "nested deeper than 64"),
        ('{"notes": ""}', "`action` must be `call_tool`, `complete` or `exit`, it is missing or empty"),
        ('{"action": "call"}', "got 'call'"),
        ('{"action": 1}', "the field `action` has the wrong type: Expected `str | null`, got `int`"),
        ('{"action": "exit", "notes": ["a"]}', "the field `notes` has the wrong type"),
        ('{"action": "complete"}', "`final_answer` is empty"),
        ('{"action": "complete", "final_answer": " \\n"}', "`final_answer` is empty"),
        ('{"action": "complete", "final_answer": {}}', "the field `final_answer` has the wrong type"),
        ('{"action": "complete", "final_answer": "x", "suggested_followups": [1]}', "`suggested_followups`"),
        ('{"action": "call_tool"}', "`tool_call` is missing or empty"),
        ('{"action": "call_tool", "tool_call": {}}', "`tool_call` is missing or empty"),
        ('{"action": "call_tool", "tool_call": []}', "the field `tool_call` has the wrong type"),
        ('{"action": "call_tool", "tool_call": {"params": {}}}', "`tool_call.tool_id` is missing or empty"),
        ('{"action": "call_tool", "tool_call": {"tool_id": " "}}', "`tool_call.tool_id` is missing or empty"),
        ('{"action": "call_tool", "tool_call": {"tool_id": 1}}', "the field `tool_call.tool_id` has the wrong type"),
        (
            '{"action": "call_tool", "tool_call": {"tool_id": "a", "params": []}}',
            "`tool_call.params` has the wrong type",
        ),
    ],
)
def test_a_refusal_says_what_is_wrong_and_where(text: str, says: str) -> None:
    if says:
        assert says in refusal(text)
    else:
        assert parse_decision(text)


def test_a_decision_longer_than_the_cap_is_refused() -> None:
    assert "more than 4000000" in refusal(" " * (MAX_DECISION_CHARS + 1))


def test_a_decision_round_trips_as_json() -> None:
    decisions: list[Decision] = [CallToolDecision("a", "{}"), CompleteDecision("x", ("y",)), ExitDecision()]
    assert msgspec.json.decode(msgspec.json.encode(decisions), type=list[Decision]) == decisions
