"""Native tool calling at the services: the bodies that they are sent, and their streams of tool calls."""

from pathlib import Path
from typing import Final, cast

import msgspec
import pytest

from timeloom.core.render.catalogue import CatalogueTool
from timeloom.core.render.native_tools import make_native_tools
from timeloom.ports.model import (
    FinishEvent,
    ModelError,
    ModelEvent,
    ModelRequest,
    TextPiece,
    TextSegment,
    ThinkingPiece,
    ToolCallPiece,
)
from timeloom.ports.reply_pieces import ReplyPieces
from timeloom.providers.anthropic import request as anthropic_request
from timeloom.providers.anthropic.reply import AnthropicReplyParser
from timeloom.providers.openai import request as openai_request
from timeloom.providers.openai.reply import OpenAIReplyParser
from timeloom.providers.sse import SseEvent
from timeloom.providers.streaming_request import ReplyParser

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "native"
READ: Final = CatalogueTool(
    tool_id="react.read",
    purpose="Reads texts.",
    description="Several paths at once.",
    params_schema='{"type":"object","properties":{"paths":{"type":"array","items":{"type":"string"}}}}',
    effect="pure",
    examples=('{"paths":["fi:turn_1.files/a.md"]}',),
)
EXEC: Final = CatalogueTool(tool_id="exec_tools.execute", purpose="Runs a program.", effect="idempotent")
TOOLS: Final = make_native_tools([READ, EXEC], {"exec_tools.execute"})


def request(*, system: str = "Be short.", several_calls: bool = False) -> ModelRequest:
    segments = tuple(TextSegment(text, cache_point=True) for text in "abcd")
    return ModelRequest(
        system=system, segments=segments, max_output_tokens=100, tools=TOOLS, several_calls=several_calls
    )


def pretty(body: bytes) -> str:
    return msgspec.json.format(body, indent=2).decode() + "\n"


@pytest.mark.parametrize("name", ["anthropic", "openai", "openai-compatible"])
def test_the_bodies_with_tools_are_the_recorded_ones(name: str) -> None:
    asked = request(several_calls=name == "openai")
    if name == "anthropic":
        body = anthropic_request.request_body("m", asked)
    else:
        body = openai_request.request_body("m", asked, official=name == "openai")
    assert pretty(body) == (GOLDEN / f"{name}.json").read_text("utf-8")


def marks(body: bytes, field: str) -> list[bool]:
    parts = cast("list[dict[str, object]]", msgspec.json.decode(body).get(field, []))
    return ["cache_control" in part for part in parts]


def test_without_a_system_text_the_last_tool_has_its_cache_point() -> None:
    asked = msgspec.structs.replace(request(system=" "), segments=(TextSegment("a", cache_point=True),))
    assert marks(anthropic_request.request_body("m", asked), "tools") == [False, False, False, True]


@pytest.mark.parametrize("system", ["Be short.", ""])
def test_tools_never_make_more_than_four_cache_points(system: str) -> None:
    body = anthropic_request.request_body("m", request(system=system))
    assert sum([*marks(body, "tools"), *marks(body, "system")]) == 0
    assert body.count(b'"cache_control"') == 4


def test_a_request_without_tools_says_nothing_about_tools() -> None:
    asked = msgspec.structs.replace(request(), tools=())
    for body in (anthropic_request.request_body("m", asked), openai_request.request_body("m", asked, official=True)):
        assert b"tool" not in body


def fed(reply: ReplyParser, *events: str) -> list[ModelEvent]:
    return [piece for event in events for piece in reply.feed(SseEvent("", event.encode()))]


def anthropic_start(index: int, block: str) -> str:
    return f'{{"type":"content_block_start","index":{index},"content_block":{block}}}'


def anthropic_delta(index: int, delta: str) -> str:
    return f'{{"type":"content_block_delta","index":{index},"delta":{delta}}}'


def anthropic_stop(index: int) -> str:
    return f'{{"type":"content_block_stop","index":{index}}}'


def test_anthropic_streams_thinking_text_and_tool_calls() -> None:
    parser = AnthropicReplyParser("it", with_tools=True)
    found = fed(
        parser,
        anthropic_start(0, '{"type":"thinking","thinking":""}'),
        anthropic_delta(0, '{"type":"thinking_delta","thinking":"hm"}'),
        anthropic_stop(0),
        anthropic_start(1, '{"type":"text","text":""}'),
        anthropic_delta(1, '{"type":"text_delta","text":"I read it."}'),
        anthropic_stop(1),
        anthropic_start(2, '{"type":"tool_use","id":"t1","name":"react_read","input":{}}'),
        anthropic_delta(2, '{"type":"input_json_delta","partial_json":""}'),
        anthropic_delta(2, '{"type":"input_json_delta","partial_json":"{\\"a\\":"}'),
        anthropic_delta(2, '{"type":"input_json_delta","partial_json":"1}"}'),
        anthropic_stop(2),
        anthropic_start(3, '{"type":"tool_use","id":"t2","name":"now","input":{}}'),
        anthropic_stop(3),
        '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}',
        '{"type":"message_stop"}',
    )
    assert found[:-1] == [
        ThinkingPiece("hm"),
        TextPiece("I read it."),
        ToolCallPiece(0, name="react_read"),
        ToolCallPiece(0, '{"a":'),
        ToolCallPiece(0, "1}"),
        ToolCallPiece(1, name="now"),
    ]
    assert isinstance(found[-1], FinishEvent)
    assert found[-1].stop_reason == "end"


