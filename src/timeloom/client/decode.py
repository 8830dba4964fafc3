"""Decodes JSON to the types of the client; blocks are found by their `type`."""

from typing import Any, TypeVar, cast

import msgspec

from timeloom.client import types
from timeloom.client.blocks import Block, OtherBlock

T = TypeVar("T")


def decode(data: bytes | str, kind: type[T]) -> T:
    """Return the JSON value as that type."""
    return msgspec.json.decode(data, type=kind, dec_hook=_to_block)


def decode_first(data: bytes, kinds: tuple[type[T], ...]) -> T:
    """Return the JSON value as the first of the types that it fits."""
    value = msgspec.json.decode(data)
    for kind in kinds[:-1]:
        try:
            return msgspec.convert(value, kind, dec_hook=_to_block)
        except msgspec.ValidationError:
            # The types differ in their required fields.
            continue
    return msgspec.convert(value, kinds[-1], dec_hook=_to_block)


def read_block(fields: dict[str, Any]) -> Block:
    """Return the block that a JSON object describes."""
    kind = fields.get("type")
    for cls in types.BLOCK_TYPES.get(kind, ()) if isinstance(kind, str) else ():
        try:
            return msgspec.convert(fields, cls)
        except msgspec.ValidationError:
            # Classes that share a type differ in `meta.role`, and other programs write other fields.
            continue
    return OtherBlock(type=kind if isinstance(kind, str) else "", fields=fields)


def read_text(block: Block) -> Any:
    """Return the JSON in the text of a block as its type, such as `CallText`; raise `TypeError` if it has none."""
    kind = types.TEXT_TYPES.get(type(block))
    if kind is None:
        raise TypeError(f"the text of a {type(block).__name__} is not JSON")
    return msgspec.json.decode(cast(str, getattr(block, "text", "")), type=kind)


def _to_block(kind: type[object], value: Any) -> object:
    """Convert a value of the only type that msgspec does not know."""
    if kind is not Block or not isinstance(value, dict):
        raise NotImplementedError(f"expected the JSON object of a block for {kind.__name__}")
    return read_block(cast("dict[str, Any]", value))
