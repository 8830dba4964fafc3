"""Generates the types and routes of the TypeScript client of the page."""

import json
import re
from collections.abc import Iterator

from scripts.client_model import PROJECT, Api, Component, Field, Json, Operation, name_of

HEAD = "// Written by `make clients` from the OpenAPI document.\n\n"
NAME = re.compile(r"[A-Za-z_]\w*")


def write_typescript(api: Api) -> str:
    """Return the text of the module: a type for each schema, the events, and a table of the routes."""
    return HEAD + "".join([*(_component(one) for one in api.used()), _events(api), *_operations(api), _routes(api)])


def _component(one: Component) -> str:
    comment = _comment(one.description)
    if one.name == "OtherBlock":
        return f"{comment}export type OtherBlock = Record<string, unknown>;\n\n"
    if not one.is_object:
        return f"{comment}export type {one.name} = {_type(one.schema)};\n\n"
    lines = [f"{_comment(field.description, '  ')}  {_field(field)}\n" for field in one.fields]
    if one.schema.get("additionalProperties") is True:
        lines.append("  [name: string]: unknown;\n")
    return f"{comment}export interface {one.name} {{\n{''.join(lines)}}}\n\n"


def _comment(text: str, indent: str = "") -> str:
    return f"{indent}/** {text.replace('*/', '* /')} */\n" if text else ""


def _events(api: Api) -> str:
    rows = "".join(f"  {json.dumps(event)}: {kind};\n" for event, kind in api.event_types().items())
    return (
        f"/** The data of each event of a stream, by the event's name. */\nexport interface StreamData {{\n{rows}}}\n\n"
        "/** An event of a stream whose name is known. */\n"
        "export type StreamEvent = {\n"
        "  [K in keyof StreamData]: { event: K; data: StreamData[K] };\n"
        "}[keyof StreamData];\n\n"
    )


def _operations(api: Api) -> Iterator[str]:
    yield "/** The arguments and the result of each operation. */\nexport interface Operations {\n"
    for one in api.operations:
        yield f"  /** {one.summary} */\n  {one.name}: {{ {_arguments(one)}; result: {_result(one)} }};\n"
    yield "}\n\n"


def _arguments(one: Operation) -> str:
    parts = [f"{name}: string" for name in one.path_names]
    if one.query:
        mark = "" if any(field.required for field in one.query) else "?"
        parts.append(f"query{mark}: {{ {' '.join(map(_field, one.query))} }}")
    if one.body:
        parts.append(f"body: {one.body}")
    return f"arguments: {{ {'; '.join(parts)} }}" if parts else "arguments: Record<never, never>"


def _result(one: Operation) -> str:
    return _type(one.result) if one.result else "undefined"


def _routes(api: Api) -> str:
    rows = "".join(f"  {one.name}: [{json.dumps(one.method)}, {json.dumps(one.path)}],\n" for one in api.operations)
    return (
        f"/** The method and the path of each operation; {' and '.join(PROJECT)} are those of the client. */\n"
        f"export const ROUTES: Record<keyof Operations, readonly [string, string]> = {{\n{rows}}};\n"
    )


def _field(field: Field) -> str:
    name = field.name if NAME.fullmatch(field.name) else json.dumps(field.name)
    return f"{name}{'' if field.required else '?'}: {_type(field.schema)};"


def _type(schema: Json) -> str:
    match schema:
        case {"$ref": str(target)}:
            return name_of(target)
        case {"enum": [*values]}:
            return " | ".join(json.dumps(value) for value in values)
        case {"const": value}:
            return json.dumps(value)
        case {"anyOf": [*options]} | {"oneOf": [*options]}:
            return " | ".join(dict.fromkeys(map(_type, options)))
        case {"type": "array", "items": items}:
            return f"{_in_array(_type(items))}[]"
        case {"type": "array", "prefixItems": [*items]}:
            return f"[{', '.join(map(_type, items))}]"
        case {"type": "object", "additionalProperties": {**value}}:
            return f"Record<string, {_type(value)}>"
        case _:
            return _PRIMITIVES.get(schema.get("type", ""), "unknown")


def _in_array(text: str) -> str:
    return f"({text})" if " | " in text else text


_PRIMITIVES = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "Record<string, unknown>",
}
