"""The bodies that services are sent."""

import base64
from typing import TypedDict, cast

import msgspec
import pytest

from timeloom.ports.model import DataSegment, ModelRequest, Segment, TextSegment
from timeloom.providers.anthropic import request as anthropic_request
from timeloom.providers.openai import request as openai_request

PNG, PDF = b"\x89PNG", b"%PDF-1.7"


class Body(TypedDict):
    """The parts of a body that the tests look at."""

    system: list[dict[str, object]]
    messages: list[dict[str, object]]
    max_tokens: int
    max_completion_tokens: int
    thinking: dict[str, object]
    temperature: float


def request(
    *segments: Segment, system: str = "Be short.", thinking_tokens: int = 0, temperature: float | None = None
) -> ModelRequest:
    return ModelRequest(
        system=system,
        segments=segments,
        max_output_tokens=100,
        thinking_tokens=thinking_tokens,
        temperature=temperature,
    )


def anthropic(asked: ModelRequest) -> Body:
    return cast("Body", msgspec.json.decode(anthropic_request.request_body("m", asked)))


def openai(asked: ModelRequest, *, official: bool = False) -> Body:
    return cast("Body", msgspec.json.decode(openai_request.request_body("m", asked, official=official)))


def parts(body: Body) -> list[dict[str, object]]:
    return cast("list[dict[str, object]]", body["messages"][-1]["content"])


def points(body: Body) -> list[bool]:
    return ["cache_control" in part for part in [*body.get("system", []), *parts(body)]]


def test_anthropic_gets_one_block_for_each_segment_and_its_cache_points() -> None:
    body = anthropic(request(TextSegment("a", cache_point=True), TextSegment("b"), TextSegment("c", cache_point=True)))
    assert [part["text"] for part in parts(body)] == ["a", "b", "c"]
    assert points(body) == [True, True, False, True]


def test_of_more_than_four_cache_points_the_last_four_count() -> None:
    body = anthropic(request(*(TextSegment(c, cache_point=True) for c in "abcdef")))
    assert points(body) == [False, False, False, True, True, True, True]


def test_a_blank_segment_is_not_sent_and_hands_on_its_cache_point() -> None:
    body = anthropic(
        request(TextSegment(" \n", cache_point=True), TextSegment("a"), TextSegment("", cache_point=True), system=" ")
    )
    assert "system" not in body
    assert points(body) == [True]


def test_anthropic_is_told_how_long_to_keep_each_prefix() -> None:
    asked = request(
        TextSegment("the past", cache_point=True, cache_lifetime="1h"),
        DataSegment("image/png", PNG, cache_point=True),
        TextSegment("the tail"),
    )
    body = anthropic_request.request_body("m", msgspec.structs.replace(asked, system_cache_lifetime="1h"))
    assert body.decode() == (
        '{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":['
        '{"type":"text","text":"the past","cache_control":{"type":"ephemeral","ttl":"1h"}},'
        '{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="},'
        '"cache_control":{"type":"ephemeral"}},'
        '{"type":"text","text":"the tail"}]}],'
        '"system":[{"type":"text","text":"Be short.","cache_control":{"type":"ephemeral","ttl":"1h"}}]}'
    )


def test_a_lifetime_that_is_shorter_than_a_later_one_is_made_as_long() -> None:
    later = TextSegment("", cache_point=True, cache_lifetime="1h")
    body = anthropic(request(TextSegment("a", cache_point=True), TextSegment("b"), later, TextSegment("c", True)))
    controls = [part.get("cache_control") for part in [*body["system"], *parts(body)]]
    assert controls == [{"type": "ephemeral", "ttl": "1h"}] * 3 + [{"type": "ephemeral"}]


def test_the_system_text_is_cached_unless_told_otherwise() -> None:
    asked = msgspec.structs.replace(request(TextSegment("a")), system_cache_point=False)
    assert points(anthropic(asked)) == [False, False]


def test_anthropic_sees_images_and_documents() -> None:
    body = anthropic(
        request(
            DataSegment("image/PNG; x=y", PNG),
            DataSegment("application/pdf", PDF, cache_point=True),
            DataSegment("a/b", b"123"),
        )
    )
    image, document, other = parts(body)
    assert image == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()},
    }
    assert (document["type"], document["cache_control"]) == ("document", {"type": "ephemeral"})
    assert other["text"] == "[a/b, 3 bytes: this model cannot see it]"


@pytest.mark.parametrize(("tokens", "budget"), [(500, 1024), (4000, 4000)])
def test_thinking_has_a_budget_of_its_own(tokens: int, budget: int) -> None:
    body = anthropic(request(TextSegment("a"), thinking_tokens=tokens, temperature=0.5))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert body["max_tokens"] == 100 + budget
    assert "temperature" not in body


def test_a_temperature_is_passed_on() -> None:
    asked = request(TextSegment("a"), temperature=0.5)
    assert [anthropic(asked)["temperature"], openai(asked)["temperature"]] == [0.5, 0.5]


def test_text_alone_is_one_string_for_compatible_services() -> None:
    body = openai(request(TextSegment("a", cache_point=True), TextSegment(""), TextSegment("b")))
    assert body["messages"] == [{"role": "system", "content": "Be short."}, {"role": "user", "content": "ab"}]
    assert body["max_tokens"] == 100


def test_an_empty_system_text_is_no_message() -> None:
    assert len(openai(request(TextSegment("a"), system=""))["messages"]) == 1


def test_openai_itself_gets_files_and_the_newer_name_of_the_limit() -> None:
    body = openai(
        request(
            TextSegment("a"),
            TextSegment("b"),
            DataSegment("application/pdf", PDF),
            TextSegment("c"),
            thinking_tokens=50,
        ),
        official=True,
    )
    assert [part["type"] for part in parts(body)] == ["text", "file", "text"]
    assert body["max_completion_tokens"] == 150


def test_compatible_services_get_images_and_a_word_for_what_they_cannot_see() -> None:
    body = openai(request(DataSegment("image/png", PNG), DataSegment("application/pdf", PDF)))
    image, word = parts(body)
    assert image["image_url"] == {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"}
    assert word["text"] == "[application/pdf, 8 bytes: this model cannot see it]\n"
