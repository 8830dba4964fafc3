"""Validates a JSON value against the schema of a turn's answer, in a bounded number of steps."""

import datetime as dt
import re
from collections.abc import Callable, Iterator
from typing import Final, cast

import msgspec

from timeloom.core.policy.answer.schema import AnswerSchema, resolve_reference

MAX_STEPS: Final = 200_000
"""Comparisons of one validation. Alternatives can multiply; fewer refuse long lists, more let a schema take seconds."""

MAX_DEPTH: Final = 100
"""Deepest nesting of parts and references; a larger limit lets a reference to itself exhaust the stack."""

MAX_PATTERN_CHARS: Final = 2_000
"""Longest string that a pattern is tried on, because a pattern may backtrack."""

_GOT_CHARS: Final = 120
_TYPE_WORDS: Final = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_FORMATS: Final[dict[str, type]] = {
    "date-time": dt.datetime,
    "date": dt.date,
    "time": dt.time,
    "duration": dt.timedelta,
}
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")
_DECIMAL: Final = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


class Mismatch(msgspec.Struct, frozen=True):
    """The first part of a value that does not fit: its path, the expected and the received value."""

    path: str
    expected: str
    received: str

    @property
    def text(self) -> str:
        """The mismatch as a sentence without its end."""
        return f"at `{self.path}` expected {self.expected}, received {self.received}"


def find_mismatch(schema: AnswerSchema, value: object) -> Mismatch | None:
    """Return the first mismatch of the value; None if it fits."""
    return _Validation(schema).check(schema, value, "$", 0)


class _Validation:
    def __init__(self, schema: AnswerSchema) -> None:
        self._schema = schema
        self._steps = MAX_STEPS

    def check(self, part: object, value: object, path: str, depth: int) -> Mismatch | None:
        self._steps -= 1
        if self._steps < 0 or depth > MAX_DEPTH:
            return Mismatch(path, "a smaller value, which can be validated", "one with too many parts")
        if not isinstance(part, dict):
            return _mismatch(path, "no value here", value) if part is False else None
        rules = cast(AnswerSchema, part)
        expected = _expected_here(rules, value)
        if expected:
            return _mismatch(path, expected, value)
        return next((found for found in self._inner(rules, value, path, depth + 1) if found), None)

    def _inner(self, rules: AnswerSchema, value: object, path: str, depth: int) -> Iterator[Mismatch | None]:
        if "$ref" in rules:
            yield self.check(resolve_reference(self._schema, str(rules["$ref"])), value, path, depth)
        for choice in cast(list[object], rules.get("allOf", [])):
            yield self.check(choice, value, path, depth)
        for keyword in ("anyOf", "oneOf"):
            if keyword in rules:
                yield self._check_choices(cast(list[object], rules[keyword]), value, path, depth, keyword == "oneOf")
        if isinstance(value, dict):
            yield from self._check_fields(rules, cast(dict[str, object], value), path, depth)
        elif isinstance(value, list):
            yield from self._check_items(rules, cast(list[object], value), path, depth)

    def _check_choices(
        self, choices: list[object], value: object, path: str, depth: int, only_one: bool
    ) -> Mismatch | None:
        found = [self.check(choice, value, path, depth) for choice in choices]
        fitting = found.count(None)
        if fitting > 1 and only_one:
            return _mismatch(path, "a value that fits only one of the alternatives", value)
        misses = [one for one in found if one]
        if fitting:
            return None
        nearest = max(misses, key=lambda one: len(one.path))
        if nearest.path != path:
            return nearest
        return _mismatch(path, " or ".join(dict.fromkeys(one.expected for one in misses)), value)

    def _check_fields(
        self, rules: AnswerSchema, value: dict[str, object], path: str, depth: int
    ) -> Iterator[Mismatch | None]:
        for name in cast(list[str], rules.get("required", [])):
            if name not in value:
                yield Mismatch(_field_path(path, name), "this field", "nothing")
        properties = cast(dict[str, object], rules.get("properties", {}))
        further = rules.get("additionalProperties", True)
        for name, inner in value.items():
            if name not in properties and further is False:
                known = ", ".join(f"`{one}`" for one in list(properties)[:20])
                yield _mismatch(_field_path(path, name), f"only the fields {known}" if known else "no fields", inner)
            yield self.check(properties.get(name, further), inner, _field_path(path, name), depth)

    def _check_items(
        self, rules: AnswerSchema, value: list[object], path: str, depth: int
    ) -> Iterator[Mismatch | None]:
        first = cast(list[object], rules.get("prefixItems", []))
        for n, item in enumerate(value):
            part = first[n] if n < len(first) else rules.get("items", True)
            yield self.check(part, item, f"{path}[{n}]", depth)


