"""The OpenAPI document describes the requests, responses, blocks and stream events by their types."""

import json
import re
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from starlette.responses import Response

from tests.server.contract_check import document
from timeloom.core.blocks import BLOCK_TYPES
from timeloom.core.paths import MAX_NUMBER
from timeloom.runtime.hub.events import Event
from timeloom.server.endpoints import ENDPOINTS, Endpoint
from timeloom.server.http.problem_json import STATUSES
from timeloom.server.openapi.document import build_document
from timeloom.server.openapi.field_docs import field_docs
from timeloom.server.protocols.openai.stream import DONE

ONE = "/conversations/{tenant}/{project}/{conversation_id}"


def schema(name: str) -> Any:
    return document()["components"]["schemas"][name]


def operation(method: str, path: str) -> Any:
    return document()["paths"][path][method]


def parameters(method: str, path: str) -> dict[str, Any]:
    return {one["name"]: one for one in operation(method, path)["parameters"]}


def names_in(schemas: list[dict[str, str]]) -> list[str]:
    return [one["$ref"].rpartition("/")[2] for one in schemas]


def test_every_reference_leads_to_a_schema() -> None:
    references = set(re.findall(r'"\$ref": ?"([^"]+)"', json.dumps(document())))
    assert references - {f"#/components/schemas/{name}" for name in document()["components"]["schemas"]} == set()


@pytest.mark.parametrize("name", document()["components"]["schemas"])
def test_every_schema_is_one_of_json_schema(name: str) -> None:
    jsonschema_rs.meta.validate({**schema(name), "$schema": "https://json-schema.org/draft/2020-12/schema"})


def test_every_block_type_has_a_schema_by_its_type() -> None:
    mapping = schema("KnownBlock")["discriminator"]["mapping"]
    assert mapping.keys() == BLOCK_TYPES.keys()
    assert names_in(schema("KnownBlock")["oneOf"]) == [target.rpartition("/")[2] for target in mapping.values()]
    assert names_in(schema("Block")["anyOf"]) == ["KnownBlock", "OtherBlock"]
    assert len(schema("ToolResultBlock")["oneOf"]) == 3


def test_a_page_of_the_timeline_has_blocks_and_a_page_of_sources_rows() -> None:
    assert schema("TimelinePage")["properties"]["blocks"]["items"] == {"$ref": "#/components/schemas/Block"}
    assert schema("SourcesPage")["properties"]["rows"]["items"] == {"$ref": "#/components/schemas/SourceRow"}


def test_every_stream_event_has_a_schema_by_its_name() -> None:
    mapping = schema("StreamEvent")["discriminator"]["mapping"]
    assert set(mapping) == {kind.name for kind in Event.__args__ if kind.name}
    data = schema("ChatBlockEvent")["properties"]["data"]
    assert (data["contentMediaType"], data["contentSchema"]) == (
        "application/json",
        {"$ref": "#/components/schemas/ChatBlock"},
    )
    assert "id" in schema("ChatBlockEvent")["required"]
    assert "id" not in schema("ChatDeltaEvent")["required"]


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("get", "/chat/{tenant}/{project}/{conversation_id}/stream", "StreamEvent"),
        ("post", "/chat/{tenant}/{project}", "StreamEvent"),
        ("post", "/ag-ui", "RunStreamEvent"),
        ("post", "/v1/chat/completions", "CompletionStreamEvent"),
    ],
)
def test_a_stream_names_the_events_of_its_protocol(method: str, path: str, name: str) -> None:
    content = operation(method, path)["responses"]["200"]["content"]["text/event-stream"]
    assert content["schema"] == {"$ref": f"#/components/schemas/{name}"}


def test_a_stream_of_completions_ends_with_a_word() -> None:
    assert schema("CompletionStreamEvent")["properties"]["data"]["anyOf"][-1] == {"const": DONE}


