"""Describes the shape of a JSON text: keys, types and counts to a limited depth, without values."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec

from timeloom.core.render.foreign_text.json_text import json_line

MAX_DEPTH: Final = 4
"""Maximum depth of nesting. A smaller value hides where the data is; a larger one makes the shape longer than a
preview."""

MAX_ITEMS: Final = 50
"""Maximum number of list items that are examined."""

MAX_KEYS: Final = 80
"""Maximum number of object keys that are listed."""

MAX_KEY_CHARS: Final = 60
"""Maximum length of a key."""

MAX_SHAPE_CHARS: Final = 2_000
"""Maximum length of a shape; the rest is cut. A larger value makes the shape of a wide result longer than its
preview."""


class _ShapeLimits(msgspec.Struct, frozen=True):
    """How many list items and object keys are examined."""

    items: int
    keys: int


def describe_json_shape(text: str, max_items: int = MAX_ITEMS, max_keys: int = MAX_KEYS) -> str:
    """Return the shape of the JSON text on one line; empty if the text is not JSON."""
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return ""
    shape = _shape(value, MAX_DEPTH, _ShapeLimits(max_items, max_keys))
    return shape if len(shape) <= MAX_SHAPE_CHARS else shape[: MAX_SHAPE_CHARS - 1] + "…"


def _shape(value: object, depth: int, most: _ShapeLimits) -> str:
    match value:
        case dict():
            return _object_shape(cast("Mapping[str, object]", value), depth, most)
        case list():
            return _list_shape(cast("Sequence[object]", value), depth, most)
        case None | bool():
            return "null" if value is None else "boolean"
        case int() | float():
            return "number"
        case _:
            return "string"


def _object_shape(value: Mapping[str, object], depth: int, most: _ShapeLimits) -> str:
    if not value:
        return "{}"
    if depth == 0:
        return f"{{{len(value)} keys}}"
    rows = [f"{_key(key)}: {_shape(inner, depth - 1, most)}" for key, inner in list(value.items())[: most.keys]]
    more = f", … {len(value) - most.keys} more keys" if len(value) > most.keys else ""
    return f"{{{', '.join(rows)}{more}}}"


def _list_shape(value: Sequence[object], depth: int, most: _ShapeLimits) -> str:
    if not value:
        return "[]"
    if depth == 0:
        return f"[{len(value)} items]"
    kinds = dict.fromkeys(_shape(inner, depth - 1, most) for inner in value[: most.items])
    first = next(iter(kinds))
    others = f" and {len(kinds) - 1} other shapes" if len(kinds) > 1 else ""
    return f"[{len(value)} items of {first}{others}]"


def _key(key: str) -> str:
    return json_line(key if len(key) <= MAX_KEY_CHARS else key[: MAX_KEY_CHARS - 1] + "…")
