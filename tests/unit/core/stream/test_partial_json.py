"""The complete fields of a JSON value that is still being written."""

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.stream.partial_json import PartialJson, partial_json

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), values, max_size=4))
def test_every_prefix_of_an_object_has_its_first_fields_and_no_incomplete_one(value: dict[str, object]) -> None:
    text, reader, seen = json.dumps(value), PartialJson(), 0
    for end in range(1, len(text) + 1):
        found = cast(dict[str, object], reader.feed(text[end - 1]))
        assert found == partial_json(text[:end])
        assert list(found.items()) == list(value.items())[: len(found)]
        assert len(found) >= seen
        seen = len(found)
    assert partial_json(text) == value


@given(st.lists(values, max_size=4))
def test_every_prefix_of_a_list_has_its_first_items(value: list[object]) -> None:
    text = json.dumps(value)
    for end in range(1, len(text) + 1):
        found = cast(list[object], partial_json(text[:end]))
        assert found == value[: len(found)]
    assert partial_json(text) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("12", None),
        ("```json\n{", {}),
        ('{"a": 1', {}),
        ('{"a": 1,', {"a": 1}),
        ('{"a": "x"', {"a": "x"}),
        ('{"a": "x\\"', {}),
        ('{"a": {"b": 1}', {"a": {"b": 1}}),
        ('{"a": 1} and more {"b": 2}', {"a": 1}),
        ('{"a": 1, b: 2, "c": 3,', None),
    ],
)
def test_a_field_counts_once_its_value_has_ended(text: str, expected: object) -> None:
    assert partial_json(text) == expected
