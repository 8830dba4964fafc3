"""Folds the event stream of Anthropic's messages API into model events."""

from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.core.blocks import Usage
from timeloom.ports.model import Finished, ModelError, ModelEvent, StopReason, TextPiece, ThinkingPiece
from timeloom.providers.decode import count, decoded
from timeloom.providers.errors import Said, failure_in_stream
from timeloom.providers.sse import SseEvent

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "end_turn": "end",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
}


class _Written(msgspec.Struct, frozen=True):
    ephemeral_1h_input_tokens: float | None = None


class _Counts(msgspec.Struct, frozen=True):
    input_tokens: float | None = None
    output_tokens: float | None = None
    cache_read_input_tokens: float | None = None
    cache_creation_input_tokens: float | None = None
    cache_creation: _Written | None = None

    def numbers(self) -> Mapping[str, int]:
        """Return the reported counts by name, without those that are missing."""
        said = {name: getattr(self, name) for name in _Counts.__struct_fields__ if name != "cache_creation"}
        said["ephemeral_1h_input_tokens"] = self.cache_creation and self.cache_creation.ephemeral_1h_input_tokens
        return {name: count(value) for name, value in said.items() if value is not None}


class _Delta(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""
    thinking: str = ""
    stop_reason: str | None = None


class _Message(msgspec.Struct, frozen=True):
    model: str = ""
    usage: _Counts | None = None


class _Failure(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = ""


class _Event(msgspec.Struct, frozen=True):
    """All event types in one shape; unknown types have no fields here and are ignored."""

    type: str = ""
    delta: _Delta | None = None
    content_block: _Delta | None = None
    message: _Message | None = None
    usage: _Counts | None = None
    error: _Failure | None = None


_EVENT: Final = msgspec.json.Decoder(_Event)


class AnthropicReply:
    """Folds the events of one stream into model events."""

    def __init__(self, service: str) -> None:
        self.done = False
        self._service = service
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
        heard = decoded(self._service, _EVENT, event.data)
        match heard.type:
            case "content_block_delta" | "content_block_start":
                return _pieces(heard.delta or heard.content_block)
            case "message_start" | "message_delta":
                self._note(heard)
            case "message_stop":
                return self._finish()
            case "error":
                said = heard.error or _Failure()
                raise failure_in_stream(self._service, Said(type=said.type, message=said.message))
            case _:
                pass
        return []

    def end(self) -> list[ModelEvent]:
        raise ModelError("cut", f"the stream of {self._service} ended before its last event")

    def _note(self, heard: _Event) -> None:
        message = heard.message or _Message()
        self._model = message.model or self._model
        if heard.delta is not None and heard.delta.stop_reason:
            self._stop_reason = heard.delta.stop_reason
        counts = heard.usage or message.usage
        if counts:
            self._counts.update(counts.numbers())

    def _finish(self) -> list[ModelEvent]:
        if self._stop_reason == "refusal":
            raise ModelError("refused", f"the model of {self._service} declined to answer")
        self.done = True
        reason: StopReason = STOP_REASONS.get(self._stop_reason, "other")
        return [Finished(reason, self.usage, self._model, usage_reported=bool(self._counts))]


def _pieces(delta: _Delta | None) -> list[ModelEvent]:
    if delta is None:
        return []
    if delta.text:
        return [TextPiece(delta.text)]
    return [ThinkingPiece(delta.thinking)] if delta.thinking else []
