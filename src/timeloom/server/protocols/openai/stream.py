"""Builds chat completions from the events of a turn, whole or as streamed chunks."""

from collections.abc import Sequence
from typing import ClassVar, Final

import msgspec

from timeloom.core.blocks.round import Usage
from timeloom.core.blocks.turn import EndReason
from timeloom.core.codes import CodedError
from timeloom.runtime.hub.events import Event, Heartbeat
from timeloom.runtime.hub.state import SendReceipt
from timeloom.server.history_match import HistoryMessage, HistoryPosition
from timeloom.server.http.sse import EventStream, is_last_event
from timeloom.server.protocols.openai.schema import (
    AnswerMessage,
    CachedTokens,
    ChatCompletion,
    ChoiceDelta,
    ChunkChoice,
    CompletionChoice,
    CompletionChunk,
    OpenAiError,
    OpenAiErrorBody,
    TokenUsage,
)
from timeloom.server.protocols.turn_answer import TurnAnswer
from timeloom.server.request_context import RequestContext

FINISH_REASONS: Final = {"max_iterations": "length", "budget_exhausted": "length", "refused": "content_filter"}
"""The `finish_reason` for each reason of a turn's end; all others are `stop`."""

FAILURE_REASONS: Final = frozenset[EndReason]({"protocol_failure", "provider_error", "runtime_error"})
"""End reasons that are errors. All others produce an answer, or a text that explains why there is none."""


class CompletionBuilder:
    """Builds the completion of one turn from its events."""

    def __init__(
        self,
        context: RequestContext,
        accepted: SendReceipt,
        history: Sequence[HistoryMessage],
        *,
        owner: Sequence[str],
        is_structured: bool = False,
    ) -> None:
        self.answer = TurnAnswer(only_stored=is_structured)
        self.conversation = accepted.conversation_id
        self.id = f"chatcmpl-{accepted.turn_id}-{accepted.seq}"
        self.created = context.services.clock.epoch_us() // 1_000_000
        self._context = context
        self._history = history
        self._owner = owner
        self._turn = accepted.turn_id

    def add_event(self, event: Event) -> str:
        """Process the event and return the text that it adds; after the last one, remember the history."""
        text = self.answer.add_event(event)
        if self.is_last_event(event) and not self.failure():
            text = text if self.answer.parts else self._missing_answer_text()
            history = (*self._history, HistoryMessage("assistant", self.text))
            position = HistoryPosition(self.conversation, self._turn)
            self._context.services.histories.remember(self._owner, history, position)
        return text

    def is_last_event(self, event: Event) -> bool:
        """Whether the event is the last one of the turn."""
        return is_last_event(event, self._turn)

    @property
    def text(self) -> str:
        """The answer, or the reason why there is none; an error would make clients retry."""
        return self.answer.text if self.answer.parts else self._missing_answer_text()

    def failure(self) -> CodedError | None:
        """Return the error of a failed turn; None if the turn did not fail."""
        if error := self.answer.error:
            return CodedError(error.code, error.message)
        return (
            CodedError("answer_missing", self._missing_answer_text()) if self.answer.reason in FAILURE_REASONS else None
        )

    def _missing_answer_text(self) -> str:
        reason = self.answer.reason
        return self.answer.end_text or f"the turn ended without an answer{f': {reason}' if reason else ''}"

    def finish_reason(self) -> str:
        """Return OpenAI's name for the end of the turn."""
        return FINISH_REASONS.get(self.answer.reason or "", "stop")

    def usage(self) -> TokenUsage:
        """Return the token usage of the turn."""
        return _to_token_usage(self.answer.usage)

    def to_completion(self) -> ChatCompletion:
        """Return the completion; raise if the turn failed."""
        if failure := self.failure():
            raise failure
        message = AnswerMessage(content=self.text)
        return ChatCompletion(
            id=self.id,
            created=self.created,
            choices=(CompletionChoice(message=message, finish_reason=self.finish_reason()),),
            usage=self.usage(),
            conversation_id=self.conversation,
        )


DONE: Final = "[DONE]"
"""The data of the last event of a stream that did not fail."""


class CompletionStream(EventStream):
    """A streamed completion."""

    schema_name: ClassVar = "CompletionStreamEvent"
    data_types: ClassVar = (CompletionChunk, OpenAiErrorBody)
    last_data: ClassVar = DONE


class ChunkEncoder:
    """Encodes a streamed answer as server-sent chunks."""

    def __init__(self, completion: CompletionBuilder, *, wants_usage: bool) -> None:
        self._completion = completion
        self._wants_usage = wants_usage
        self._has_started = False

    def __call__(self, event: Event) -> bytes:
        if isinstance(event, Heartbeat):
            return b": still here\n\n"
        text = self._completion.add_event(event)
        frames = b"" if self._has_started else self._encode_delta(ChoiceDelta(role="assistant", content=""))
        self._has_started = True
        if text:
            frames += self._encode_delta(ChoiceDelta(content=text))
        if self._completion.is_last_event(event):
            frames += self._encode_end()
        return frames

    def _encode_end(self) -> bytes:
        if failure := self._completion.failure():
            error = OpenAiError(message=str(failure), type="server_error", code=failure.code)
            return _encode_sse(msgspec.json.encode(OpenAiErrorBody(error=error)))
        frames = self._encode_delta(ChoiceDelta(), self._completion.finish_reason())
        if self._wants_usage:
            frames += self._encode_chunk((), self._completion.usage())
        return frames + _encode_sse(DONE.encode())

    def _encode_delta(self, delta: ChoiceDelta, finish_reason: str | None = None) -> bytes:
        choice = ChunkChoice(delta=delta, finish_reason=finish_reason)
        return self._encode_chunk((choice,), None if self._wants_usage else msgspec.UNSET)

    def _encode_chunk(self, choices: tuple[ChunkChoice, ...], usage: TokenUsage | msgspec.UnsetType | None) -> bytes:
        completion = self._completion
        chunk = CompletionChunk(
            id=completion.id,
            created=completion.created,
            choices=choices,
            conversation_id=completion.conversation,
            usage=usage,
        )
        return _encode_sse(msgspec.json.encode(chunk))


def history_owner(context: RequestContext, bundle: str) -> tuple[str, ...]:
    """Return the owner of the histories that this client sends to that bundle."""
    return context.tenant, context.project, context.principal.user, bundle


def _to_token_usage(usage: Usage) -> TokenUsage:
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return TokenUsage(
        prompt_tokens=prompt,
        completion_tokens=usage.output_tokens,
        total_tokens=prompt + usage.output_tokens,
        prompt_tokens_details=CachedTokens(cached_tokens=usage.cache_read_tokens),
    )


def _encode_sse(data: bytes) -> bytes:
    return b"data: %s\n\n" % data
