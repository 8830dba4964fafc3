"""Output formats made from Python types and from JSON schemas."""

import dataclasses
from typing import TypedDict

import msgspec
import pytest

from timeloom.core.policy.answer.check import check_answer
from timeloom.core.policy.answer.schema import OutputSchemaError
from timeloom.tools.output_format import OutputFormat


class Node(msgspec.Struct):
    name: str
    inner: "list[Node]" = []


@dataclasses.dataclass
class Point:
    x: int


class Row(TypedDict):
    x: int


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Node, '{"name":"a","inner":[{"name":"b"}]}', '{"name":"a","inner":[{}]}'),
        (Point, '{"x":1}', '{"x":"1"}'),
        (list[Row], '[{"x":1}]', '[{"y":1}]'),
        (dict[str, int], '{"a":1}', '{"a":"b"}'),
    ],
)
def test_a_type_has_a_schema_that_its_values_fit(kind: object, good: str, bad: str) -> None:
    schema = OutputFormat.from_type(kind).schema
    assert check_answer(good, schema).json == good
    assert check_answer(bad, schema).problem


def test_a_model_class_gives_its_own_schema() -> None:
    class Model:
        @staticmethod
        def model_json_schema() -> dict[str, object]:
            return {"type": "string"}

    assert OutputFormat.from_type(Model).schema == '{"type":"string"}'


def test_a_schema_of_a_client_has_a_description_and_no_pattern() -> None:
    form = OutputFormat.from_schema({"properties": {"pattern": {"type": "string"}}}, "A fare.")
    assert '"description":"A fare."' in form.schema
    with pytest.raises(OutputSchemaError, match="pattern"):
        OutputFormat.from_schema({"anyOf": [{"pattern": "a"}]})


@pytest.mark.parametrize("kind", [complex, lambda: None])
def test_a_type_without_a_json_form_is_refused(kind: object) -> None:
    with pytest.raises(OutputSchemaError):
        OutputFormat.from_type(kind)
    with pytest.raises(OutputSchemaError, match="must be JSON"):
        OutputFormat.from_schema({"default": kind})
