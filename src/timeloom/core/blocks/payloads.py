"""Payloads of a block: taking large ones out so that they can be stored by hash, and putting them back."""

from collections.abc import Callable
from functools import cache
from typing import Final, Literal, TypeVar, cast, get_args

import msgspec
from msgspec.structs import fields, replace

from timeloom.core.payload import BlobRef, ref_of

INLINE_BYTES: Final = 16 * 1024
"""Text up to this size stays in its row. Smaller makes many small files, each with a sync of its own; larger
makes rows heavy to page through."""

Payloads = dict[BlobRef, bytes]

_Kind = Literal["text", "data", "rows"]
_S = TypeVar("_S", bound=msgspec.Struct)


def take_out(block: _S, inline_bytes: int = INLINE_BYTES) -> tuple[_S, Payloads]:
    """The block with a reference for all bytes and for every text above the size, and what they refer to."""
    taken: Payloads = {}

    def store(value: object, kind: _Kind) -> object:
        if isinstance(value, str) and kind == "text" and len(value) * 4 > inline_bytes:
            data = value.encode()
            if len(data) <= inline_bytes:
                return value
        elif isinstance(value, bytes):
            data = value
        else:
            return value
        ref = ref_of(data)
        taken[ref] = data
        return ref

    return _mapped(block, store), taken


def put_back(block: _S, read: Callable[[BlobRef], bytes]) -> _S:
    """The block with every reference replaced by what `read` gives for it."""

    def fetch(value: object, kind: _Kind) -> object:
        if not isinstance(value, BlobRef):
            return value
        data = read(value)
        return data.decode() if kind == "text" else data

    return _mapped(block, fetch)


def references(block: msgspec.Struct) -> tuple[BlobRef, ...]:
    """Every reference that stands in the block, in the order of its fields."""
    found: list[BlobRef] = []

    def note(value: object, _: _Kind) -> object:
        if isinstance(value, BlobRef):
            found.append(value)
        return value

    _mapped(block, note)
    return tuple(found)


def _mapped(block: _S, swap: Callable[[object, _Kind], object]) -> _S:
    changed: dict[str, object] = {}
    for name, kind in _payload_fields(type(block)):
        before = getattr(block, name)
        if kind == "rows":
            after = tuple(_mapped(row, swap) for row in cast(tuple[msgspec.Struct, ...], before))
            if all(old is new for old, new in zip(before, after, strict=True)):
                continue
        else:
            after = swap(before, kind)
            if after is before:
                continue
        changed[name] = after
    return replace(block, **changed) if changed else block


@cache
def _payload_fields(cls: type[msgspec.Struct]) -> tuple[tuple[str, _Kind], ...]:
    """The fields that can hold a reference: found by their types, so that a new block type needs no entry here."""
    found: list[tuple[str, _Kind]] = []
    for field in fields(cls):
        members = get_args(field.type)
        if BlobRef in members:
            found.append((field.name, "data" if bytes in members else "text"))
        elif members[1:] == (...,) and isinstance(members[0], type) and issubclass(members[0], msgspec.Struct):
            found.append((field.name, "rows"))
    return tuple(found)
