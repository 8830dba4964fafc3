"""Builds the JSON Schema of a tool's parameters and describes parts of it in words for error messages."""

from collections.abc import Iterable, Mapping
from typing import Final, cast

import msgspec

from timeloom.core.codes import CodedError

JsonSchema = dict[str, object]

MAX_WORDS_CHARS: Final = 300
"""Longest description of an expected value. Smaller cuts lists of choices; larger repeats the catalogue."""

_ANY: Final = "x-any"
_WORD_DEPTH: Final = 3
_TYPE_WORDS: Final = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def params_schema(params: type[msgspec.Struct], descriptions: Mapping[str, str]) -> JsonSchema:
    """Return the schema of an object with these fields; only free-form maps allow additional properties.

    Raises for a nested Struct that ignores unknown fields: the model would not learn that a field was ignored.
    """
    try:
        whole = msgspec.json.schema(params, schema_hook=_any_value_schema)
    except TypeError as error:
        raise CodedError("tool_malformed", f"a parameter has a type without a JSON form: {error}") from error
    components = cast(dict[str, JsonSchema], whole.pop("$defs"))
    top = components.pop(str(whole["$ref"]).rpartition("/")[2])
    for name, component in components.items():
        if "properties" in component and component.get("additionalProperties") is not False:
            raise CodedError("tool_malformed", f"{name} is a parameter type and needs forbid_unknown_fields=True")
    top.pop("title", None)
    properties = cast(dict[str, JsonSchema], top["properties"])
    for name, text in descriptions.items():
        properties[name] = {**properties[name], "description": text}
    top["additionalProperties"] = False
    if components:
        top["$defs"] = components
    return cast(JsonSchema, _open_free_maps(top))


def value_schema(kind: object) -> JsonSchema:
    """Return the schema of the values of this type; raise `TypeError` for a type without a JSON form."""
    whole = msgspec.json.schema(kind, schema_hook=_any_value_schema)
    if set(whole) == {"$ref", "$defs"}:
        components = cast(dict[str, JsonSchema], whole["$defs"])
        name = str(whole["$ref"]).rpartition("/")[2]
        top = components[name]
        if f'"{whole["$ref"]}"' not in _json(components):
            del components[name]
        whole = {**top, "$defs": components} if components else top
    return cast(JsonSchema, _open_free_maps(whole))


def find_fragment(schema: JsonSchema, steps: Iterable[str]) -> JsonSchema:
    """Return the schema at that location, or at the nearest enclosing location that is described."""
    here = schema
    for step in steps:
        inner = _resolve_part(schema, here)
        properties = cast(dict[str, JsonSchema], inner.get("properties", {}))
        there = properties.get(step) or inner.get("items") or inner.get("additionalProperties")
        if not isinstance(there, dict):
            break
        here = cast(JsonSchema, there)
    return here


def describe_schema(schema: JsonSchema, part: JsonSchema) -> str:
    """Return a description in words of the values that this part of the schema accepts."""
    text = _describe_part(schema, part, _WORD_DEPTH)
    return text if len(text) <= MAX_WORDS_CHARS else text[: MAX_WORDS_CHARS - 1] + "…"


def _any_value_schema(kind: type) -> JsonSchema:
    if kind is object:
        return {_ANY: True}
    raise TypeError(f"{kind.__name__} has no JSON form")


def _open_free_maps(value: object) -> object:
    """Return the schema with `{}` for a value of any type, and maps without a value type open to any value."""
    if isinstance(value, list):
        return [_open_free_maps(item) for item in cast(list[object], value)]
    if not isinstance(value, dict):
        return value
    opened = {name: _open_free_maps(inner) for name, inner in cast(JsonSchema, value).items()}
    if opened == {_ANY: True}:
        return {}
    if opened.get("type") == "object" and "properties" not in opened:
        opened["additionalProperties"] = opened.get("additionalProperties") or True
    return opened


def _resolve_part(schema: JsonSchema, part: JsonSchema) -> JsonSchema:
    """Return the part, the definition that it refers to, or the first of several alternatives that is a container."""
    if "$ref" in part:
        return cast(dict[str, JsonSchema], schema["$defs"])[str(part["$ref"]).rpartition("/")[2]]
    for choice in cast(list[JsonSchema], part.get("anyOf", [])):
        inner = _resolve_part(schema, choice)
        if inner.get("type") in ("object", "array"):
            return inner
    return part


def _describe_part(schema: JsonSchema, part: JsonSchema, depth: int) -> str:
    if "enum" in part:
        return "one of " + ", ".join(_json(choice) for choice in cast(list[object], part["enum"]))
    if "anyOf" in part:
        return " or ".join(_describe_part(schema, choice, depth) for choice in cast(list[JsonSchema], part["anyOf"]))
    inner = _resolve_part(schema, part)
    match inner.get("type"):
        case "array":
            items = cast(JsonSchema, inner.get("items") or {})
            return f"a list of items, each {_describe_part(schema, items, depth - 1)}" if items and depth else "a list"
        case "object":
            return _describe_object(inner)
        case kind:
            return _TYPE_WORDS.get(str(kind), "a value")


def _describe_object(part: JsonSchema) -> str:
    names = cast(dict[str, object], part.get("properties", {}))
    needed = cast(list[str], part.get("required", []))
    optional = [name for name in names if name not in needed]
    text = "an object"
    if needed:
        text += f" with {', '.join(needed)}"
    if optional:
        text += f" (optional: {', '.join(optional)})"
    return text


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