def test_parameters_say_whether_they_are_required_and_what_they_accept() -> None:
    words = parameters("get", "/conversations/{tenant}/{project}/search")["words"]
    assert (words["required"], words["schema"]) == (True, {"type": "string", "minLength": 1})
    timeline = parameters("get", f"{ONE}/timeline")
    assert timeline["form"]["schema"] == {"enum": ["blocks", "export", "restored"], "default": "blocks"}
    assert timeline["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 500}
    assert not timeline["limit"]["required"]
    assert parameters("get", f"{ONE}/prompt")["round"]["schema"] == {
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_NUMBER,
    }


def test_the_timeline_has_the_shape_of_each_form() -> None:
    content = operation("get", f"{ONE}/timeline")["responses"]["200"]["content"]["application/json"]
    assert names_in(content["schema"]["anyOf"]) == ["TimelinePage", "TimelineExport", "RestoredTimeline"]


def test_fields_that_are_always_sent_are_required_and_others_are_not() -> None:
    assert set(schema("ConvStatus")["required"]) == set(schema("ConvStatus")["properties"])
    assert schema("ChatStep")["required"] == ["step", "turn_id", "seq"]
    assert schema("TimelinePage")["properties"]["next"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    # A field that is absent if it is empty is never null.
    assert schema("ConversationDetails")["properties"]["parent"] == {"type": "string"}
    # A request may leave out what has a default.
    assert schema("MessageBody")["required"] == ["message"]


def test_fields_and_parameters_have_the_docstrings_of_their_types() -> None:
    owner = parameters("get", "/conversations/{tenant}/{project}/search")["user"]
    assert owner["description"].startswith("The owner; empty means the caller.")
    assert "description" not in owner["schema"]
    assert schema("ConvStatus")["properties"]["tail"]["description"].startswith("The last stored entry.")
    assert schema("ToolCallMeta")["properties"]["by"]["description"].startswith("The call whose program made")


def test_a_type_without_source_has_no_docstrings() -> None:
    assert field_docs(msgspec.defstruct("Made", [("size", int)])) == {}
    assert field_docs(msgspec.defstruct("Hidden", [("size", int)], module="timeloom.server")) == {}


def test_errors_have_the_form_of_their_api_and_the_codes_of_their_route() -> None:
    missing = operation("get", "/v1/models/{model}")["responses"]["404"]["content"]["application/json"]["schema"]
    assert missing["allOf"] == [{"$ref": "#/components/schemas/OpenAiErrorBody"}]
    assert "model_unknown" in missing["properties"]["error"]["properties"]["code"]["enum"]
    refused = operation("post", f"{ONE}/pins")["responses"]["409"]
    problem = refused["content"]["application/problem+json"]["schema"]
    assert problem["allOf"] == [{"$ref": "#/components/schemas/ProblemDetails"}]
    assert "pins_full" in problem["properties"]["code"]["enum"]
    assert "`pins_full`: The pinned blocks would exceed" in refused["description"]


def test_only_routes_that_need_a_token_say_so() -> None:
    assert operation("get", "/health")["security"] == []
    assert "401" not in operation("get", "/health")["responses"]
    assert operation("get", "/me")["security"] == [{"token": []}]
    assert {"401", "403", "429"} <= operation("get", "/me")["responses"].keys()


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.name)
def test_every_code_of_a_route_has_a_status(one: Endpoint) -> None:
    assert [code for code in one.errors if code not in STATUSES] == []


class Shared(msgspec.Struct):
    """A type of both directions."""

    name: str = ""


async def echo(_context: object, body: Shared) -> Shared:
    """Return the body."""
    return body


def test_a_type_of_requests_and_responses_is_refused() -> None:
    with pytest.raises(TypeError, match="share Shared"):
        build_document([Endpoint(method="POST", path="/echo", requires="anybody", handler=echo)])


def test_two_types_with_one_name_are_refused() -> None:
    other = msgspec.defstruct("Health", [("size", int)])

    async def health(_context: object) -> Response:
        return Response()

    health.__annotations__["body"] = other
    with pytest.raises(TypeError, match="named Health"):
        build_document([*ENDPOINTS, Endpoint(method="POST", path="/x", requires="anybody", handler=health)])


def test_the_document_is_the_same_each_time() -> None:
    assert json.loads(build_document(ENDPOINTS)) == document()
