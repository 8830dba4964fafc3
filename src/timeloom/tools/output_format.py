"""The form of a structured answer: a JSON schema, made from a Python type or given as such."""

from collections.abc import Iterator, Mapping
from typing import Final, Self, cast

import msgspec

from timeloom.core.policy.answer.schema import MAX_SCHEMA_DEPTH, OutputSchemaError, parse_schema
from timeloom.tools.schema import JsonSchema, value_schema


class OutputFormat(msgspec.Struct, frozen=True):
    """The JSON schema that an answer must fit, as compact JSON. A turn records it in `turn.header`."""

    schema: str

    @classmethod
    def from_type(cls, kind: object) -> Self:
        """Return the form of a Struct, dataclass, TypedDict, builtin generic or Pydantic model.

        Raises `OutputSchemaError` for a type whose values cannot be validated as JSON.
        """
        make_schema = getattr(kind, "model_json_schema", None)
        try:
            schema = cast(JsonSchema, make_schema()) if callable(make_schema) else value_schema(kind)
        except (TypeError, ValueError) as error:
            raise OutputSchemaError(f"output has a type without a JSON form: {error}") from error
        return cls(_compact(schema))

    @classmethod
    def from_schema(cls, schema: Mapping[str, object], description: str = "") -> Self:
        """Return the form with this JSON schema from a client; patterns are refused, because they can take long."""
        whole = {**schema, "description": description} if description else dict(schema)
        text = _compact(whole)
        if any(_find_patterns(whole, 0)):
            raise OutputSchemaError("the output schema has an unsupported 'pattern'; describe the form in words")
        return cls(text)


def _compact(schema: JsonSchema) -> str:
    try:
        text = msgspec.json.encode(schema).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise OutputSchemaError(f"the output schema must be JSON: {error}") from error
    parse_schema(text)
    return text


def _find_patterns(value: object, depth: int) -> Iterator[bool]:
    """Yield an item for each keyword `pattern` with a text; a property of that name has a schema instead."""
    if depth > 2 * MAX_SCHEMA_DEPTH:
        yield True
    elif isinstance(value, dict):
        for name, inner in cast(JsonSchema, value).items():
            if name == "pattern" and isinstance(inner, str):
                yield True
            yield from _find_patterns(inner, depth + 1)
    elif isinstance(value, list):
        for inner in cast(list[object], value):
            yield from _find_patterns(inner, depth + 1)


JSON_OBJECT: Final = OutputFormat('{"type":"object"}')
"""Any JSON object."""
