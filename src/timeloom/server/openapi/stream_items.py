"""Schemas of the events of a stream, as parsers of server-sent events return them.

An event is an object with `event`, `data` and `id`. `data` is a string with JSON; its schema is in `contentSchema`.
"""

import msgspec

from timeloom.runtime.hub.events import ChatBlock
from timeloom.server.http.sse import EventStream
from timeloom.wire.layouts import SCHEMA_REF

Json = dict[str, object]


def build_stream_items(stream: type[EventStream]) -> dict[str, Json]:
    """Return the schema of one event of the stream, and those of which it consists."""
    named = {_event_name(kind): kind for kind in stream.data_types if _event_name(kind)}
    if not named:
        return {stream.schema_name: _unnamed_item(stream)}
    items = {f"{kind.__name__}Event": _named_item(name, kind) for name, kind in named.items()}
    mapping = {name: SCHEMA_REF.format(name=f"{kind.__name__}Event") for name, kind in named.items()}
    union: Json = {
        "title": stream.schema_name,
        "description": "An event of the stream of a conversation.",
        "oneOf": [{"$ref": one} for one in mapping.values()],
        "discriminator": {"propertyName": "event", "mapping": mapping},
    }
    return {**items, stream.schema_name: union}


def _event_name(kind: type[msgspec.Struct]) -> str:
    """Return the name of the event with that data; empty if events of that stream have no name, or none is sent."""
    return getattr(kind, "name", "") if isinstance(getattr(kind, "name", ""), str) else ""


def _named_item(name: str, kind: type[msgspec.Struct]) -> Json:
    has_id = kind is ChatBlock
    id_schema: Json = {"type": "string", "pattern": "^[0-9]+$", "description": "The seq of the last block."}
    return {
        "title": f"{kind.__name__}Event",
        "description": kind.__doc__ or "",
        "type": "object",
        "properties": {"event": {"const": name}, "data": _json_text(kind), "id": id_schema},
        "required": ["event", "data", "id"] if has_id else ["event", "data"],
    }


def _unnamed_item(stream: type[EventStream]) -> Json:
    options: list[Json] = [_json_text(kind) for kind in stream.data_types]
    if stream.last_data:
        options.append({"const": stream.last_data})
    return {
        "title": stream.schema_name,
        "description": stream.__doc__ or "",
        "type": "object",
        "properties": {"data": {"anyOf": options}},
        "required": ["data"],
    }


def _json_text(kind: type[msgspec.Struct]) -> Json:
    return {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {"$ref": SCHEMA_REF.format(name=kind.__name__)},
    }
