"""Compares what the server sends with its OpenAPI document: statuses, media types, fields, codes and stream events.

Every client of the server tests checks each response. The check is stricter than the document: a response must not have
a field that the document lacks, and a block of a known type must have the form that timeloom writes.
"""

import json
import re
from functools import cache
from typing import Any, cast

import httpx2
import jsonschema_rs

from timeloom.server.endpoints import ENDPOINTS, Endpoint
from timeloom.server.openapi.document import build_document

Json = dict[str, Any]

OPEN = frozenset({"OtherBlock", "SourceRow"})
"""Schemas of objects that may have any further field."""


@cache
def document() -> Json:
    return json.loads(build_document(ENDPOINTS))


@cache
def strict_schemas() -> Json:
    """The schemas, without further fields and without the blocks that only other programs write."""
    schemas: Json = json.loads(json.dumps(document()["components"]["schemas"]))
    for name, schema in schemas.items():
        if name not in OPEN and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        if name.endswith("Meta"):
            # `conv.timeline.v1` marks hidden blocks.
            schema["properties"] |= {"hidden": {"const": True}, "replacement_text": {"type": "string"}}
    for name, schema in schemas.items():
        if name.endswith("Block") and "properties" in schema:
            schema["properties"].setdefault("meta", {"$ref": "#/components/schemas/NoMeta"})
    schemas["NoMeta"] = {"properties": {"hidden": {}, "replacement_text": {}}, "additionalProperties": False}
    known = list(schemas["KnownBlock"]["discriminator"]["mapping"])
    schemas["OtherBlock"]["not"] = {"properties": {"type": {"enum": known}}, "required": ["type"]}
    return schemas


@cache
def validator(schema: str) -> Any:
    return jsonschema_rs.validator_for({**json.loads(schema), "components": {"schemas": strict_schemas()}})


def assert_fits(schema: Json, value: object, where: str) -> None:
    found = [f"{list(error.instance_path)}: {error.message[:300]}" for error in errors(schema, value)]
    assert not found, f"{where} differs from the OpenAPI document: {found[:3]} in {json.dumps(value)[:2000]}"


def errors(schema: Json, value: object) -> list[Any]:
    return list(validator(json.dumps(schema, sort_keys=True)).iter_errors(value))


@cache
def patterns() -> tuple[tuple[Endpoint, re.Pattern[str]], ...]:
    return tuple((one, re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(one.path)))) for one in ENDPOINTS)


def find_endpoint(method: str, path: str) -> Endpoint | None:
    """The route that answered; None for the page, and for requests that reach no route."""
    fitting = [one for one, pattern in patterns() if one.method == method and pattern.fullmatch(path)]
    return min(fitting, key=lambda one: one.path.count("{"), default=None)


async def check_response(response: httpx2.Response) -> None:
    """Compare a response with the document; of a stream only its status and its type."""
    request = response.request
    endpoint = find_endpoint(request.method, request.url.path)
    if endpoint is None:
        return
    described = document()["paths"][endpoint.path][endpoint.method.lower()]["responses"]
    where = f"{request.method} {request.url.path}: {response.status_code}"
    assert str(response.status_code) in described, f"{where} is not in the OpenAPI document"
    contents = cast(Json, described[str(response.status_code)].get("content", {}))
    media_type = response.headers.get("content-type", "").partition(";")[0]
    if media_type == "text/event-stream":
        assert media_type in contents, where
        return
    body = await response.aread()
    if not contents:
        assert body == b"", where
        return
    content = contents.get(media_type) or contents.get("*/*")
    assert content, f"{where} has the media type {media_type}, the OpenAPI document says {list(contents)}"
    if media_type.endswith("json") and "*/*" not in contents:
        assert_fits(content["schema"], json.loads(body), where)


def check_event(name: str, data: object, event_id: int) -> None:
    """Compare an event of a conversation's stream with the document."""
    mapping = document()["components"]["schemas"]["StreamEvent"]["discriminator"]["mapping"]
    item = document()["components"]["schemas"][mapping[name].rpartition("/")[2]]
    assert ("id" in item["required"]) == bool(event_id), name
    assert_fits(item["properties"]["data"]["contentSchema"], data, name)
