"""Builds the OpenAPI document from the table of routes and its types."""

import re
from collections.abc import Sequence
from typing import Final, cast

import msgspec
from starlette.responses import Response, StreamingResponse

from timeloom import __version__
from timeloom.server.auth.authenticate import FORM_TYPE
from timeloom.server.endpoints import Endpoint
from timeloom.server.http.downloads import FileDownload
from timeloom.server.http.problem_json import MEDIA_TYPE as PROBLEM_TYPE
from timeloom.server.http.problem_json import ProblemDetails
from timeloom.server.http.sse import EventStream
from timeloom.server.http.uploads import FORM

Json = dict[str, object]
"""A JSON object of the document."""

_REF: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


def build_document(operations: Sequence[Endpoint]) -> bytes:
    """Return the OpenAPI document as JSON."""
    types = {
        kind: None
        for one in operations
        for kind in (one.body_type, one.query_type, *one.response_types)
        if _is_struct(kind)
    }
    schemas, components = msgspec.json.schema_components(
        [*types, ProblemDetails], ref_template=_REF, schema_hook=_any_json_schema
    )
    refs: dict[type | None, Json] = dict(zip([*types, ProblemDetails], schemas, strict=True))
    paths: dict[str, Json] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, refs, components)
    openapi: Json = {
        "openapi": "3.1.0",
        "info": {"title": "timeloom", "version": __version__},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
    return msgspec.json.encode(openapi)


def _operation(one: Endpoint, refs: dict[type | None, Json], components: Json) -> Json:
    operation: Json = {
        "operationId": one.name,
        "summary": one.summary,
        "parameters": [*_path_parameters(one), *_query_parameters(one, refs, components), *_header_parameters(one)],
        "security": [] if one.requires == "anybody" else [{"token": []}],
        "responses": {
            str(one.status): {"description": one.summary, **_response_content(one, refs)},
            **(_range_responses(one, refs) if FileDownload in one.response_types else {}),
            "default": {"description": "An error.", **_problem_content(refs)},
        },
    }
    if one.body_type:
        operation["requestBody"] = {"required": True, "content": _body_content(one, refs[one.body_type], components)}
    return operation


def _body_content(one: Endpoint, body: Json, components: Json) -> Json:
    content: Json = {"application/json": {"schema": body}}
    if one.form_refusal:
        content[FORM_TYPE] = {"schema": body}
    if one.accepts_files:
        schema = cast(Json, components[cast(str, body["$ref"]).rpartition("/")[2]])
        files: Json = {"type": "array", "items": {"type": "string", "format": "binary"}}
        properties: Json = {**cast(Json, schema["properties"]), "files": files}
        content[FORM] = {"schema": {**schema, "title": f"{schema['title']}WithFiles", "properties": properties}}
    return content


def _path_parameters(one: Endpoint) -> list[Json]:
    names = cast(list[str], _PARAMETER.findall(one.path))
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(one: Endpoint, refs: dict[type | None, Json], components: Json) -> list[Json]:
    if one.query_type is None:
        return []
    name = cast(str, refs[one.query_type]["$ref"]).rpartition("/")[2]
    schema = cast(dict[str, Json], components[name])
    return [{"name": key, "in": "query", "schema": value} for key, value in schema["properties"].items()]


def _header_parameters(one: Endpoint) -> list[Json]:
    names: dict[str, str] = {}
    if one.method == "GET" and EventStream in one.response_types:
        names["Last-Event-ID"] = "The id of the last block that the client received; the stream continues after it."
    if FileDownload in one.response_types:
        names["Range"] = "The requested bytes, such as bytes=0-99."
        names["If-Range"] = "The ETag that the range belongs to; if the file has another one, all of it is sent."
        names["If-None-Match"] = "The ETags that the client has cached."
    return [
        {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}
        for name, description in names.items()
    ]


def _range_responses(one: Endpoint, refs: dict[type | None, Json]) -> Json:
    range_header: Json = {"Content-Range": {"schema": {"type": "string"}}}
    return {
        "206": {"description": "The requested range.", "headers": range_header, **_response_content(one, refs)},
        "304": {"description": "The client's cached version is current."},
        "416": {"description": "The range lies outside the file.", "headers": range_header, **_problem_content(refs)},
    }


def _problem_content(refs: dict[type | None, Json]) -> Json:
    return {"content": {PROBLEM_TYPE: {"schema": refs[ProblemDetails]}}}


def _response_content(one: Endpoint, refs: dict[type | None, Json]) -> Json:
    content: Json = {}
    for kind in one.response_types:
        if _is_struct(kind):
            content["application/json"] = {"schema": refs[kind]}
        elif kind is StreamingResponse:
            content.setdefault("application/json", {"schema": {"type": "object"}})
        elif issubclass(kind, Response) and kind.media_type:
            content[kind.media_type.partition(";")[0]] = {"schema": {"type": "string"}}
    return {"content": content} if content else {}


def _is_struct(kind: type | None) -> bool:
    return kind is not None and issubclass(kind, msgspec.Struct)


def _any_json_schema(kind: type) -> Json:
    """Return the schema of values that may be any JSON."""
    if kind is object:
        return {}
    raise NotImplementedError
