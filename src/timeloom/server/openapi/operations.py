"""Describes one operation of the document: its parameters, its body, its responses and its errors."""

import re
from collections.abc import Iterator
from typing import Final, cast

from starlette.responses import Response

from timeloom.server.auth.authenticate import FORM_TYPE
from timeloom.server.authorize import PROJECT_HEADER, TENANT_HEADER
from timeloom.server.endpoints import Endpoint
from timeloom.server.http.downloads import FileDownload
from timeloom.server.http.sse import EventStream
from timeloom.server.http.uploads import FILES_FIELD, FORM
from timeloom.server.openapi.component_types import json_type
from timeloom.server.openapi.errors import describe_codes, errors_of
from timeloom.server.openapi.schemas import Json, Schemas, ref

JSON_TYPE: Final = "application/json"

_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_NULL: Final[Json] = {"type": "null"}
_TEXT: Final[Json] = {"type": "string"}

RESPONSE_HEADERS: Final = {
    401: {"WWW-Authenticate": "The scheme, and for an invalid token the reason."},
    429: {"Retry-After": "Seconds after which a retry may succeed."},
    503: {"Retry-After": "Seconds after which a retry may succeed."},
}
"""Headers of error responses; a message that was stored has no Retry-After, so they are optional."""


def describe_operation(one: Endpoint, schemas: Schemas) -> Json:
    """Return the operation object of the route."""
    summary, _, description = one.summary.partition("\n")
    operation: Json = {
        "operationId": one.name,
        "tags": [one.path.split("/")[1]],
        "summary": summary,
        "parameters": [*_path_parameters(one), *_query_parameters(one, schemas), *_header_parameters(one)],
        "security": [] if one.requires == "anybody" else [{"token": []}],
        "responses": {**_results(one, schemas), **_errors(one, schemas)},
    }
    if description.strip():
        operation["description"] = " ".join(description.split())
    if one.body_type:
        operation["requestBody"] = {"required": True, "content": _body_content(one, schemas)}
    return operation


def _body_content(one: Endpoint, schemas: Schemas) -> Json:
    body = schemas.refs[cast(type, one.body_type)]
    content: Json = {JSON_TYPE: {"schema": body}}
    if one.form_refusal:
        content[FORM_TYPE] = {"schema": body}
    if one.accepts_files:
        schema = _component(body, schemas)
        files: Json = {"type": "array", "items": {"type": "string", "format": "binary"}}
        properties: Json = {**cast(Json, schema["properties"]), FILES_FIELD: files}
        content[FORM] = {"schema": {**schema, "title": f"{schema['title']}WithFiles", "properties": properties}}
    return content


def _path_parameters(one: Endpoint) -> list[Json]:
    names = cast(list[str], _PARAMETER.findall(one.path))
    return [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names]


def _query_parameters(one: Endpoint, schemas: Schemas) -> Iterator[Json]:
    if one.query_type is None:
        return
    schema = _component(schemas.refs[one.query_type], schemas)
    for name, value in cast(dict[str, Json], schema["properties"]).items():
        parameter: Json = {
            "name": name,
            "in": "query",
            "required": name in cast(list[str], schema["required"]),
            "schema": _query_schema(value),
        }
        yield parameter | ({"description": value["description"]} if "description" in value else {})


def _query_schema(schema: Json) -> Json:
    """Return the schema without null, which an address cannot express: the parameter is left out instead."""
    options = [option for option in cast(list[Json], schema.get("anyOf", [])) if option != _NULL]
    return options[0] if len(options) == 1 else {key: value for key, value in schema.items() if key != "description"}


def _header_parameters(one: Endpoint) -> list[Json]:
    names: dict[str, str] = {}
    if one.requires == "known":
        names[TENANT_HEADER] = "The tenant, if it is not that of the token."
        names[PROJECT_HEADER] = "The project, if it is not that of the token."
    if one.method == "GET" and EventStream in one.response_types:
        names["Last-Event-ID"] = "The id of the last block that the client received; the stream continues after it."
    if FileDownload in one.response_types:
        names["Range"] = "The requested bytes, such as bytes=0-99."
        names["If-Range"] = "The ETag that the range belongs to; if the file has another one, all of it is sent."
        names["If-None-Match"] = "The ETags that the client has cached."
    return [
        {"name": name, "in": "header", "description": description, "required": False, "schema": _TEXT}
        for name, description in names.items()
    ]


def _results(one: Endpoint, schemas: Schemas) -> Json:
    """Return the responses of success: JSON has the status of the route, and a stream begins with 200."""
    options: list[Json] = []
    contents: dict[str, Json] = {}
    for kind in one.response_types:
        if value_type := json_type(kind):
            options.append(schemas.refs[value_type])
        elif issubclass(kind, EventStream):
            contents.setdefault("200", {})[kind.media_type] = {"schema": {"$ref": ref(kind.schema_name)}}
        elif issubclass(kind, Response) and kind.media_type:
            contents.setdefault("200", {})[kind.media_type.partition(";")[0]] = {"schema": _binary_schema(kind)}
    if options:
        schema = options[0] if len(options) == 1 else {"anyOf": options}
        contents.setdefault(str(one.status), {})[JSON_TYPE] = {"schema": schema}
    results: Json = {status: {"description": _meaning(one), "content": content} for status, content in contents.items()}
    if not results:
        results[str(one.status)] = {"description": _meaning(one)}
    return {**results, **_file_results(one), **_form_results(one)}


def _meaning(one: Endpoint) -> str:
    return one.summary.partition("\n")[0]


def _binary_schema(kind: type[Response]) -> Json:
    return {"type": "string", "format": "binary"} if issubclass(kind, FileDownload) else _TEXT


def _file_results(one: Endpoint) -> Json:
    if FileDownload not in one.response_types:
        return {}
    content: Json = {"*/*": {"schema": _binary_schema(FileDownload)}}
    return {
        "206": {
            "description": "The requested range.",
            "headers": {"Content-Range": {"required": True, "schema": _TEXT}},
            "content": content,
        },
        "304": {"description": "The client's cached version is current."},
    }


def _form_results(one: Endpoint) -> Json:
    if not one.form_refusal:
        return {}
    location: Json = {"Location": {"required": True, "schema": _TEXT}}
    return {"303": {"description": "The answer to a page's own form: the page to open.", "headers": location}}


def _errors(one: Endpoint, schemas: Schemas) -> Json:
    return {str(status): _error(one, status, codes, schemas) for status, codes in errors_of(one).items()}


def _error(one: Endpoint, status: int, codes: tuple[str, ...], schemas: Schemas) -> Json:
    kind = one.error_format
    schema: Json = schemas.refs[kind.body_type]
    if status != 500:
        # Any unexpected failure is 500, with any code.
        schema = {"allOf": [schema], **kind.limit_codes(codes)}
    response: Json = {"description": describe_codes(codes), "content": {kind.media_type: {"schema": schema}}}
    if names := RESPONSE_HEADERS.get(status):
        response["headers"] = {name: {"description": text, "schema": _TEXT} for name, text in names.items()}
    return response


def _component(reference: Json, schemas: Schemas) -> Json:
    return schemas.components[cast(str, reference["$ref"]).rpartition("/")[2]]
