"""Folds the chunk stream of chat completions into model events."""

from collections.abc import Mapping, Sequence
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
from timeloom.providers.errors import parse_error, to_stream_error
from timeloom.providers.sse import SseEvent

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "stop": "end",
    "eos": "end",
    "length": "max_tokens",
    "model_length": "max_tokens",
}
"""Finish reasons; Mistral says `model_length` when the context window is full."""


class _PromptTokenDetails(msgspec.Struct, frozen=True):
    cached_tokens: float | None = None


class _OpenAIUsage(msgspec.Struct, frozen=True):
    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    prompt_tokens_details: _PromptTokenDetails | None = None
    prompt_cache_hit_tokens: float | None = None
    """The cached tokens of DeepSeek."""


class _FunctionDelta(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: object = None
    """A piece of JSON text; some services send the object itself."""


class _ToolCallDelta(msgspec.Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: _FunctionDelta | None = None


class _TextPart(msgspec.Struct, frozen=True):
    type: str = ""
    text: str | None = None


class _ContentPart(msgspec.Struct, frozen=True):
    type: str = ""
    text: str | None = None
    thinking: str | list[_TextPart] | None = None


class _ChoiceDelta(msgspec.Struct, frozen=True):
    content: str | list[_ContentPart] | None = None
    """Text; reasoning models of Mistral send parts of text and thinking."""
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_ToolCallDelta] | None = None


class _Choice(msgspec.Struct, frozen=True):
    delta: _ChoiceDelta | None = None
    finish_reason: str | None = None


class _GroqDetails(msgspec.Struct, frozen=True):
    usage: _OpenAIUsage | None = None
    error: object = None


class _Chunk(msgspec.Struct, frozen=True):
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _OpenAIUsage | None = None
    error: object = None
    x_groq: _GroqDetails | None = None


_CHUNK: Final = msgspec.json.Decoder(_Chunk)


class OpenAIReplyParser:
    """Folds the chunks of one stream into model events."""

    def __init__(self, service: str, *, with_tools: bool = False) -> None:
        self.done = False
        self._service = service
        self._tool_calls = _ToolCalls() if with_tools else None
        self._model = ""
        self._finish_reason = ""
        self._counts: _OpenAIUsage | None = None

    @property
    def usage(self) -> Usage:
        """The usage reported so far; zero for services that report none."""
        counts = self._counts or _OpenAIUsage()
        prompt, cached = (
            to_token_count(counts.prompt_tokens),
            to_token_count(_cached_tokens(counts)),
        )
        return Usage(
            input_tokens=max(0, prompt - cached),
            cache_read_tokens=min(cached, prompt),
            output_tokens=to_token_count(counts.completion_tokens),
        )

    def feed(self, event: SseEvent) -> list[ModelEvent]:
        if self.done:
            return []
        if event.data.strip() == b"[DONE]":
            return self._finish()
        chunk = decode_event(self._service, _CHUNK, event.data)
        groq = chunk.x_groq or _GroqDetails()
        if (error := chunk.error or groq.error) is not None:
            raise to_stream_error(self._service, parse_error(error))
        self._model = chunk.model or self._model
        self._counts = chunk.usage or groq.usage or self._counts
        # The request asks for one choice; the last chunk, with the usage, has none.
        return self._pieces(chunk.choices[0]) if chunk.choices else []

    def end(self) -> list[ModelEvent]:
        # Some services omit `[DONE]`, but all send a finish reason.
        if self._finish_reason:
            return self._finish()
        raise ModelError("cut", f"the stream of {self._service} ended before its last event")

    def _pieces(self, choice: _Choice) -> list[ModelEvent]:
        self._finish_reason = choice.finish_reason or self._finish_reason
        delta = choice.delta
        if delta is None:
            return []
        if delta.refusal:
            raise ModelError("refused", f"the model of {self._service} declined to answer")
        pieces: list[ModelEvent] = []
        if thought := delta.reasoning_content or delta.reasoning:
            pieces.append(ThinkingPiece(thought))
        pieces += _content_pieces(delta.content)
        if self._tool_calls:
            pieces += self._tool_calls.feed(delta.tool_calls or ())
        return pieces

    def _finish(self) -> list[ModelEvent]:
        if self._finish_reason == "content_filter":
            raise ModelError("refused", f"{self._service} filtered the reply away")
        if self._finish_reason == "insufficient_system_resource":
            raise ModelError("overloaded", f"{self._service} stopped the reply because it is overloaded")
        self.done = True
        ended = self._finish_reason == "tool_calls" and self._tool_calls
        reason: StopReason = "end" if ended else STOP_REASONS.get(self._finish_reason, "other")
        return [FinishEvent(reason, self.usage, self._model, usage_reported=self._counts is not None)]


def _cached_tokens(counts: _OpenAIUsage) -> float | None:
    details = counts.prompt_tokens_details
    return counts.prompt_cache_hit_tokens if details is None else details.cached_tokens


def _content_pieces(content: str | list[_ContentPart] | None) -> list[ModelEvent]:
    if isinstance(content, list):
        return [piece for part in content for piece in _part_pieces(part)]
    return [TextPiece(content)] if content else []


def _part_pieces(part: _ContentPart) -> list[ModelEvent]:
    thinking = part.thinking or ""
    if isinstance(thinking, list):
        thinking = "".join(one.text or "" for one in thinking)
    if thinking:
        return [ThinkingPiece(thinking)]
    return [TextPiece(part.text)] if part.text else []


class _ToolCalls:
    """Folds the deltas of tool calls into pieces.

    A delta belongs to the call with its index. Some services omit the index, or give several whole calls the same one;
    then another id, or a name without an id, begins a new call.
    """

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[int, tuple[int, str]] = {}
        """By index, the number and the id of the newest call."""

    def feed(self, deltas: Sequence[_ToolCallDelta]) -> list[ModelEvent]:
        return [piece for delta in deltas for piece in self._piece(delta)]

    def _piece(self, delta: _ToolCallDelta) -> list[ModelEvent]:
        function = delta.function or _FunctionDelta()
        arguments = function.arguments
        if arguments is not None and not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        index = 0 if delta.index is None else delta.index
        known = self._open.get(index)
        if known is None or self._begins(delta, function.name or "", known[1]):
            known = self._open[index] = self._count, delta.id or ""
            self._count += 1
            return [ToolCallPiece(known[0], arguments or "", function.name or "")]
        return [ToolCallPiece(known[0], arguments)] if arguments else []

    def _begins(self, delta: _ToolCallDelta, name: str, known_id: str) -> bool:
        if delta.id:
            return delta.id != known_id and bool(name)
        return bool(name) and delta.index is None
