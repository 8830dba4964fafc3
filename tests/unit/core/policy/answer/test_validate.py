"""Values against the schema of an answer."""

import pytest

from timeloom.core.policy.answer.schema import AnswerSchema
from timeloom.core.policy.answer.validate import MAX_DEPTH, MAX_STEPS, find_mismatch

NODE: AnswerSchema = {
    "$ref": "#/$defs/Node",
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["n"]}},
}


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "object"}, [], "at `$` expected an object, received []"),
        ({"type": "array"}, {}, "expected a list"),
        ({"type": "string"}, 1, "expected a string, received 1"),
        ({"type": "integer"}, 1.5, "expected an integer"),
        ({"type": "integer"}, True, "expected an integer"),
        ({"type": "number"}, True, "expected a number"),
        ({"type": "boolean"}, 0, "expected true or false"),
        ({"type": ["string", "null"]}, 0, "expected a string or null"),
        ({"enum": ["a", 1]}, True, 'expected one of "a", 1, received true'),
        ({"const": "a"}, "b", 'expected "a", received "b"'),
        ({"minimum": 2}, 1, "expected a number of at least 2"),
        ({"maximum": 2}, 3, "expected a number of at most 2"),
        ({"exclusiveMinimum": 2}, 2, "expected a number above 2"),
        ({"exclusiveMaximum": 2}, 2, "expected a number below 2"),
        ({"multipleOf": 2}, 3, "expected a multiple of 2"),
        ({"multipleOf": 0.1}, 10**400, "expected a multiple of 0.1"),
        ({"minLength": 2}, "a", "expected at least 2 characters"),
        ({"maxLength": 2}, "abc", "expected at most 2 characters"),
        ({"pattern": "^a$"}, "b", 'expected a string of the pattern "^a$"'),
        ({"format": "date"}, "tomorrow", "expected a string of the format date"),
        ({"format": "uuid"}, "1", "expected a string of the format uuid"),
        ({"format": "decimal"}, "one", "expected a string of the format decimal"),
        ({"contentEncoding": "base64"}, "*", "expected a string in base64"),
        ({"minItems": 1}, [], "expected at least 1 items"),
        ({"maxItems": 1}, [1, 2], "expected at most 1 items"),
        ({"uniqueItems": True}, [1, 1], "expected different items"),
        ({"minProperties": 1}, {}, "expected at least 1 fields"),
        ({"maxProperties": 0}, {"a": 1}, "expected at most 0 fields"),
        ({"required": ["a"]}, {}, "at `$.a` expected this field, received nothing"),
        ({"properties": {"a": {"type": "null"}}}, {"a": 1}, "at `$.a` expected null, received 1"),
        ({"additionalProperties": False}, {"a": 1}, "at `$.a` expected no fields"),
        ({"properties": {"b": {}}, "additionalProperties": False}, {"a": 1}, "expected only the fields `b`"),
        ({"additionalProperties": {"type": "string"}}, {"a": 1}, "at `$.a` expected a string"),
        ({"items": {"type": "string"}}, ["a", 1], "at `$[1]` expected a string"),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a", 1], "at `$[1]` expected no value here"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "at `$` expected a string or null"),
        ({"anyOf": [{"type": "null"}, {"items": {"type": "null"}}]}, [1], "at `$[0]` expected null"),
        ({"oneOf": [{}, {"type": "null"}]}, None, "expected a value that fits only one of the alternatives"),
        ({"allOf": [{}, {"type": "null"}]}, 1, "expected null"),
        (NODE, {"n": 1, "next": {}}, "at `$.next.n` expected this field"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, 1, "expected a smaller value"),
        ({"items": {}}, [0] * MAX_STEPS, "expected a smaller value"),
        ({"const": "a" * 200}, 1, "…"),
    ],
)
def test_a_mismatch_names_its_path_and_what_was_expected(schema: AnswerSchema, value: object, text: str) -> None:
    mismatch = find_mismatch(schema, value)
    assert mismatch is not None
    assert text in mismatch.text


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 1, "multipleOf": 0.5}, 1.0),
        ({"type": "number"}, 1),
        ({"type": ["boolean", "null"]}, None),
        ({"type": "boolean"}, True),
        ({"enum": ["a", 1], "const": 1}, 1),
        ({"pattern": "Y", "format": "any", "minLength": 1, "contentEncoding": "base64"}, "YWJj"),
        ({"format": "date-time"}, "2026-01-01T00:00:00Z"),
        ({"format": "uuid"}, "12345678-1234-5678-1234-567812345678"),
        ({"format": "decimal"}, "-1.5e3"),
        ({"uniqueItems": True, "items": True}, [{"a": 1}, {"a": 2}]),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, "a"),
        (NODE, {"n": 1, "next": {"n": 2}, "more": MAX_DEPTH}),
    ],
)
def test_a_fitting_value_has_no_mismatch(schema: AnswerSchema, value: object) -> None:
    assert find_mismatch(schema, value) is None
