"""OpenTelemetry spans of a conversation follow from its log alone."""

from collections.abc import Sequence

from timeloom.core.blocks import (
    AnyBlock,
    Digest,
    ModelAnswered,
    ModelCalled,
    ResultDigest,
    ResultStatus,
    ToolCall,
    ToolError,
    TurnEnded,
    TurnStarted,
    Usage,
    UserPrompt,
)
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.timeline import Entry
from timeloom.runtime.read.otel_spans import Span, SpanBuilder

CONVERSATION = ConversationId("conv_1770603271112_ab12cd34")
TURN = TurnId("turn_1770603271112_2b1d0f")
CALL = CallId("0123456789ab")
SECOND_NS = 1_000_000_000

ASKED = ModelCalled(round=1, model="anthropic:opus", request_sha256="0" * 64)
ANSWERED = ModelAnswered(
    round=1,
    model="opus-4",
    stop_reason="end",
    text="Of course.",
    usage=Usage(input_tokens=10, cache_read_tokens=300, cache_write_tokens=20, output_tokens=7),
)
CALLED = ToolCall(tool_id="web.search", tool_call_id=CALL, params='{"q": "secret"}')
RECEIPT = ResultDigest(tool_call_id=CALL, digest=Digest(artifact_path=f"tc:{TURN}.{CALL}.result"))


def spans_of(blocks: Sequence[AnyBlock], *, content: bool = False) -> list[Span]:
    """The spans of a conversation whose blocks are a second apart."""
    spans = SpanBuilder(CONVERSATION, content=content)
    entries = [
        Entry(turn_id=TURN, ts=f"1970-01-01T00:00:{seq:02}Z", block=block, seq=seq)
        for seq, block in enumerate(blocks, 1)
    ]
    return [span for entry in entries if (span := spans.add(entry))]


def whole_turn() -> list[AnyBlock]:
    end = TurnEnded(reason="completed")
    return [TurnStarted(n=1), UserPrompt(text="Hello?"), ASKED, ANSWERED, CALLED, RECEIPT, RECEIPT, end]


def test_a_turn_is_a_span_with_its_model_calls_and_tools_below_it() -> None:
    chat, tool, turn = spans_of(whole_turn())
    assert [span.name for span in (chat, tool, turn)] == [
        "chat opus",
        "execute_tool web.search",
        "invoke_agent timeloom",
    ]
    assert {chat.parent_id, tool.parent_id} == {turn.span_id}
    assert (turn.parent_id, len({span.trace_id for span in (chat, tool, turn)})) == ("", 1)
    assert [span.kind for span in (chat, tool, turn)] == ["client", "internal", "internal"]


def test_times_are_those_of_the_entries() -> None:
    times = [(span.start_ns // SECOND_NS, span.end_ns // SECOND_NS) for span in spans_of(whole_turn())]
    assert times == [(3, 4), (5, 6), (1, 8)]


def test_a_model_call_says_who_was_asked_and_what_it_used() -> None:
    chat, *_ = spans_of(whole_turn())
    assert chat.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "opus",
        "gen_ai.response.model": "opus-4",
        "gen_ai.response.finish_reasons": ("end",),
        "gen_ai.usage.input_tokens": 330,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 300,
        "gen_ai.usage.cache_creation.input_tokens": 20,
        "gen_ai.conversation.id": CONVERSATION,
        "timeloom.model.purpose": "decision",
        "timeloom.model.attempt": 1,
        "timeloom.round": 1,
        "timeloom.turn.id": TURN,
        "timeloom.seq": 3,
    }


def test_ids_are_the_same_whenever_the_log_is_read() -> None:
    assert spans_of(whole_turn()) == spans_of(whole_turn())
    ids = [(len(span.trace_id), len(span.span_id)) for span in spans_of(whole_turn())]
    assert ids == [(32, 16)] * 3


def test_nothing_that_was_said_is_told_unless_it_is_asked_for() -> None:
    said = repr(spans_of(whole_turn()))
    assert "Of course." not in said
    assert "secret" not in said
    chat, tool, _ = spans_of(whole_turn(), content=True)
    assert "Of course." in str(chat.attributes["gen_ai.output.messages"])
    assert tool.attributes["gen_ai.tool.call.arguments"] == '{"q": "secret"}'


def test_failures_are_told_by_their_codes() -> None:
    failed = ModelAnswered(round=1, model="m", stop_reason="timeout", error="timeout", usage_reported=False)
    refused = ResultStatus(tool_call_id=CALL, text="No.", error=ToolError(code="tool_timeout", message="late"))
    chat, tool, turn = spans_of([TurnStarted(n=1), ASKED, failed, CALLED, refused, TurnEnded(reason="provider_error")])
    assert [span.error for span in (chat, tool, turn)] == ["timeout", "tool_timeout", "provider_error"]
    assert [span.attributes["error.type"] for span in (chat, tool, turn)] == [chat.error, tool.error, turn.error]
    assert "gen_ai.usage.input_tokens" not in chat.attributes


def test_what_has_no_beginning_in_the_log_is_no_span() -> None:
    assert spans_of([ANSWERED, RECEIPT, TurnEnded(reason="completed")]) == []


def test_what_was_not_answered_when_the_turn_ended_is_no_span() -> None:
    ended = TurnEnded(reason="cancelled")
    (turn,) = spans_of([TurnStarted(n=1), ASKED, CALLED, ended, ANSWERED, RECEIPT])
    assert (turn.name, turn.error) == ("invoke_agent timeloom", "")
