"""Converts parameters of a call to the types that the tool's schema demands, where a value has exactly one reading."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, cast

import msgspec

Fields = dict[str, msgspec.Raw]
"""The fields of a JSON object, each as it is written."""


class ToolForm(msgspec.Struct, frozen=True):
    """What a repair knows about a tool: its id and the JSON Schema of its parameters."""

    tool_id: str
    params_schema: str = "{}"


NO_TOOLS: Final[Mapping[str, ToolForm]] = {}
"""No known tools."""


@cache
def read_properties(schema: str) -> dict[str, object]:
    """Return the schemas of the parameters by name."""
    fields = cast(dict[str, object], msgspec.json.decode(schema))
    return cast(dict[str, object], fields.get("properties") or {})


@cache
def read_required(schema: str) -> frozenset[str]:
    """Return the names of the parameters that a call must have."""
    fields = cast(dict[str, object], msgspec.json.decode(schema))
    return frozenset(cast(list[str], fields.get("required") or []))


def convert_params(params: Fields, tool: ToolForm, repairs: set[str]) -> Fields:
    """Return the parameters with converted values, and add the names of the repairs to `repairs`."""
    properties = read_properties(tool.params_schema)
    required = read_required(tool.params_schema)
    converted: Fields = {}
    for name, raw in params.items():
        schema = properties.get(name)
        if bytes(raw) == b"null" and name not in required and _only_type(schema) and not _allows_null(schema):
            repairs.add("null_for_default")
            continue
        converted[name] = _convert_value(raw, schema, repairs)
    return converted


def _convert_value(raw: msgspec.Raw, schema: object, repairs: set[str]) -> msgspec.Raw:
    """Return the value as the only type that the schema allows; the value itself if it has no such reading."""
    wanted = _only_type(schema)
    kind = _kind_of(raw)
    if not wanted or _fits(kind, wanted):
        return _convert_items(raw, schema, repairs) if kind == wanted == "array" else raw
    if wanted == "array":
        return _to_list(raw, kind, schema, repairs)
    if kind == "array":
        items = msgspec.json.decode(raw, type=list[msgspec.Raw])
        if len(items) == 1 and _fits(_kind_of(items[0]), wanted):
            repairs.add("single_item_list")
            return items[0]
        return raw
    if wanted == "string":
        if kind == "number":
            repairs.add("value_for_text")
            return msgspec.Raw(b'"' + bytes(raw) + b'"')
        return raw
    return _read_text(raw, wanted, repairs) if kind == "string" else raw


def _read_text(raw: msgspec.Raw, wanted: str, repairs: set[str]) -> msgspec.Raw:
    word = msgspec.json.decode(raw, type=str).strip()
    if wanted == "object":
        found = _decode_as(word, dict[str, object])
    else:
        found = word.lower().encode() if _TYPED_WORDS[wanted].fullmatch(word) else None
    if found is None:
        return raw
    repairs.add("text_for_value")
    return msgspec.Raw(found)


def _to_list(raw: msgspec.Raw, kind: str, schema: object, repairs: set[str]) -> msgspec.Raw:
    item = _item_type(schema)
    text = msgspec.json.decode(raw, type=str) if kind == "string" else ""
    listed = _decode_as(text, list[str] if item == "string" else list[object])
    if listed is not None:
        repairs.add("string_for_list")
        return _convert_items(msgspec.Raw(listed), schema, repairs)
    if _fits(kind, item):
        repairs.add("string_for_list")
        return msgspec.Raw(b"[" + bytes(raw) + b"]")
    return raw


def _convert_items(raw: msgspec.Raw, schema: object, repairs: set[str]) -> msgspec.Raw:
    item = {"type": _item_type(schema)}
    if item["type"] not in _TYPED_WORDS:
        return raw
    items = msgspec.json.decode(raw, type=list[msgspec.Raw])
    converted = [_convert_value(one, item, repairs) for one in items]
    return raw if converted == items else msgspec.Raw(msgspec.json.encode(converted))


def _decode_as(text: str, kind: object) -> bytes | None:
    try:
        msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError:
        return None
    return text.encode()


def _fits(kind: str, wanted: str) -> bool:
    return kind == wanted or (kind, wanted) == ("number", "integer")


def _kind_of(raw: msgspec.Raw) -> str:
    return _KINDS.get(bytes(raw)[:1], "number")


def _item_type(schema: object) -> str:
    only = _only_option(schema)
    return _only_type(only.get("items")) if only else ""


def _only_type(schema: object) -> str:
    """Return the name of the only JSON type that the schema allows besides null; empty if it allows several."""
    only = _only_option(schema)
    kind = only.get("type") if only else None
    return kind if isinstance(kind, str) and kind in _TYPES and "$ref" not in (only or {}) else ""


def _only_option(schema: object) -> dict[str, object] | None:
    if not isinstance(schema, dict):
        return None
    fields = cast(dict[str, object], schema)
    options = [one for one in cast(list[object], fields.get("anyOf") or [fields]) if one != {"type": "null"}]
    return cast(dict[str, object], options[0]) if len(options) == 1 and isinstance(options[0], dict) else None


def _allows_null(schema: object) -> bool:
    return _only_option(schema) is not schema


_KINDS: Final = {
    b'"': "string",
    b"{": "object",
    b"[": "array",
    b"t": "boolean",
    b"f": "boolean",
    b"n": "null",
}
_TYPES: Final = ("integer", "number", "boolean", "string", "array", "object")
_TYPED_WORDS: Final[Mapping[str, re.Pattern[str]]] = {
    "integer": re.compile(r"-?(?:0|[1-9][0-9]{0,17})"),
    "number": re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][-+]?[0-9]{1,2})?"),
    "boolean": re.compile(r"true|false", re.IGNORECASE),
}
