"""The struct types that bodies and responses consist of, and what their encoding says about required fields."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

import msgspec
from msgspec import NODEFAULT, inspect

from timeloom.server.endpoints import Endpoint
from timeloom.server.http.json_stream import JsonStream
from timeloom.server.http.sse import EventStream

StructType = type[msgspec.Struct]


def json_type(kind: type[object]) -> StructType | None:
    """Return the type of the JSON value that a response type stands for; None for other responses."""
    if issubclass(kind, JsonStream):
        return kind.value_type
    return kind if issubclass(kind, msgspec.Struct) else None


@dataclass(frozen=True, slots=True)
class ComponentTypes:
    """The types of all bodies and responses of the endpoints, each once and in order of appearance."""

    requests: dict[StructType, None] = field(default_factory=dict[StructType, None])
    responses: dict[StructType, None] = field(default_factory=dict[StructType, None])
    streams: dict[type[EventStream], None] = field(default_factory=dict[type[EventStream], None])


def collect_types(endpoints: Iterable[Endpoint]) -> ComponentTypes:
    """Return the types of the endpoints, without the parts of which they consist."""
    found = ComponentTypes()
    for one in endpoints:
        for kind in (one.body_type, one.query_type):
            if kind:
                found.requests[cast(StructType, kind)] = None
        found.responses[one.error_format.body_type] = None
        for kind in one.response_types:
            if issubclass(kind, EventStream):
                found.streams[kind] = None
                found.responses.update(dict.fromkeys(kind.data_types))
            elif value_type := json_type(kind):
                found.responses[value_type] = None
    return found


def parts_of(kinds: Iterable[StructType]) -> list[StructType]:
    """Return these types and all struct types inside them, each once."""
    found: dict[StructType, None] = {}
    for kind in kinds:
        _add_parts(inspect.type_info(kind), found)
    return list(found)


def _add_parts(info: inspect.Type, found: dict[StructType, None]) -> None:
    if isinstance(info, inspect.StructType):
        if info.cls in found:
            return
        found[info.cls] = None
    for inner in _inner_types(info):
        _add_parts(inner, found)


def _inner_types(info: inspect.Type) -> Iterator[inspect.Type]:
    match info:
        case inspect.StructType(fields=fields):
            yield from (one.type for one in fields)
        case inspect.UnionType(types=types):
            yield from types
        case inspect.TupleType(item_types=types):
            yield from types
        case inspect.DictType(value_type=value):
            yield value
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            yield item
        case inspect.Metadata(type=inner):
            yield inner
        case _:
            pass


def is_always_sent(one: inspect.Field, kind: StructType) -> bool:
    """Whether every encoded value of the type has the field."""
    may_be_unset = one.default is NODEFAULT and one.default_factory is NODEFAULT
    return one.required or not (may_be_unset or kind.__struct_config__.omit_defaults)
