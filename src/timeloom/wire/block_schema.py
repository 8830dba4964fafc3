"""Types of the JSON objects of blocks, derived from the block classes and their layouts, for JSON Schema.

The types describe and are not decoded: `block_json` reads and writes blocks.
"""

from typing import Annotated, Final, Literal, cast, get_args

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, UnsetType
from msgspec.structs import FieldInfo
from msgspec.structs import fields as struct_fields

from timeloom.core.blocks import BLOCK_CLASSES, AnyBlock, Unknown
from timeloom.core.payload import BlobRef
from timeloom.core.sources import SourceRow
from timeloom.wire.layouts import SCHEMA_REF, Layout, layout_of

JsonType = type[msgspec.Struct]
"""A type whose schema describes a JSON object."""

BlockRaw = Annotated[msgspec.Raw, Meta(extra_json_schema={"$ref": SCHEMA_REF.format(name="Block")})]
"""The encoded JSON object of a block."""

_TOP_LEVEL: Final = frozenset({"author", "mime", "data"})
_Field = tuple[str, object] | tuple[str, object, object]


class BlockType(msgspec.Struct, frozen=True):
    """A block class, the type of its JSON object, and the type of the JSON value in its `text`."""

    cls: type[AnyBlock]
    object_type: JsonType
    text_type: JsonType | None

    @property
    def role(self) -> str:
        """The value of `meta.role` that distinguishes classes with the same `type`; empty if the type is enough."""
        return layout_of(self.cls).role


def block_types() -> tuple[BlockType, ...]:
    """Return the JSON types of all block classes except the one for unknown types."""
    return tuple(_block_type(cls) for cls in BLOCK_CLASSES if cls is not Unknown)


def source_row_type() -> JsonType:
    """Return the JSON type of a row of the sources pool; the row may have further fields."""
    known = [one for one in struct_fields(SourceRow) if one.name != "extra"]
    always: list[_Field] = [(one.name, one.type) for one in known if one.name in ("sid", "source_type")]
    others: list[_Field] = [
        (one.name, one.type, one.default) for one in known if one.name not in ("sid", "source_type")
    ]
    return _define("SourceRow", [*always, *others], "A row of the sources pool; it may have further fields.")


def _block_type(cls: type[AnyBlock]) -> BlockType:
    layout = layout_of(cls)
    text_type = layout.text_type
    if not layout.packed:
        whole = [_field(one) for one in struct_fields(cls) if one.name != "author"]
        text_type = _define(f"{cls.__name__}Text", whole, f"The text of `{cls.type_name}`.")
    return BlockType(cls, _object_type(cls, layout, text_type), text_type)


def _object_type(cls: type[AnyBlock], layout: Layout, text_type: JsonType | None) -> JsonType:
    by_name = {one.name: one for one in struct_fields(cls)}
    fields: list[_Field] = [
        ("type", Literal[cls.type_name]),
        ("ts", str),
        ("author", str, ""),
        ("turn_id", str, ""),
        ("mime", str, ""),
        ("path", str, ""),
    ]
    if text_type:
        fields.append(("text", Annotated[str, Meta(extra_json_schema=_json_text(text_type))]))
    elif "text" in by_name:
        fields.append(("text", str, UNSET) if _may_be_absent(by_name["text"]) else ("text", str))
    if "data" in by_name:
        fields.append(("base64", bytes, UNSET))
    if meta := _meta_fields(cls, layout):
        is_required = any(len(one) == 2 for one in meta)
        kind = _define(f"{cls.__name__}Meta", meta, f"The `meta` of `{cls.type_name}`.")
        fields.append(("meta", kind) if is_required else ("meta", kind, UNSET))
    return _define(f"{cls.__name__}Block", fields, cls.__doc__ or "")


def _json_text(kind: JsonType) -> dict[str, object]:
    return {"contentMediaType": "application/json", "contentSchema": {"$ref": SCHEMA_REF.format(name=kind.__name__)}}


def _may_be_absent(text: FieldInfo) -> bool:
    """Whether the text can be in the blob store, or equal its default."""
    return BlobRef in get_args(text.type) or text.default is not NODEFAULT


def _meta_fields(cls: type[AnyBlock], layout: Layout) -> list[_Field]:
    if not layout.packed:
        return []
    outside = _TOP_LEVEL.union(layout.packed)
    fields: list[_Field] = [_field(one) for one in struct_fields(cls) if one.name not in outside]
    if layout.added:
        fields += [_field(one) for one in struct_fields(layout.added)]
    if layout.role:
        fields.append(("role", Literal[layout.role]))
    if any(BlobRef in get_args(one.type) for one in struct_fields(cls)):
        fields.append(("blobs", dict[str, BlobRef], UNSET))
    return fields


def _field(one: FieldInfo) -> _Field:
    """Return the field in its JSON form; a payload in the blob store is not among the fields of `meta`."""
    kind = str if set(get_args(one.type)) == {str, BlobRef} else one.type
    if one.default is NODEFAULT and one.default_factory is NODEFAULT:
        # A payload without a default is absent if it is in the blob store.
        return (one.encode_name, kind, UNSET) if kind is not one.type else (one.encode_name, kind)
    default: object = one.default if one.default is not NODEFAULT else one.default_factory()
    return (one.encode_name, kind, default)


def _define(name: str, fields: list[_Field], doc: str) -> JsonType:
    optional = [(one[0], _or_unset(one[1]), UNSET) if one[2:] == (UNSET,) else one for one in fields]
    return msgspec.defstruct(
        name, optional, kw_only=True, omit_defaults=True, namespace={"__doc__": doc}, module=__name__
    )


def _or_unset(kind: object) -> object:
    return cast(type, kind) | UnsetType
