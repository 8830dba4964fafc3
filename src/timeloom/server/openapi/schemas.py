"""Builds the schemas of all bodies, responses, blocks and stream events."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import msgspec
from msgspec import inspect
from msgspec.structs import fields as struct_fields

from timeloom.server.endpoints import Endpoint
from timeloom.server.openapi.component_types import StructType, collect_types, is_always_sent, parts_of
from timeloom.server.openapi.field_docs import field_docs
from timeloom.server.openapi.stream_items import build_stream_items
from timeloom.wire.block_schema import block_types, source_row_type
from timeloom.wire.layouts import SCHEMA_REF

Json = dict[str, object]
"""A JSON object of the document."""

OTHER_BLOCK: Final[Json] = {
    "title": "OtherBlock",
    "description": (
        "A block of an unknown type, or one that another program wrote in another form. Most have the fields `type`, "
        "`author`, `turn_id`, `ts`, `mime`, `path`, `text`, `base64` and `meta`, but any JSON object is possible."
    ),
    "type": "object",
}

_NULL: Final[Json] = {"type": "null"}


@dataclass(frozen=True, slots=True)
class Schemas:
    """The components of the document, and the references to them by type."""

    components: dict[str, Json]
    refs: Mapping[type, Json]


def build_schemas(endpoints: Sequence[Endpoint]) -> Schemas:
    """Return the schemas of all types of the endpoints, of all blocks and of all stream events."""
    types = collect_types(endpoints)
    blocks = block_types()
    texts = [one.text_type for one in blocks if one.text_type]
    sent = [*types.responses, *(one.object_type for one in blocks), *texts, source_row_type()]
    roots = [*types.requests, *sent]
    found, components = msgspec.json.schema_components(roots, ref_template=SCHEMA_REF, schema_hook=_any_json_schema)
    components = cast(dict[str, Json], components)
    _check_sides(types.requests, sent)
    for kind in parts_of(sent):
        _describe_encoding(kind, components[kind.__name__])
    for kind in parts_of(roots):
        _describe_fields(components[kind.__name__], kind)
    for block in blocks:
        if meta := components.get(f"{block.cls.__name__}Meta"):
            _describe_fields(meta, block.cls)
    for kind in types.streams:
        components |= build_stream_items(kind)
    components |= _block_unions()
    return Schemas(components=components, refs=dict(zip(roots, found, strict=True)))


def _describe_encoding(kind: StructType, schema: Json) -> None:
    """Mark the fields that every value has as required; those that are absent if they are empty are never null."""
    fields = cast(inspect.StructType, inspect.type_info(kind)).fields
    properties = cast(dict[str, Json], schema["properties"])
    always = {one.encode_name for one in fields if is_always_sent(one, kind)}
    required = [name for name in properties if name in always or name in cast(list[str], schema["required"])]
    for name, value in properties.items():
        if name in required:
            value.pop("default", None)
        elif "default" in value and value["default"] is None:
            properties[name] = _without_null(value)
    schema["required"] = required


def _describe_fields(schema: Json, kind: StructType) -> None:
    """Add the docstrings of the fields."""
    properties = cast(dict[str, Json], schema["properties"])
    encoded = {one.name: one.encode_name for one in struct_fields(kind)}
    for name, doc in field_docs(kind).items():
        if (field := encoded.get(name, "")) in properties:
            properties[field]["description"] = doc


def _without_null(schema: Json) -> Json:
    options = cast(list[Json], schema.get("anyOf", []))
    rest = [one for one in options if one != _NULL]
    others = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    return {**others, **(rest[0] if len(rest) == 1 else {"anyOf": rest})}


def _check_sides(requests: Iterable[StructType], responses: Iterable[StructType]) -> None:
    """Raise if a name stands for two types, or for a type that is sent in both directions.

    A field with a default is optional in a request and required in most responses, so one schema cannot be both.
    """
    asked, sent = parts_of(requests), parts_of(responses)
    by_name: dict[str, StructType] = {}
    for kind in (*asked, *sent):
        if by_name.setdefault(kind.__name__, kind) is not kind:
            raise TypeError(f"two types of requests and responses are named {kind.__name__}; rename one of them")
    if both := set(asked).intersection(sent):
        raise TypeError(
            f"requests and responses share {', '.join(sorted(one.__name__ for one in both))}; separate them"
        )


def _block_unions() -> dict[str, Json]:
    by_type: dict[str, list[str]] = {}
    for one in block_types():
        by_type.setdefault(one.cls.type_name, []).append(one.object_type.__name__)
    shared = {_union_name(name): names for name, names in by_type.items() if len(names) > 1}
    chosen = {name: names[0] if len(names) == 1 else _union_name(name) for name, names in by_type.items()}
    return {
        **{name: _union(name, f"One of {', '.join(names)}.", names) for name, names in shared.items()},
        "KnownBlock": {
            **_union("KnownBlock", "A block of a type that timeloom writes.", chosen.values()),
            "discriminator": {"propertyName": "type", "mapping": {key: ref(name) for key, name in chosen.items()}},
        },
        "OtherBlock": OTHER_BLOCK,
        "Block": {
            "title": "Block",
            "description": "A block of the timeline. Clients keep blocks that they do not know.",
            "anyOf": [{"$ref": ref("KnownBlock")}, {"$ref": ref("OtherBlock")}],
        },
    }


def _union_name(type_name: str) -> str:
    """Return the name for all block classes of one type: `ToolResultBlock` for `react.tool.result`."""
    return "".join(part.title() for part in type_name.split(".")[1:]) + "Block"


def _union(name: str, description: str, names: Iterable[str]) -> Json:
    return {"title": name, "description": description, "oneOf": [{"$ref": ref(one)} for one in names]}


def ref(name: str) -> str:
    """Return the reference to the schema with that name."""
    return SCHEMA_REF.format(name=name)


def _any_json_schema(kind: type) -> Json:
    """Return the schema of values that may be any JSON."""
    if kind is object:
        return {"$comment": "any JSON value"}
    raise NotImplementedError
