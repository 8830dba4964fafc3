"""Streams of services, folded into replies: what differs from service to service."""

import pytest

from timeloom.core.blocks import Usage
from timeloom.ports.model import FinishEvent, ModelError, ModelEvent, StopReason, TextPiece, ThinkingPiece
from timeloom.providers.anthropic.reply import AnthropicReplyParser
from timeloom.providers.openai.reply import OpenAIReplyParser
from timeloom.providers.sse import SseEvent
from timeloom.providers.streaming_request import ReplyParser


def fed(reply: ReplyParser, *events: str) -> list[ModelEvent]:
    return [piece for event in events for piece in reply.feed(SseEvent("", event.encode()))]


def anthropic_end(reason: str | None) -> list[str]:
    said = f'"{reason}"' if reason else "null"
    return [
        f'{{"type":"message_delta","delta":{{"stop_reason":{said}}},"usage":{{"output_tokens":5}}}}',
        '{"type":"message_stop"}',
    ]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("end_turn", "end"),
        ("max_tokens", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("tool_use", "other"),
        (None, "other"),
    ],
)
def test_anthropic_says_why_a_reply_ended(said: str | None, meant: StopReason) -> None:
    (finished,) = fed(AnthropicReplyParser("it"), *anthropic_end(said))
    assert isinstance(finished, FinishEvent)
    assert finished.stop_reason == meant


def test_anthropic_says_what_it_keeps_for_an_hour() -> None:
    reply = AnthropicReplyParser("it")
    counts = '{"cache_creation_input_tokens":7,"cache_creation":{"ephemeral_1h_input_tokens":5,"other":2}}'
    fed(reply, f'{{"type":"message_start","message":{{"model":"m-1","usage":{counts}}}}}')
    assert reply.usage == Usage(cache_write_tokens=7, cache_write_1h_tokens=5)


def test_anthropic_reports_usage_at_the_start_and_corrects_it_at_the_end() -> None:
    reply = AnthropicReplyParser("it")
    counts = '{"input_tokens":3,"cache_read_input_tokens":40,"cache_creation_input_tokens":7,"output_tokens":1}'
    start = f'{{"type":"message_start","message":{{"model":"m-1","usage":{counts}}}}}'
    fed(
        reply,
        start,
        '{"type":"ping"}',
        '{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"x"}}',
    )
    assert reply.usage == Usage(input_tokens=3, cache_read_tokens=40, cache_write_tokens=7, output_tokens=1)
    (finished,) = fed(reply, *anthropic_end("end_turn"), '{"type":"ping"}')
    assert finished == FinishEvent(
        "end", Usage(input_tokens=3, cache_read_tokens=40, cache_write_tokens=7, output_tokens=5), "m-1"
    )


def test_text_and_thinking_at_the_start_of_a_block_count_too() -> None:
    blocks = (
        '{"type":"text","text":"a"}',
        '{"type":"thinking","thinking":"b"}',
        '{"type":"redacted_thinking","data":"c"}',
    )
    events = [f'{{"type":"content_block_start","content_block":{block}}}' for block in blocks]
    assert fed(AnthropicReplyParser("it"), *events, '{"type":"content_block_delta"}') == [
        TextPiece("a"),
        ThinkingPiece("b"),
    ]


def test_a_model_that_declines_is_an_error_with_its_own_kind() -> None:
    for reply, events in (
        (AnthropicReplyParser("it"), anthropic_end("refusal")),
        (OpenAIReplyParser("it"), ['{"choices":[{"delta":{"refusal":"I cannot"}}]}']),
        (OpenAIReplyParser("it"), ['{"choices":[{"finish_reason":"content_filter"}]}', "[DONE]"]),
    ):
        with pytest.raises(ModelError) as caught:
            fed(reply, *events)
        assert (caught.value.kind, caught.value.retryable) == ("refused", False)


def test_an_error_event_without_words_is_an_error() -> None:
    with pytest.raises(ModelError, match="no reason"):
        fed(AnthropicReplyParser("it"), '{"type":"error"}')


def test_reasoning_has_two_names() -> None:
    events = (
        '{"choices":[{"delta":{"reasoning_content":"a"}}]}',
        '{"choices":[{"delta":{"reasoning":"b","content":"c"}}]}',
    )
    assert fed(OpenAIReplyParser("it"), *events) == [ThinkingPiece("a"), ThinkingPiece("b"), TextPiece("c")]


def test_cached_tokens_are_part_of_the_prompt_at_openai() -> None:
    usage = (
        '{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}'
    )
    (finished,) = fed(
        OpenAIReplyParser("it"),
        '{"model":"m-1","choices":[{"delta":{},"finish_reason":"length"}]}',
        usage,
        "[DONE]",
        "[DONE]",
    )
    assert finished == FinishEvent("max_tokens", Usage(input_tokens=2, cache_read_tokens=8, output_tokens=2), "m-1")


def test_a_service_that_does_not_count_is_said_not_to() -> None:
    (finished,) = fed(
        OpenAIReplyParser("it"),
        '{"choices":[{"finish_reason":"stop","delta":{"content":null}}],"usage":null}',
        " [DONE] ",
    )
    assert finished == FinishEvent("end", Usage(), usage_reported=False)


def test_numbers_that_make_no_sense_count_as_none() -> None:
    reply = OpenAIReplyParser("it")
    fed(reply, '{"usage":{"prompt_tokens":-5,"completion_tokens":1e300,"prompt_tokens_details":{"cached_tokens":3}}}')
    assert reply.usage == Usage()


def test_the_reason_of_the_end_is_enough_where_the_last_mark_is_missing() -> None:
    reply = OpenAIReplyParser("it")
    fed(reply, '{"choices":[{"finish_reason":"stop"}]}')
    assert [type(event) for event in reply.end()] == [FinishEvent]
    with pytest.raises(ModelError):
        OpenAIReplyParser("it").end()


def test_half_a_surrogate_pair_comes_through_as_it_is() -> None:
    assert fed(OpenAIReplyParser("it"), r'{"choices":[{"delta":{"content":"\ud83d"}}]}') == [TextPiece("\ud83d")]
