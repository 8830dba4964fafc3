"""Folds the chunk stream of chat completions into model events."""

from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.core.blocks import Usage
from timeloom.ports.model import FinishEvent, ModelError, ModelEvent, StopReason, TextPiece, ThinkingPiece
from timeloom.providers.decode import decode_event, to_token_count
from timeloom.providers.errors import parse_error, to_stream_error
from timeloom.providers.sse import SseEvent

STOP_REASONS: Final[Mapping[str, StopReason]] = {"stop": "end", "eos": "end", "length": "max_tokens"}


class _PromptTokenDetails(msgspec.Struct, frozen=True):
    cached_tokens: float | None = None


class _OpenAIUsage(msgspec.Struct, frozen=True):
    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    prompt_tokens_details: _PromptTokenDetails | None = None


class _ChoiceDelta(msgspec.Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    delta: _ChoiceDelta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, frozen=True):
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _OpenAIUsage | None = None
    error: object = None


_CHUNK: Final = msgspec.json.Decoder(_Chunk)


class OpenAIReplyParser:
    """Folds the chunks of one stream into model events."""

    def __init__(self, service: str) -> None:
        self.done = False
        self._service = service
        self._model = ""
        self._finish_reason = ""
        self._counts: _OpenAIUsage | None = None

    @property
    def usage(self) -> Usage:
        """The usage reported so far; zero for services that report none."""
        counts = self._counts or _OpenAIUsage()
        prompt, cached = (
            to_token_count(counts.prompt_tokens),
            to_token_count((counts.prompt_tokens_details or _PromptTokenDetails()).cached_tokens),
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
        if chunk.error is not None:
            raise to_stream_error(self._service, parse_error(chunk.error))
        self._model = chunk.model or self._model
        self._counts = chunk.usage or self._counts
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
        if delta.content:
            pieces.append(TextPiece(delta.content))
        return pieces

    def _finish(self) -> list[ModelEvent]:
        if self._finish_reason == "content_filter":
            raise ModelError("refused", f"{self._service} filtered the reply away")
        self.done = True
        reason: StopReason = STOP_REASONS.get(self._finish_reason, "other")
        return [FinishEvent(reason, self.usage, self._model, usage_reported=self._counts is not None)]
