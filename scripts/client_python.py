"""Generates the types and operations of the Python client."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from itertools import chain
from keyword import iskeyword

from scripts.client_model import Api, Component, Field, Json, Operation, name_of, sort_fields

BY_HAND = {"Block", "OtherBlock", "KnownBlock"}
"""Schemas whose Python types are in `timeloom.client.blocks`."""

TYPES_HEAD = '''"""Types of requests, responses, blocks and events, written by `make clients`."""

# A block with JSON in its `text` has a type for that JSON, such as `CallText`; see `timeloom.client.read_text`.

from __future__ import annotations

from typing import Any, Literal

import msgspec

from timeloom.client.blocks import Block


'''

OPERATIONS_HEAD = '''"""The operations of the HTTP API, written by `make clients`."""

from collections.abc import AsyncGenerator, Sequence
from typing import Literal

from timeloom.client import types
from timeloom.client.connection import UNSET, AttachedFile, Connection, Unset


class Operations(Connection):
    """Every operation as a method; path parameters come first, all others are keywords.

    A keyword that is not passed is not sent, so that the server's default applies.
    """

'''


def write_types(api: Api) -> str:
    """Return the module with a class for each schema."""
    unions = [one for one in api.used() if not one.is_object and one.name not in BY_HAND]
    objects = [one for one in api.used() if one.is_object]
    blocks = set(chain.from_iterable(api.block_types().values()))
    parts = [TYPES_HEAD]
    parts += [_struct(one, is_block=one.name in blocks) for one in _in_order(objects)]
    parts += [f"{one.name} = {_type(one.schema)}\n" for one in unions]
    parts += ["\n", *_tables(api)]
    return _format("".join(parts))


def write_operations(api: Api) -> str:
    """Return the module with a method for each operation."""
    return _format(OPERATIONS_HEAD + "\n".join(chain.from_iterable(map(_methods, api.operations))))


def _in_order(objects: list[Component]) -> list[Component]:
    """Return the objects so that a default value stands behind its type."""
    defaults = {one.name for one in objects if any(isinstance(field.default, dict) for field in one.fields)}
    return sorted(objects, key=lambda one: one.name in defaults)


def _struct(one: Component, *, is_block: bool) -> str:
    bases = ["Block", "msgspec.Struct"] if is_block else ["msgspec.Struct"]
    options = "frozen=True, kw_only=True, omit_defaults=True"
    head = f"class {one.name}({', '.join(bases)}, {options}):\n"
    lines = [f"    {_field(field)}\n{_field_docstring(field)}" for field in one.fields]
    return head + _docstring(one.description, 4) + "\n" + "".join(lines) + "\n\n"


def _field(field: Field) -> str:
    name = _python_name(field.name)
    alias = "" if name == field.name else f", name={json.dumps(field.name)}"
    text = _type(field.schema)
    if field.required:
        return f"{name}: {text}" + (f" = msgspec.field({alias[2:]})" if alias else "")
    if field.default is None and "default" not in field.schema:
        text = f"{text} | None"
    default = _default(field)
    return f"{name}: {text} = " + (f"msgspec.field(default={default}{alias})" if alias else default)


def _field_docstring(field: Field) -> str:
    return _docstring(field.description, 4) if field.description else ""


def _default(field: Field) -> str:
    if field.default == {} and "$ref" in field.schema:
        return f"msgspec.field(default_factory={name_of(field.schema['$ref'])})"
    return "()" if field.default == [] else repr(field.default)


def _tables(api: Api) -> Iterator[str]:
    events = api.event_types()
    yield f"EventData = {' | '.join(events.values())}\n"
    yield '"""The data of an event whose name is known."""\n\n'
    yield "EVENT_TYPES: dict[str, type[EventData]] = {\n"
    yield from (f"    {json.dumps(event)}: {kind},\n" for event, kind in events.items())
    yield '}\n"""The type of the data of each event."""\n\n'
    yield "BLOCK_TYPES: dict[str, tuple[type[Block], ...]] = {\n"
    yield from (f"    {json.dumps(kind)}: ({', '.join(names)},),\n" for kind, names in api.block_types().items())
    yield '}\n"""The classes of each block type; those of one type differ in `meta.role`."""\n\n'
    yield "TEXT_TYPES: dict[type[Block], type[Any]] = {\n"
    yield from (f"    {name}: {kind},\n" for name, kind in _text_types(api))
    yield '}\n"""The type of the JSON in the `text` of a block, where it has one."""\n'


def _text_types(api: Api) -> Iterator[tuple[str, str]]:
    for name in chain.from_iterable(api.block_types().values()):
        text = api.components[name].schema["properties"].get("text", {})
        if "contentSchema" in text:
            yield name, name_of(text["contentSchema"]["$ref"])


def _methods(one: Operation) -> Iterator[str]:
    if one.result:
        yield _method(one, one.name, _type(one.result, "types."), "request")
    if not (one.result or one.streams):
        yield _method(one, one.name, "bytes" if one.is_file else "None", "exchange")
    if one.streams and one.method == "GET":
        yield _method(one, one.name, "AsyncGenerator[types.EventData]", "follow")
    if one.streams and one.method != "GET":
        yield _method(one, f"{one.name}_and_stream", "AsyncGenerator[types.EventData]", "stream")


def _method(one: Operation, name: str, result: str, call: str) -> str:
    is_stream = call in ("follow", "stream")
    summary = one.summary if not is_stream or call == "follow" else f"{one.summary} Stream the events of its turn."
    arguments = [json.dumps(one.method), _path(one)]
    if call == "request":
        arguments.append(_result_types(one))
    if one.query:
        arguments.append(f"query={_values(one.query)}")
    if one.body:
        arguments.append(f"body={_values(one.body_fields)}")
    if one.accepts_files:
        arguments.append("files=files")
    inner = f"self.{call}({', '.join(arguments)})"
    prefix = "def" if is_stream else "async def"
    returns = "" if result == "None" else "return "
    return (
        f"    {prefix} {name}({_signature(one)}) -> {result}:\n{_docstring(summary, 8)}"
        f"        {returns}{inner if is_stream else f'await {inner}'}\n"
    )


def _path(one: Operation) -> str:
    return f"self.path({', '.join([json.dumps(one.path), *(f'{name}={name}' for name in one.path_names)])})"


def _signature(one: Operation) -> str:
    fields = sort_fields([*one.query, *one.body_fields])
    keywords = [
        f"{_python_name(field.name)}: "
        + (_type(field.schema, "types.") if field.required else f"{_with_unset(field.schema)} = UNSET")
        for field in fields
    ]
    if one.accepts_files:
        keywords.append("files: Sequence[AttachedFile] = ()")
    return ", ".join(["self", *(f"{name}: str" for name in one.path_names), *(["*"] if keywords else []), *keywords])


def _with_unset(schema: Json) -> str:
    text = _type(schema, "types.")
    return f"{text.removesuffix(' | None')} | Unset | None" if text.endswith(" | None") else f"{text} | Unset"


def _values(fields: Iterable[Field]) -> str:
    return "{" + ", ".join(f"{json.dumps(field.name)}: {_python_name(field.name)}" for field in fields) + "}"


def _result_types(one: Operation) -> str:
    result = one.result or {}
    options: list[Json] = result.get("anyOf", [result])
    return (
        ", ".join(_type(option, "types.") for option in options)
        if len(options) == 1
        else (f"({', '.join(_type(option, 'types.') for option in options)})")
    )


def _type(schema: Json, prefix: str = "") -> str:
    match schema:
        case {"$ref": str(target)}:
            name = name_of(target)
            return "Block" if name in BY_HAND else f"{prefix}{name}"
        case {"enum": [*values]}:
            return f"Literal[{', '.join(json.dumps(value) for value in values)}]"
        case {"const": value}:
            return f"Literal[{json.dumps(value)}]"
        case {"anyOf": [*options]} | {"oneOf": [*options]}:
            return " | ".join(dict.fromkeys(_type(one, prefix) for one in options))
        case {"type": "array", "items": items}:
            return f"tuple[{_type(items, prefix)}, ...]"
        case {"type": "array", "prefixItems": [*items]}:
            return f"tuple[{', '.join(_type(one, prefix) for one in items)}]"
        case {"type": "object", "additionalProperties": {**value}}:
            return f"dict[str, {_type(value, prefix)}]"
        case _:
            return _PRIMITIVES.get(schema.get("type", ""), "Any")


def _python_name(name: str) -> str:
    return f"{name}_" if iskeyword(name) else name


def _docstring(text: str, indent: int) -> str:
    wrapped = textwrap.wrap(text.replace("\\", "\\\\"), 112 - indent)
    pad = " " * indent
    if len(wrapped) < 2:
        return f'{pad}"""{text}"""\n'
    return "".join([f'{pad}"""{wrapped[0]}\n', *(f"{pad}{line}\n" for line in wrapped[1:]), f'{pad}"""\n'])


def _format(text: str) -> str:
    """Return the module in the one format of the repository."""
    command = [sys.executable, "-m", "ruff", "format", "--line-length", "120", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


_PRIMITIVES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}
