"""Builds the JSON Schema of a tool's parameters and describes parts of it in words for error messages."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from timeloom.core.codes import CodedError
from timeloom.tools.pydantic_models import is_pydantic_model, pydantic_schema

JsonSchema = dict[str, object]

MAX_WORDS_CHARS: Final = 300
"""Longest description of an expected value. Smaller cuts lists of choices; larger repeats the catalogue."""

_ANY: Final = "x-any"
_CONTAINERS: Final[dict[type, str]] = {dict: "object", list: "array"}
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

    Objects with fields are closed, also those whose type would ignore unknown fields: the model would not learn of it.
    """
    try:
        whole = msgspec.json.schema(params, schema_hook=_foreign_schema)
        # It refuses unions that a schema can describe, but whose values cannot be told apart.
        msgspec.json.Decoder(params)
    except TypeError as error:
        raise CodedError("tool_malformed", f"a parameter has a type without a JSON form: {error}") from error
    components = cast(dict[str, JsonSchema], whole.pop("$defs"))
    components |= _take_inner_definitions(whole) | _take_inner_definitions(components)
    top = components.pop(str(whole["$ref"]).rpartition("/")[2])
    components |= _take_inner_definitions(top)
    for component in components.values():
        _close_objects(component)
    top.pop("title", None)
    properties = cast(dict[str, JsonSchema], top["properties"])
    for one in properties.values():
        _close_objects(one)
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


def find_unknown_field(schema: JsonSchema, part: JsonSchema, value: object, place: str = "") -> str:
    """Return the place of a field that the value has and its closed schema does not; empty if there is none."""
    inner = _definition(schema, part)
    for name, known in _inside(inner, value):
        if known is None:
            return f"{place}.{name}"
        if found := find_unknown_field(schema, known, _item(value, name), f"{place}.{name}"):
            return found
    choices = [_definition(schema, one) for one in _choices(inner)]
    of_kind = [one for one in choices if one.get("type") == _CONTAINERS.get(cast(type, type(value)))]
    problems = [find_unknown_field(schema, one, value, place) for one in of_kind]
    return problems[0] if problems and all(problems) else ""


def _inside(part: JsonSchema, value: object) -> Iterator[tuple[str | int, JsonSchema | None]]:
    """Yield the names of fields and numbers of items, each with its schema; None for a field that is not allowed."""
    if isinstance(value, list):
        items = part.get("items")
        for number in range(len(cast(list[object], value)) if isinstance(items, dict) else 0):
            yield number, cast(JsonSchema, items)
    elif isinstance(value, dict):
        properties, rest = cast(dict[str, JsonSchema], part.get("properties", {})), part.get("additionalProperties")
        for name in cast(dict[str, object], value):
            if name in properties or isinstance(rest, dict):
                yield name, properties.get(name) or cast(JsonSchema, rest)
            elif rest is False:
                yield name, None


def _choices(part: JsonSchema) -> list[JsonSchema]:
    return cast(list[JsonSchema], part.get("anyOf") or part.get("oneOf") or [])


def _item(value: object, name: str | int) -> object:
    return cast(Any, value)[name]


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


def _foreign_schema(kind: type) -> JsonSchema:
    if is_pydantic_model(kind):
        return pydantic_schema(kind)
    return _any_value_schema(kind)


def _any_value_schema(kind: type) -> JsonSchema:
    if kind is object:
        return {_ANY: True}
    raise TypeError(f"{kind.__name__} has no JSON form")


def _take_inner_definitions(value: object) -> dict[str, JsonSchema]:
    """Remove the definitions inside the schema, which Pydantic puts there, and return them."""
    taken: dict[str, JsonSchema] = {}
    for part in _parts(value):
        taken |= cast(dict[str, JsonSchema], part.pop("$defs", {}))
    return taken


def _close_objects(value: object) -> None:
    """Close all objects with fields that do not say whether they allow others."""
    for part in _parts(value):
        if isinstance(part.get("properties"), dict):
            part.setdefault("additionalProperties", False)


def _parts(value: object) -> Iterator[JsonSchema]:
    """Yield all objects inside the schema, and the schema itself."""
    if isinstance(value, dict):
        fields = cast(JsonSchema, value)
        yield fields
        for inner in tuple(fields.values()):
            yield from _parts(inner)
    elif isinstance(value, list):
        for inner in cast(list[object], value):
            yield from _parts(inner)


def _definition(schema: JsonSchema, part: JsonSchema) -> JsonSchema:
    if "$ref" not in part:
        return part
    return cast(dict[str, JsonSchema], schema["$defs"])[str(part["$ref"]).rpartition("/")[2]]


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
        return _definition(schema, part)
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