def _expected_here(rules: AnswerSchema, value: object) -> str:
    """Return what the rules expect of the value itself; empty if it fits."""
    if "type" in rules:
        kinds = cast(list[str], rules["type"] if isinstance(rules["type"], list) else [rules["type"]])
        if not any(_has_type(value, kind) for kind in kinds):
            return " or ".join(_TYPE_WORDS[kind] for kind in kinds)
    for keyword in ("enum", "const"):
        if keyword in rules:
            choices = cast(list[object], rules["enum"] if keyword == "enum" else [rules["const"]])
            if not any(_is_same(value, choice) for choice in choices):
                return f"one of {', '.join(_brief(one) for one in choices[:20])}" if choices[1:] else _brief(choices[0])
    if isinstance(value, str):
        return _expected_string(rules, value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _broken_limit(rules, value, _NUMBER_LIMITS)
    if isinstance(value, list):
        items = cast(list[object], value)
        if rules.get("uniqueItems") and len({msgspec.json.encode(one, order="sorted") for one in items}) < len(items):
            return "different items"
        return _broken_limit(rules, len(items), _ITEM_LIMITS)
    return _broken_limit(rules, len(cast(dict[str, object], value)), _FIELD_LIMITS) if isinstance(value, dict) else ""


def _expected_string(rules: AnswerSchema, value: str) -> str:
    if broken := _broken_limit(rules, len(value), _CHAR_LIMITS):
        return broken
    if (pattern := rules.get("pattern")) and not re.search(str(pattern), value[:MAX_PATTERN_CHARS]):
        return f"a string of the pattern {_brief(pattern)}"
    kind = rules.get("format")
    if (
        (isinstance(kind, str) and kind in _FORMATS and not _converts(value, _FORMATS[kind]))
        or (kind == "uuid" and not _UUID.fullmatch(value))
        or (kind == "decimal" and not _DECIMAL.fullmatch(value))
    ):
        return f"a string of the format {kind}"
    if rules.get("contentEncoding") == "base64" and not _converts(value, bytes):
        return "a string in base64"
    return ""


def _converts(value: str, kind: type) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


_Limits = dict[str, tuple[str, Callable[[float, float], bool]]]


def _at_least(value: float, limit: float) -> bool:
    return value >= limit


def _at_most(value: float, limit: float) -> bool:
    return value <= limit


def _is_multiple(value: float, limit: float) -> bool:
    try:
        return abs(value / limit - round(value / limit)) < 1e-9
    except OverflowError:
        return False


_NUMBER_LIMITS: Final[_Limits] = {
    "minimum": ("a number of at least {}", _at_least),
    "maximum": ("a number of at most {}", _at_most),
    "exclusiveMinimum": ("a number above {}", lambda value, limit: value > limit),
    "exclusiveMaximum": ("a number below {}", lambda value, limit: value < limit),
    "multipleOf": ("a multiple of {}", _is_multiple),
}
_CHAR_LIMITS: Final[_Limits] = {
    "minLength": ("at least {} characters", _at_least),
    "maxLength": ("at most {} characters", _at_most),
}
_ITEM_LIMITS: Final[_Limits] = {
    "minItems": ("at least {} items", _at_least),
    "maxItems": ("at most {} items", _at_most),
}
_FIELD_LIMITS: Final[_Limits] = {
    "minProperties": ("at least {} fields", _at_least),
    "maxProperties": ("at most {} fields", _at_most),
}


def _broken_limit(rules: AnswerSchema, value: float, limits: _Limits) -> str:
    for keyword, (words, holds) in limits.items():
        if keyword in rules and not holds(value, cast(float, rules[keyword])):
            return words.format(_brief(rules[keyword]))
    return ""


def _has_type(value: object, kind: str) -> bool:
    match kind:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "integer":
            is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return is_whole and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return value is None


def _is_same(value: object, choice: object) -> bool:
    return value == choice and isinstance(value, bool) == isinstance(choice, bool)


def _field_path(path: str, name: str) -> str:
    return f"{path}.{name[:60]}"


def _mismatch(path: str, expected: str, value: object) -> Mismatch:
    return Mismatch(path[:400], expected, _brief(value))


def _brief(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _GOT_CHARS else text[: _GOT_CHARS - 1] + "…"
