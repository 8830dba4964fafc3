"""Moves large payloads out of blocks, rows and drafts into storage by hash, and restores them."""

from collections.abc import Callable
from functools import cache
from typing import Final, Literal, TypeGuard, TypeVar, get_args

import msgspec
from msgspec.structs import fields, replace

from timeloom.core.blocks.block import Block
from timeloom.core.payload import BlobRef, max_utf8_bytes, ref_of

INLINE_BYTES: Final = 32 * 1024
"""Text up to this size stays in its row. A smaller limit makes many small files, each with its own sync; a larger one
makes rows heavy to page through."""

REPEATED_BYTES: Final = 1024
"""The same limit for fields in `Block.repeated`: such text is stored once and referenced."""

Payloads = dict[BlobRef, bytes]

_Kind = Literal["text", "repeated", "data", "rows", "struct"]
_S = TypeVar("_S", bound=msgspec.Struct)


def extract_payloads(value: _S, inline_bytes: int = INLINE_BYTES) -> tuple[_S, Payloads]:
    """Return the value with references for all bytes and for large text, and the extracted payloads."""
    payloads: Payloads = {}

    def store(payload: object, kind: _Kind) -> object:
        most = min(inline_bytes, REPEATED_BYTES) if kind == "repeated" else inline_bytes
        if isinstance(payload, str) and max_utf8_bytes(payload) > most:
            data = payload.encode()
            if len(data) <= most:
                return payload
        elif isinstance(payload, bytes):
            data = payload
        else:
            return payload
        ref = ref_of(data)
        payloads[ref] = data
        return ref

    return _map_payloads(value, store), payloads


def restore_payloads(value: _S, read: Callable[[BlobRef], bytes]) -> _S:
    """Return the value with every reference replaced by the payload that `read` returns."""

    def fetch(payload: object, kind: _Kind) -> object:
        if not isinstance(payload, BlobRef):
            return payload
        data = read(payload)
        return data if kind == "data" else data.decode()

    return _map_payloads(value, fetch)


def find_blob_refs(value: msgspec.Struct) -> tuple[BlobRef, ...]:
    """Return every reference in the value, in the order of its fields."""
    found: list[BlobRef] = []

    def collect(payload: object, _: _Kind) -> object:
        if isinstance(payload, BlobRef):
            found.append(payload)
        return payload

    _map_payloads(value, collect)
    return tuple(found)


def _map_payloads(value: _S, swap: Callable[[object, _Kind], object]) -> _S:
    changed: dict[str, object] = {}
    for name, kind in _payload_fields(type(value)):
        before = getattr(value, name)
        if kind == "rows":
            after: object = _map_rows(before, swap)
        elif kind == "struct":
            after = _map_payloads(before, swap)
        else:
            after = swap(before, kind)
        if after is not before:
            changed[name] = after
    return replace(value, **changed) if changed else value


def _map_rows(rows: tuple[msgspec.Struct, ...], swap: Callable[[object, _Kind], object]) -> tuple[msgspec.Struct, ...]:
    after = tuple(_map_payloads(row, swap) for row in rows)
    return rows if all(old is new for old, new in zip(rows, after, strict=True)) else after


@cache
def _payload_fields(cls: type[msgspec.Struct]) -> tuple[tuple[str, _Kind], ...]:
    """Return the fields that can hold a reference; they are found by type, so new block types need no entry here."""
    found: list[tuple[str, _Kind]] = []
    repeated = cls.repeated if issubclass(cls, Block) else ()
    for field in fields(cls):
        members = get_args(field.type)
        if BlobRef in members:
            text: _Kind = "repeated" if field.name in repeated else "text"
            found.append((field.name, "data" if bytes in members else text))
        elif any(_payload_fields(member) for member in members if _is_struct(member)):
            found.append((field.name, "rows" if ... in members else "struct"))
    return tuple(found)


def _is_struct(member: object) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(member, type) and issubclass(member, msgspec.Struct)
