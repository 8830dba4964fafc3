"""Folds the event stream of Bedrock's ConverseStream into model events."""

from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.core.blocks import Usage
from timeloom.ports.model import (
    FinishEvent,
    ModelError,
    ModelEvent,
    StopReason,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
)
from timeloom.providers.bedrock.event_stream import ERROR_EVENT
from timeloom.providers.decode import decode_event, to_token_count
from timeloom.providers.errors import ReportedError, to_model_error
from timeloom.providers.sse import SseEvent

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "end_turn": "end",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
}

REFUSALS: Final = frozenset({"guardrail_intervened", "content_filtered"})

STATUS_OF_EXCEPTION: Final[Mapping[str, int]] = {
    "internalServerException": 500,
    "modelStreamErrorException": 424,
    "modelTimeoutException": 408,
    "serviceUnavailableException": 503,
    "throttlingException": 429,
    "validationException": 400,
    ERROR_EVENT: 500,
}
"""The statuses that the service model of botocore gives for the exceptions of the stream."""


class _Reasoning(msgspec.Struct, frozen=True):
    text: str = ""


class _ToolUse(msgspec.Struct, frozen=True):
    name: str = ""
    input: str = ""


class _Delta(msgspec.Struct, frozen=True, rename="camel"):
    text: str = ""
    reasoning_content: _Reasoning | None = None
    tool_use: _ToolUse | None = None


class _CacheDetail(msgspec.Struct, frozen=True, rename="camel"):
    ttl: str = ""
    input_tokens: float = 0


class _BedrockUsage(msgspec.Struct, frozen=True, rename="camel"):
    input_tokens: float = 0
    output_tokens: float = 0
    cache_read_input_tokens: float | None = None
    cache_write_input_tokens: float | None = None
    cache_details: tuple[_CacheDetail, ...] | None = None

    def to_usage(self) -> Usage:
        """Return the counts; `inputTokens` does not include what was read from or written to the cache."""
        hour = sum(to_token_count(one.input_tokens) for one in self.cache_details or () if one.ttl == "1h")
        return Usage(
            input_tokens=to_token_count(self.input_tokens),
            cache_read_tokens=to_token_count(self.cache_read_input_tokens or 0),
            cache_write_tokens=to_token_count(self.cache_write_input_tokens or 0),
            cache_write_1h_tokens=hour,
            output_tokens=to_token_count(self.output_tokens),
        )


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    """All event types in one shape; the name of the event says which fields count."""

    content_block_index: int = 0
    start: _Delta | None = None
    delta: _Delta | None = None
    stop_reason: str = ""
    usage: _BedrockUsage | None = None
    message: str = ""
    original_status_code: int | None = None


_EVENT: Final = msgspec.json.Decoder(_Event)


class BedrockReplyParser:
    """Folds the events of one stream into model events."""

    def __init__(self, service: str) -> None:
        self.done = False
        self._service = service
        self._stop_reason = ""
        self._usage: Usage | None = None
        self._calls: dict[int, int] = {}
        """The tool calls by the index of their content block."""

    @property
    def usage(self) -> Usage:
        return self._usage or Usage()

    def feed(self, event: SseEvent) -> list[ModelEvent]:
        if self.done:
            return []
        if event.name.endswith("Exception") or event.name == ERROR_EVENT:
            raise self._to_error(event)
        match event.name:
            case "contentBlockStart":
                return self._start_block(self._decode(event))
            case "contentBlockDelta":
                return self._continue_block(self._decode(event))
            case "messageStop":
                self._stop_reason = self._decode(event).stop_reason
            case "metadata":
                usage = self._decode(event).usage
                self._usage = usage.to_usage() if usage else None
                # The usage follows the stop reason and is the last event.
                return self._finish()
            case _:
                pass
        return []

    def end(self) -> list[ModelEvent]:
        if not self._stop_reason:
            raise ModelError("cut", f"the stream of {self._service} ended before its last event")
        return self._finish()

    def _decode(self, event: SseEvent) -> _Event:
        return decode_event(self._service, _EVENT, event.data)

    def _start_block(self, event: _Event) -> list[ModelEvent]:
        tool_use = event.start.tool_use if event.start else None
        if tool_use is None:
            return []
        call = self._calls[event.content_block_index] = len(self._calls)
        return [ToolCallPiece(call, name=tool_use.name)]

    def _continue_block(self, event: _Event) -> list[ModelEvent]:
        delta = event.delta or _Delta()
        if delta.text:
            return [TextPiece(delta.text)]
        if delta.reasoning_content and delta.reasoning_content.text:
            return [ThinkingPiece(delta.reasoning_content.text)]
        call = self._calls.get(event.content_block_index)
        if delta.tool_use and delta.tool_use.input and call is not None:
            return [ToolCallPiece(call, delta.tool_use.input)]
        return []

    def _finish(self) -> list[ModelEvent]:
        if self._stop_reason in REFUSALS:
            raise ModelError("refused", f"a filter of {self._service} stopped the reply ({self._stop_reason})")
        if not self._stop_reason:
            raise ModelError("cut", f"the stream of {self._service} has no stop reason")
        self.done = True
        called = self._stop_reason == "tool_use" and self._calls
        reason: StopReason = "end" if called else STOP_REASONS.get(self._stop_reason, "other")
        return [FinishEvent(reason, self.usage, usage_reported=self._usage is not None)]

    def _to_error(self, event: SseEvent) -> ModelError:
        failure = self._decode(event)
        status = failure.original_status_code or STATUS_OF_EXCEPTION.get(event.name, 500)
        return to_model_error(self._service, status, ReportedError(type=event.name, message=failure.message))
