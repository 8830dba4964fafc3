"""Converts blocks to JSON objects and back."""

import json
from types import MappingProxyType
from typing import Final, cast

import msgspec
from msgspec.structs import fields as struct_fields

from timeloom.core.blocks import BLOCK_CLASSES, AnyBlock, BlockError, Completion, RangeSummary, Unknown, WorkingSummary
from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.paths import (
    CallTextPath,
    CompletionPath,
    EventPath,
    LogicalPath,
    PathError,
    RangeSummaryPath,
    RoundTextPath,
    ToolPath,
    WorkingSummaryPath,
    parse_long,
)
from timeloom.core.payload import BlobRef
from timeloom.core.stream.surrogates import replace_lone_surrogates
from timeloom.core.timeline import NO_TURN, Draft, EntryError, is_timestamp
from timeloom.wire.layouts import Fields, layout_of


class BlockJson(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The JSON object of a block; empty fields are omitted."""

    type: str
    author: str = ""
    turn_id: str = ""
    ts: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None
    base64: str | None = None
    meta: dict[str, object] = {}


_UNTYPED: Final = msgspec.json.Decoder(dict[str, object])
_BY_TYPE: Final = MappingProxyType(
    {
        name: tuple(cls for cls in BLOCK_CLASSES if cls.type_name == name)
        for name in {cls.type_name: None for cls in BLOCK_CLASSES if cls is not Unknown}
    }
)


def encode_block(draft: Draft) -> bytes:
    """Return the block's JSON object; a block that arrived in another spelling is returned as it arrived."""
    given = draft.block.json if isinstance(draft.block, Unknown) else draft.original
    if given and isinstance(given, str):
        return given.encode()
    return msgspec.json.encode(to_block_json(draft))


def to_block_json(draft: Draft) -> BlockJson:
    """Return the JSON object of a typed block; references to stored payloads are in `meta.blobs`."""
    block = draft.block
    fields = cast(Fields, msgspec.to_builtins(block))
    blobs = {name: fields.pop(name) for name in _blob_fields(fields)}
    if blobs:
        fields["blobs"] = blobs
    data = cast(str | None, fields.pop("data", None))
    for name in ("type", "author", "mime"):
        fields.pop(name, None)
    layout = layout_of(type(block))
    text = layout.pack(draft, fields)
    if layout.role:
        fields["role"] = layout.role
    return BlockJson(
        type=block.type_name,
        author=block.author,
        turn_id=draft.turn_id,
        ts=draft.ts,
        mime=block.mime_type(),
        path=_wire_path(block, draft.turn_id),
        text=text,
        base64=data,
        meta=fields,
    )


def decode_block(data: bytes, ts: str) -> Draft:
    """Return the draft for a JSON object; `ts` is used if the object has no time.

    An object of an unknown type, or of a known type with invalid fields, becomes `Unknown`. In every case,
    `encode_block` returns the same object again.
    """
    try:
        text = data.decode().strip()
        found = _UNTYPED.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return _decode_untyped(data, ts, error)
    try:
        wire = msgspec.convert(found, BlockJson)
        draft = Draft(TurnId(wire.turn_id), _parse_time(wire.ts, ts), _decode_typed(wire))
    except (msgspec.MsgspecError, CodedError, RecursionError):
        return _unknown_draft(found, text, ts)
    same = _UNTYPED.decode(encode_block(draft)) == found
    return draft if same else Draft(draft.turn_id, draft.ts, draft.block, text)


def _parse_time(text: str, ts: str) -> str:
    """Return the block's time in the format of entries if it is valid, otherwise `ts`."""
    text = text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
    return text if is_timestamp(text) else ts


def _wire_path(block: AnyBlock, turn: TurnId) -> str:
    numbered = isinstance(block, Completion | WorkingSummary | RangeSummary)
    return block.alias(turn) if numbered else block.path(turn)


def _blob_fields(fields: Fields) -> list[str]:
    return [name for name, value in fields.items() if isinstance(value, dict) and "sha256" in value]


def _decode_typed(wire: BlockJson) -> AnyBlock:
    cls = _find_class(wire)
    fields = _fields_from_path(wire.path) | wire.meta
    fields |= msgspec.to_builtins(msgspec.convert(fields.pop("blobs", {}), dict[str, BlobRef]))
    layout_of(cls).unpack(wire.text, fields)
    fields |= {name: value for name, value in _top_level_fields(wire).items() if value}
    known = {field.name for field in struct_fields(cls)}
    return msgspec.convert({name: value for name, value in fields.items() if name in known}, cls)


def _top_level_fields(wire: BlockJson) -> Fields:
    return {"author": wire.author, "mime": wire.mime, "data": wire.base64 if _is_base64(wire.base64) else None}


def _is_base64(text: str | None) -> bool:
    """Return whether the text encodes bytes; exports replace large content by a placeholder such as `<...>`."""
    try:
        msgspec.convert(text or "", bytes)
    except msgspec.ValidationError:
        return False
    return True


def _find_class(wire: BlockJson) -> type[AnyBlock]:
    """Return the block class by type; result types without a role are guessed from their fields."""
    classes = _BY_TYPE.get(wire.type)
    if classes is None:
        raise BlockError(f"no block has the type {wire.type[:60]!r}")
    if len(classes) == 1:
        return classes[0]
    role = wire.meta.get("role") or _guessed_role(wire)
    for cls in classes:
        if layout_of(cls).role == role:
            return cls
    raise BlockError(f"no {wire.type} has that role")


def _guessed_role(wire: BlockJson) -> str:
    if not wire.path.startswith("tc:") or wire.base64 is not None:
        return "content"
    is_json = wire.mime in ("", "application/json") and (wire.text or "").startswith("{")
    return "digest" if is_json and '"artifact_path"' in (wire.text or "") else "status"


def _fields_from_path(path: str) -> Fields:
    """Return the fields that the path contains; older logs store a call's id or a round's number only there."""
    try:
        return _path_fields(parse_long(path))
    except PathError:
        return {}


def _path_fields(path: LogicalPath) -> Fields:
    match path:
        case CallTextPath(call=call) | ToolPath(call=call):
            fields: Fields = {"tool_call_id": call}
        case RoundTextPath(round=number):
            fields = {"round": number}
        case EventPath(kind=kind, message=message):
            fields = {"kind": kind, "message_id": message}
        case CompletionPath(number=number) | RangeSummaryPath(number=number) | WorkingSummaryPath(number=number):
            fields = {"n": number or 1}
        case _:
            fields = {}
    return fields | {"artifact_path": str(path)}


def _decode_untyped(data: bytes, ts: str, error: Exception) -> Draft:
    """Return a draft for JSON that no typed value can hold, such as a lone surrogate.

    Raises `BlockError` if the data is not a JSON object.
    """
    text = ""
    try:
        text = data.decode().strip()
        found: object = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BlockError(f"a block must be a JSON object: {error}") from error
    return _unknown_draft(cast(Fields, found), text, ts)


def _number(_: str) -> int:
    return 0


def _reject_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _unknown_draft(found: Fields, text: str, ts: str) -> Draft:
    def said(name: str) -> str:
        value = found.get(name)
        return replace_lone_surrogates(value) if isinstance(value, str) else ""

    block = Unknown(json=text, foreign_type=said("type"), foreign_path=said("path"))
    try:
        return Draft(TurnId(said("turn_id")), _parse_time(said("ts"), ts), block)
    except EntryError:
        return Draft(NO_TURN, ts, block)
