"""Writes the parameters of a tool as short lines instead of a JSON Schema.

Each parameter is one line: `- name?: type = default # description`. A `?` marks an optional parameter. Types are
`string`, `integer`, `number`, `boolean`, `null` and `any`, lists (`string[]`), objects (`{path: string, ...}`), choices
(`"a"|"b"`) and limits (`integer(minimum 1)`). `...` stands for further fields of any name. A schema that needs more
than that has no signature, and the catalogue shows the schema itself. `read_signature` parses the lines.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

import msgspec

from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.foreign_text.json_text import json_line

MAX_DEPTH: Final = 12
"""Deepest nesting of a signature. Models misread deeper lines, and a larger limit lets a schema exhaust the stack."""

MAX_SIGNATURE_CHARS: Final = 12_000
"""Longest signature. A schema can refer to one definition many times, so its signature can grow exponentially."""

MAX_DESCRIPTION_CHARS: Final = 1_000
"""Longest description of a parameter; more crowds out other tools."""

SIMPLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*+")
"""Names that need no quotation marks."""

TYPES: Final = ("string", "integer", "number", "boolean", "null")

LIMITS: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("format", "minLength", "maxLength", "pattern"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "boolean": (),
    "null": (),
    "array": ("minItems", "maxItems", "uniqueItems"),
}
"""The limits that a signature can show, by type."""

_Schema = dict[str, object]
_NOTES: Final = frozenset({"description", "default", "title"})
_REFERENCE: Final = re.compile(r"#/(\$defs|definitions)/([^/]+)")


class _NoSignatureError(Exception):
    """The schema needs something that a signature does not have."""


def write_signature(schema: str) -> str | None:
    """Return the lines of the parameters; empty if there are none, None if a signature cannot say the same."""
    try:
        top: object = msgspec.json.decode(schema)
        return _join_lines(_SignatureWriter(_as_schema(top)).lines())
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError, _NoSignatureError):
        return None


def _join_lines(lines: Iterator[str]) -> str:
    found: list[str] = []
    chars = 0
    for line in lines:
        chars += len(line)
        if chars > MAX_SIGNATURE_CHARS:
            raise _NoSignatureError
        found.append(line)
    return "\n".join(found)


class _SignatureWriter:
    def __init__(self, schema: _Schema) -> None:
        self._schema = schema
        self._chars = 0

    def lines(self) -> Iterator[str]:
        """Yield a line for each parameter, followed by the descriptions within it."""
        top = self._schema
        _only(top, {"type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema"})
        if top.get("type", "object") != "object":
            raise _NoSignatureError
        for name, part in self._fields(top):
            text = f"- {self._field(top, name, part, 0)}"
            described = _description(part)
            yield f"{text} # {described}" if described else text
            yield from self._inner_descriptions(_name(name), part)
        if rest := self._further_fields(top, 0, closed="properties" in top):
            yield f"- {rest}"

    def _field(self, owner: _Schema, name: str, part: _Schema, depth: int) -> str:
        mark = "" if name in _required(owner) else "?"
        text = f"{_name(name)}{mark}: {self._type(part, depth + 1)}"
        return f"{text} = {json_line(part['default'])}" if "default" in part else text

    def _type(self, part: _Schema, depth: int) -> str:
        if depth > MAX_DEPTH:
            raise _NoSignatureError
        text = self._bare_type(part, depth)
        self._chars += len(text)
        if self._chars > MAX_SIGNATURE_CHARS:
            raise _NoSignatureError
        return text

    def _bare_type(self, part: _Schema, depth: int) -> str:
        if "$ref" in part:
            _only(part, {"$ref"})
            return self._type(self._resolve(part), depth + 1)
        for key in ("anyOf", "oneOf"):
            if key in part:
                _only(part, {key})
                return self._join(_schemas(part[key]), depth)
        if "enum" in part or "const" in part:
            return _choices(part)
        kind = part.get("type")
        if isinstance(kind, list):
            return self._join([{**part, "type": one} for one in cast(list[object], kind)], depth)
        match kind:
            case None:
                _only(part, set())
                return "any"
            case "object":
                return self._object(part, depth)
            case "array":
                _only(part, {"type", "items", *LIMITS["array"]})
                items = self._type(_as_schema(part.get("items", {})), depth + 1)
                return f"{f'({items})' if _is_union(items) else items}[]{_limits(part, 'array')}"
            case str() if kind in TYPES:
                _only(part, {"type", *LIMITS[kind]})
                return f"{kind}{_limits(part, kind)}"
            case _:
                raise _NoSignatureError

    def _object(self, part: _Schema, depth: int) -> str:
        _only(part, {"type", "properties", "required", "additionalProperties"})
        fields = [self._field(part, name, inner, depth) for name, inner in self._fields(part)]
        rest = self._further_fields(part, depth, closed="properties" in part)
        return f"{{{', '.join([*fields, rest] if rest else fields)}}}"

    def _further_fields(self, part: _Schema, depth: int, *, closed: bool) -> str:
        """Return the mark for fields that `properties` does not name; a schema that says nothing has none."""
        further = part.get("additionalProperties", not closed)
        if isinstance(further, bool):
            return "..." if further else ""
        return f"...: {self._type(_as_schema(further), depth + 1)}"

    def _join(self, parts: list[_Schema], depth: int) -> str:
        if not parts:
            raise _NoSignatureError
        return "|".join(dict.fromkeys(self._type(part, depth + 1) for part in parts))

    def _fields(self, part: _Schema) -> list[tuple[str, _Schema]]:
        properties = _as_schema(part.get("properties", {}))
        if any(name not in properties for name in _required(part)):
            raise _NoSignatureError
        return [(name, _as_schema(inner)) for name, inner in properties.items()]

    def _inner_descriptions(self, path: str, part: _Schema) -> Iterator[str]:
        """Yield the descriptions inside a parameter, each after its path; `*` stands for the items of a list."""
        # `_type` has walked the same parts before and found them shallow enough.
        for key in ("anyOf", "oneOf"):
            for choice in _schemas(part.get(key, [])):
                yield from self._described(path, choice)
        if "$ref" in part:
            yield from self._described(path, self._resolve(part))
        if "items" in part:
            yield from self._described(f"{path}.*", _as_schema(part["items"]))
        for name, inner in self._fields(part) if "properties" in part else ():
            yield from self._described(f"{path}.{_name(name)}", inner)
        if isinstance(further := part.get("additionalProperties"), dict):
            yield from self._described(f"{path}.*", cast(_Schema, further))

    def _described(self, path: str, part: _Schema) -> Iterator[str]:
        if text := _description(part):
            yield f"  {path}: {text}"
        yield from self._inner_descriptions(path, part)

    def _resolve(self, part: _Schema) -> _Schema:
        found = _REFERENCE.fullmatch(str(part["$ref"]))
        if found is None:
            raise _NoSignatureError
        return _as_schema(_as_schema(self._schema.get(found[1])).get(found[2]))


def _required(part: _Schema) -> list[object]:
    required = part.get("required", [])
    if not isinstance(required, list):
        raise _NoSignatureError
    return cast(list[object], required)


def _name(name: str) -> str:
    return name if SIMPLE_NAME.fullmatch(name) else json_line(name)


def _choices(part: _Schema) -> str:
    _only(part, {"enum", "const", "type"})
    values = part["enum"] if "enum" in part else [part["const"]]
    # With both, or with a type that excludes some choices, the accepted values would have to be computed.
    if not isinstance(values, list) or not values or ("const" in part and "enum" in part):
        raise _NoSignatureError
    kinds = part.get("type")
    allowed = cast(list[object], kinds if isinstance(kinds, list) else [kinds])
    for value in cast(list[object], values):
        if isinstance(value, dict | list) or (kinds is not None and _kind_of(value) not in allowed):
            raise _NoSignatureError
    return "|".join(json_line(value) for value in cast(list[object], values))


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return "string"


def _limits(part: _Schema, kind: str) -> str:
    found = [f"{key} {json_line(part[key])}" for key in LIMITS[kind] if key in part]
    return f"({', '.join(found)})" if found else ""


def _is_union(text: str) -> bool:
    """Whether a `|` stands outside all brackets and strings of the type."""
    bare = re.sub(r'"[^"\\]*+(?:\\.[^"\\]*+)*"', "", text)
    depth = 0
    for char in bare:
        depth += (char in "({[") - (char in ")}]")
        if char == "|" and not depth:
            return True
    return False


def _only(part: _Schema, known: set[str]) -> None:
    if not part.keys() <= known | _NOTES:
        raise _NoSignatureError


def _as_schema(value: object) -> _Schema:
    if value is True:
        return {}
    if not isinstance(value, dict):
        raise _NoSignatureError
    return cast(_Schema, value)


def _schemas(value: object) -> list[_Schema]:
    if not isinstance(value, list):
        raise _NoSignatureError
    return [_as_schema(one) for one in cast(list[object], value)]


def _description(part: _Schema) -> str:
    text = part.get("description", "")
    return one_line(text, MAX_DESCRIPTION_CHARS) if isinstance(text, str) else ""
