"""Parses the JSON schema of a turn's answer and refuses keywords that the validation does not cover."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, cast

import msgspec

from timeloom.core.codes import CodedError

MAX_SCHEMA_CHARS: Final = 16_000
"""Longest schema as compact JSON. It stands in each prompt of the turn; a larger one crowds out the conversation."""

MAX_SCHEMA_DEPTH: Final = 32
"""Deepest nesting of a schema; a larger limit lets a schema exhaust the stack."""

REFERENCE: Final = re.compile(r"#/(\$defs|definitions)/([^/]+)")
"""The references that a schema may have: to its own definitions."""

TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")

AnswerSchema = dict[str, object]

_SCHEMAS: Final = frozenset({"properties", "$defs", "definitions"})
_SCHEMA_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_ONE_SCHEMA: Final = frozenset({"items", "additionalProperties"})
_NUMBERS: Final = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    }
)
_NOTES: Final = frozenset(
    {
        *("$schema", "$id", "$comment", "title", "description", "default", "examples", "example", "deprecated"),
        *("readOnly", "writeOnly", "discriminator", "format", "contentEncoding", "strict"),
    }
)
_KNOWN: Final = frozenset({"type", "enum", "const", "required", "uniqueItems", "pattern", "$ref"})


class OutputSchemaError(CodedError):
    """A schema that an answer cannot be validated against; the message names the keyword and its place."""

    def __init__(self, message: str) -> None:
        super().__init__("output_schema_invalid", message)


@lru_cache(maxsize=64)
def parse_schema(text: str) -> AnswerSchema:
    """Return the schema with this JSON text; raise `OutputSchemaError` if it cannot be used. Do not change it."""
    if len(text) > MAX_SCHEMA_CHARS:
        raise OutputSchemaError(f"the output schema has {len(text)} characters; at most {MAX_SCHEMA_CHARS} are allowed")
    try:
        schema = msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise OutputSchemaError(f"the output schema must be one JSON object: {error}") from None
    _check_part(schema, schema, "$", 0)
    return schema


def resolve_reference(schema: AnswerSchema, reference: str) -> object:
    """Return the definition that the reference names, or None if there is none."""
    found = REFERENCE.fullmatch(reference)
    group = schema.get(found[1]) if found else None
    return cast(AnswerSchema, group).get(found[2]) if found and isinstance(group, dict) else None


def _check_part(root: AnswerSchema, part: object, place: str, depth: int) -> None:
    if isinstance(part, bool):
        return
    if not isinstance(part, dict):
        raise OutputSchemaError(f"the output schema needs an object at {place}, got {_brief(part)}")
    if depth > MAX_SCHEMA_DEPTH:
        raise OutputSchemaError(f"the output schema is nested deeper than {MAX_SCHEMA_DEPTH}")
    for keyword, value in cast(AnswerSchema, part).items():
        if not _is_usable(root, keyword, value):
            raise OutputSchemaError(
                f"the output schema has an unsupported {keyword[:40]!r} at {place}: {_brief(value)}"
            )
        for name, inner in _inner_parts(keyword, value):
            _check_part(root, inner, f"{place}.{name[:60]}", depth + 1)


def _inner_parts(keyword: str, value: object) -> Iterator[tuple[str, object]]:
    if keyword in _ONE_SCHEMA:
        yield keyword, value
    elif keyword in _SCHEMAS:
        yield from ((f"{keyword}.{name}", inner) for name, inner in cast(AnswerSchema, value).items())
    elif keyword in _SCHEMA_LISTS:
        yield from ((f"{keyword}[{n}]", inner) for n, inner in enumerate(cast(list[object], value)))


def _is_usable(root: AnswerSchema, keyword: str, value: object) -> bool:
    if keyword in _NOTES or keyword in _ONE_SCHEMA or keyword == "const":
        return True
    if keyword in _SCHEMAS:
        return isinstance(value, dict)
    if keyword in _SCHEMA_LISTS or keyword == "enum":
        return isinstance(value, list) and bool(cast(list[object], value))
    if keyword in _NUMBERS:
        is_positive = keyword != "multipleOf" or (isinstance(value, int | float) and value > 0)
        return isinstance(value, int | float) and not isinstance(value, bool) and is_positive
    return keyword in _KNOWN and _is_known_value(root, keyword, value)


def _is_known_value(root: AnswerSchema, keyword: str, value: object) -> bool:
    match keyword, value:
        case "type", list():
            return all(one in TYPES for one in cast(list[object], value))
        case "type", str():
            return value in TYPES
        case "required", list():
            return all(isinstance(one, str) for one in cast(list[object], value))
        case "uniqueItems", bool():
            return True
        case "pattern", str():
            return _is_pattern(value)
        case "$ref", str():
            return resolve_reference(root, value) is not None
        case _:
            return False


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _brief(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else text[:79] + "…"
