"""The text of a final answer against the schema of its turn."""

import pytest

from timeloom.core.policy.answer.check import MAX_ANSWER_CHARS, CheckedAnswer, check_answer

FARE = '{"type":"object","properties":{"price":{"type":"number"}},"required":["price"]}'


@pytest.mark.parametrize(
    ("text", "json"),
    [
        ('{"price": 4.5}', '{"price": 4.5}'),
        (' \n{"price": 4.5}\n', '{"price": 4.5}'),
        ('```json\n{"price": 4.5}\n```', '{"price": 4.5}'),
        ("{'price': 4.5,}", '{"price":4.5}'),
    ],
)
def test_the_json_of_an_answer_has_one_reading(text: str, json: str) -> None:
    assert check_answer(text, FARE) == CheckedAnswer(json)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"price": "4"}', 'at `$.price` expected a number, received "4"'),
        ("It costs 4.5.", "it is not one JSON value"),
        ('{"price": 4', "it is not one JSON value"),
        ("{'price': 4} I hope this helps", "text follows the value"),
        ("[" * 5000, "it is not one JSON value"),
        ('"\ud800"', "it is not one JSON value"),
        ("['\\ud800']", "it is not one JSON value"),
        (" " * (MAX_ANSWER_CHARS + 1), "characters, and at most"),
    ],
)
def test_an_invalid_answer_says_what_is_wrong(text: str, problem: str) -> None:
    checked = check_answer(text, FARE)
    assert problem in checked.problem
    assert not checked.json
