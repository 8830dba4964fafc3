"""Makes the text of a block valid Unicode, so that every block can be stored."""

from typing import TypeVar, cast

import msgspec
from msgspec.structs import replace

from timeloom.core.stream.surrogates import replace_lone_surrogates

_S = TypeVar("_S", bound=msgspec.Struct)


def with_valid_text(value: _S) -> _S:
    """Return the value with surrogate pairs joined and lone surrogates replaced by U+FFFD in all of its text."""
    changed: dict[str, object] = {}
    for name in value.__struct_fields__:
        before: object = getattr(value, name)
        # Most fields are empty or plain text; this skips them quickly, because every append comes through here.
        if not before or (isinstance(before, str) and before.isascii()):
            continue
        after = _with_valid_text(before)
        if after is not before:
            changed[name] = after
    return replace(value, **changed) if changed else value


def _with_valid_text(value: object) -> object:
    if isinstance(value, str):
        return value if value.isascii() else replace_lone_surrogates(value)
    if isinstance(value, msgspec.Struct):
        return with_valid_text(value)
    if isinstance(value, tuple):
        items = cast(tuple[object, ...], value)
        valid = tuple(map(_with_valid_text, items))
        return items if all(old is new for old, new in zip(items, valid, strict=True)) else valid
    if isinstance(value, dict):
        pairs = cast(dict[str, object], value)
        valid_pairs = {replace_lone_surrogates(key): _with_valid_text(item) for key, item in pairs.items()}
        return pairs if valid_pairs == pairs else valid_pairs
    return value