def test_a_compatible_service_may_send_the_whole_input_at_once() -> None:
    parser = AnthropicReplyParser("it", with_tools=True)
    found = fed(parser, anthropic_start(0, '{"type":"tool_use","name":"f","input":{"a":1}}'), anthropic_stop(0))
    assert found == [ToolCallPiece(0, name="f"), ToolCallPiece(0, '{"a":1}')]
    found = fed(
        AnthropicReplyParser("it", with_tools=True),
        anthropic_start(0, '{"type":"tool_use","name":"f","input":{"a":1}}'),
        anthropic_delta(0, '{"type":"input_json_delta","partial_json":"{}"}'),
        anthropic_stop(0),
    )
    assert found == [ToolCallPiece(0, name="f"), ToolCallPiece(0, "{}")]


def openai_delta(delta: str, finish: str = "null") -> str:
    return f'{{"choices":[{{"delta":{delta},"finish_reason":{finish}}}]}}'


def openai_calls(*calls: str) -> str:
    return openai_delta(f'{{"tool_calls":[{",".join(calls)}]}}')


def openai_fed(*events: str) -> list[ModelEvent]:
    return fed(OpenAIReplyParser("it", with_tools=True), *events)


def test_openai_streams_reasoning_text_and_tool_calls_by_index() -> None:
    found = openai_fed(
        openai_delta('{"reasoning_content":"hm"}'),
        openai_delta('{"content":"I read it."}'),
        openai_calls('{"index":0,"id":"a","type":"function","function":{"name":"react_read","arguments":""}}'),
        openai_calls('{"index":1,"id":"b","function":{"name":"now","arguments":"{"}}'),
        openai_calls('{"index":0,"function":{"arguments":"{}"}}', '{"index":1,"function":{"arguments":"}"}}'),
        openai_delta("{}", '"tool_calls"'),
        "[DONE]",
    )
    assert found[:-1] == [
        ThinkingPiece("hm"),
        TextPiece("I read it."),
        ToolCallPiece(0, name="react_read"),
        ToolCallPiece(1, "{", "now"),
        ToolCallPiece(0, "{}"),
        ToolCallPiece(1, "}"),
    ]
    assert isinstance(found[-1], FinishEvent)
    assert found[-1].stop_reason == "end"


def test_whole_calls_without_ids_and_indexes_are_told_apart_by_their_names() -> None:
    found = openai_fed(
        openai_calls('{"function":{"name":"f","arguments":"{}"}}', '{"function":{"name":"f","arguments":{"a":1}}}'),
        openai_calls('{"function":{"arguments":" "}}'),
    )
    assert found == [ToolCallPiece(0, "{}", "f"), ToolCallPiece(1, '{"a":1}', "f"), ToolCallPiece(1, " ")]


def test_calls_that_share_an_index_are_told_apart_by_their_ids() -> None:
    found = openai_fed(
        openai_calls('{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}'),
        openai_calls('{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}'),
    )
    assert found == [ToolCallPiece(0, "{}", "f"), ToolCallPiece(1, "{}", "g")]


def test_a_name_and_an_id_that_are_repeated_with_each_piece_begin_no_new_call() -> None:
    repeated = [
        openai_calls(f'{{"index":0,"id":"a","function":{{"name":"f","arguments":"{one}"}}}}') for one in ("{", "}")
    ]
    assert openai_fed(*repeated) == [ToolCallPiece(0, "{", "f"), ToolCallPiece(0, "}")]
    unnamed = openai_calls('{"index":0,"function":{"name":"f","arguments":"1"}}')
    assert openai_fed(unnamed, unnamed) == [ToolCallPiece(0, "1", "f"), ToolCallPiece(0, "1")]
    assert openai_fed(openai_calls("{}", '{"id":"x"}')) == [ToolCallPiece(0)]


def test_a_tool_call_that_was_not_offered_is_ignored() -> None:
    assert fed(OpenAIReplyParser("it"), openai_calls('{"index":0,"function":{"name":"f"}}')) == []
    start = anthropic_start(0, '{"type":"tool_use","name":"f","input":{"a":1}}')
    assert fed(AnthropicReplyParser("it"), start, anthropic_stop(0)) == []


def test_half_a_character_waits_for_the_next_piece_of_its_call() -> None:
    pieces = ReplyPieces(request())
    assert pieces.take(ToolCallPiece(0, "\ud83d", "f")) == (ToolCallPiece(0, "", "f"),)
    assert pieces.take(ToolCallPiece(1, "x")) == (ToolCallPiece(1, "x"),)
    assert pieces.take(ToolCallPiece(0, "\ude00")) == (ToolCallPiece(0, "\U0001f600"),)
    assert pieces.take(ToolCallPiece(0, "\ud83d")) == ()
    assert pieces.close() == (ToolCallPiece(0, "\ufffd"),)


def test_a_reply_of_endless_calls_is_stopped() -> None:
    pieces = ReplyPieces(msgspec.structs.replace(request(), max_output_tokens=1))
    with pytest.raises(ModelError, match="longer than 1 tokens"):
        for n in range(1_000):
            pieces.take(ToolCallPiece(n, name="f" * 1_000))
