"""Folds the event stream of Anthropic's messages API into model events."""

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
from timeloom.providers.decode import decode_event, to_token_count
from timeloom.providers.errors import ReportedError, to_stream_error
from timeloom.providers.sse import SseEvent

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "end_turn": "end",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
}


class _CacheCreation(msgspec.Struct, frozen=True):
    ephemeral_1h_input_tokens: float | None = None


class _AnthropicUsage(msgspec.Struct, frozen=True):
    input_tokens: float | None = None
    output_tokens: float | None = None
    cache_read_input_tokens: float | None = None
    cache_creation_input_tokens: float | None = None
    cache_creation: _CacheCreation | None = None

    def reported_counts(self) -> Mapping[str, int]:
        """Return the reported counts by name, without those that are missing."""
        values = {name: getattr(self, name) for name in _AnthropicUsage.__struct_fields__ if name != "cache_creation"}
        values["ephemeral_1h_input_tokens"] = self.cache_creation and self.cache_creation.ephemeral_1h_input_tokens
        return {name: to_token_count(value) for name, value in values.items() if value is not None}


class _ContentDelta(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str | None = None
    name: str | None = None
    input: object = None
    stop_reason: str | None = None


class _Message(msgspec.Struct, frozen=True):
    model: str = ""
    usage: _AnthropicUsage | None = None


class _StreamFailure(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = ""


class _Event(msgspec.Struct, frozen=True):
    """All event types in one shape; unknown types have no fields here and are ignored."""

    type: str = ""
    index: int | None = None
    delta: _ContentDelta | None = None
    content_block: _ContentDelta | None = None
    message: _Message | None = None
    usage: _AnthropicUsage | None = None
    error: _StreamFailure | None = None


_EVENT: Final = msgspec.json.Decoder(_Event)


class AnthropicReplyParser:
    """Folds the events of one stream into model events."""

    def __init__(self, service: str, *, with_tools: bool = False) -> None:
        self.done = False
        self._service = service
        self._tool_uses = _ToolUses() if with_tools else None
        self._model = ""
        self._stop_reason = ""
        self._counts: dict[str, int] = {}

    @property
    def usage(self) -> Usage:
        """The usage reported so far; each later count replaces the earlier one."""
        return Usage(
            input_tokens=self._counts.get("input_tokens", 0),
            cache_read_tokens=self._counts.get("cache_read_input_tokens", 0),
            cache_write_tokens=self._counts.get("cache_creation_input_tokens", 0),
            cache_write_1h_tokens=self._counts.get("ephemeral_1h_input_tokens", 0),
            output_tokens=self._counts.get("output_tokens", 0),
        )

    def feed(self, event: SseEvent) -> list[ModelEvent]:
        if self.done:
            return []
        parsed = decode_event(self._service, _EVENT, event.data)
        match parsed.type:
            case "content_block_delta" | "content_block_start" | "content_block_stop":
                calls = self._tool_uses.feed(parsed) if self._tool_uses else None
                return _pieces(parsed.delta or parsed.content_block) if calls is None else calls
            case "message_start" | "message_delta":
                self._update(parsed)
            case "message_stop":
                return self._finish()
            case "error":
                failure = parsed.error or _StreamFailure()
                raise to_stream_error(self._service, ReportedError(type=failure.type, message=failure.message))
            case _:
                pass
        return []

    def end(self) -> list[ModelEvent]:
        raise ModelError("cut", f"the stream of {self._service} ended before its last event")

    def _update(self, parsed: _Event) -> None:
        message = parsed.message or _Message()
        self._model = message.model or self._model
        if parsed.delta is not None and parsed.delta.stop_reason:
            self._stop_reason = parsed.delta.stop_reason
        counts = parsed.usage or message.usage
        if counts:
            self._counts.update(counts.reported_counts())

    def _finish(self) -> list[ModelEvent]:
        if self._stop_reason == "refusal":
            raise ModelError("refused", f"the model of {self._service} declined to answer")
        self.done = True
        ended = self._stop_reason == "tool_use" and self._tool_uses
        reason: StopReason = "end" if ended else STOP_REASONS.get(self._stop_reason, "other")
        return [FinishEvent(reason, self.usage, self._model, usage_reported=bool(self._counts))]


class _ToolUses:
    """Folds the events of `tool_use` blocks into pieces of tool calls."""

    def __init__(self) -> None:
        self._count = 0
        self._places: dict[int | None, int] = {}
        """The open blocks by their index, each with the number of its call."""
        self._whole: dict[int, str] = {}
        """The inputs that came with the start of a block, by the number of the call, until a piece replaces them."""

    def feed(self, event: _Event) -> list[ModelEvent] | None:
        """Return the pieces of the event; None if it does not belong to a tool call."""
        start, delta = event.content_block, event.delta
        if event.type == "content_block_start" and start is not None and start.type == "tool_use":
            call = self._places[event.index] = self._count
            self._count += 1
            if start.input:
                self._whole[call] = msgspec.json.encode(start.input).decode()
            return [ToolCallPiece(call, name=start.name or "")]
        call = self._places.get(event.index)
        if call is None or event.type == "content_block_start":
            return None
        if event.type == "content_block_stop":
            del self._places[event.index]
            # Compatible services may send the whole input with the start of the block.
            return [ToolCallPiece(call, self._whole.pop(call))] if call in self._whole else []
        piece = delta.partial_json if delta is not None else None
        if not piece:
            return []
        self._whole.pop(call, None)
        return [ToolCallPiece(call, piece)]


def _pieces(delta: _ContentDelta | None) -> list[ModelEvent]:
    if delta is None:
        return []
    if delta.text:
        return [TextPiece(delta.text)]
    return [ThinkingPiece(delta.thinking)] if delta.thinking else []
