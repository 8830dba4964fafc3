"""Builds the OpenAPI document from the table of routes and its types."""

import re
from collections.abc import Sequence
from typing import Final, cast

import msgspec
from starlette.responses import Response, StreamingResponse

from timeloom import __version__
from timeloom.server.endpoints import Operation
from timeloom.server.http.downloads import Download
from timeloom.server.http.problem_json import MEDIA_TYPE as PROBLEM_TYPE
from timeloom.server.http.problem_json import Problem
from timeloom.server.http.sse import EventStream
from timeloom.server.http.uploads import FORM

Json = dict[str, object]
"""A JSON object of the document."""

_REF: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


def document(operations: Sequence[Operation]) -> bytes:
    """Return the OpenAPI document as JSON."""
    kinds = {kind: None for one in operations for kind in (one.body, one.query, *one.answers) if _is_struct(kind)}
    schemas, components = msgspec.json.schema_components([*kinds, Problem], ref_template=_REF, schema_hook=_anything)
    refs: dict[type | None, Json] = dict(zip([*kinds, Problem], schemas, strict=True))
    paths: dict[str, Json] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, refs, components)
    said: Json = {
        "openapi": "3.1.0",
        "info": {"title": "timeloom", "version": __version__},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
    return msgspec.json.encode(said)


def _operation(one: Operation, refs: dict[type | None, Json], components: Json) -> Json:
    said: Json = {
        "operationId": one.name,
        "summary": one.summary,
        "parameters": [*_path_parameters(one), *_query_parameters(one, refs, components), *_header_parameters(one)],
        "security": [] if one.who == "anybody" else [{"token": []}],
        "responses": {
            str(one.status): {"description": one.summary, **_contents(one, refs)},
            **(_parts(one, refs) if Download in one.answers else {}),
            "default": {"description": "An error.", **_problem(refs)},
        },
    }
    if one.body:
        said["requestBody"] = {"required": True, "content": _bodies(one, refs[one.body], components)}
    return said


def _bodies(one: Operation, body: Json, components: Json) -> Json:
    content: Json = {"application/json": {"schema": body}}
    if one.takes_files:
        schema = cast(Json, components[cast(str, body["$ref"]).rpartition("/")[2]])
        files: Json = {"type": "array", "items": {"type": "string", "format": "binary"}}
        properties: Json = {**cast(Json, schema["properties"]), "files": files}
        content[FORM] = {"schema": {**schema, "title": f"{schema['title']}WithFiles", "properties": properties}}
    return content


def _path_parameters(one: Operation) -> list[Json]:
    names = cast(list[str], _PARAMETER.findall(one.path))
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(one: Operation, refs: dict[type | None, Json], components: Json) -> list[Json]:
    if one.query is None:
        return []
    name = cast(str, refs[one.query]["$ref"]).rpartition("/")[2]
    schema = cast(dict[str, Json], components[name])
    return [{"name": key, "in": "query", "schema": value} for key, value in schema["properties"].items()]


def _header_parameters(one: Operation) -> list[Json]:
    names: dict[str, str] = {}
    if one.method == "GET" and EventStream in one.answers:
        names["Last-Event-ID"] = "The id of the last block that the client received; the stream continues after it."
    if Download in one.answers:
        names["Range"] = "The requested bytes, such as bytes=0-99."
        names["If-Range"] = "The ETag that the range belongs to; if the file has another one, all of it is sent."
        names["If-None-Match"] = "The ETags that the client has cached."
    return [
        {"name": name, "in": "header", "description": words, "schema": {"type": "string"}}
        for name, words in names.items()
    ]


def _parts(one: Operation, refs: dict[type | None, Json]) -> Json:
    range_header: Json = {"Content-Range": {"schema": {"type": "string"}}}
    return {
        "206": {"description": "The requested range.", "headers": range_header, **_contents(one, refs)},
        "304": {"description": "The client's cached version is current."},
        "416": {"description": "The range lies outside the file.", "headers": range_header, **_problem(refs)},
    }


def _problem(refs: dict[type | None, Json]) -> Json:
    return {"content": {PROBLEM_TYPE: {"schema": refs[Problem]}}}


def _contents(one: Operation, refs: dict[type | None, Json]) -> Json:
    content: Json = {}
    for kind in one.answers:
        if _is_struct(kind):
            content["application/json"] = {"schema": refs[kind]}
        elif kind is StreamingResponse:
            content.setdefault("application/json", {"schema": {"type": "object"}})
        elif issubclass(kind, Response) and kind.media_type:
            content[kind.media_type.partition(";")[0]] = {"schema": {"type": "string"}}
    return {"content": content} if content else {}


def _is_struct(kind: type | None) -> bool:
    return kind is not None and issubclass(kind, msgspec.Struct)


def _anything(kind: type) -> Json:
    """Return the schema of values that may be any JSON."""
    if kind is object:
        return {}
    raise NotImplementedError
