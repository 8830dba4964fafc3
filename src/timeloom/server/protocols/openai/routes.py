"""OpenAI-compatible chat completions: maps each request to a turn of a stored conversation."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from timeloom.core.blocks import ConversationStarted
from timeloom.core.blocks.round import Usage
from timeloom.core.blocks.turn import EndReason
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.runtime.hub.events import Event, Heartbeat
from timeloom.runtime.hub.live_conversation import USER, SendReceipt
from timeloom.server.history_match import HistoryMessage, HistoryPosition, with_history
from timeloom.server.http.problem_json import ProblemDetails
from timeloom.server.http.sse import EventStream, is_last_event
from timeloom.server.protocols.send_and_stream import SendResult, send_and_stream
from timeloom.server.protocols.turn_answer import TurnAnswer
from timeloom.server.services import RequestContext

PATH_PREFIX: Final = "/v1/"
"""The path prefix of this API; all errors below it, also 404, have the OpenAI format."""

MODEL: Final = "timeloom"
CONVERSATION_HEADER: Final = "x-conversation-id"
METADATA_KEY: Final = "conversation_id"

FINISH_REASONS: Final = {"max_iterations": "length", "budget_exhausted": "length", "refused": "content_filter"}
"""The `finish_reason` for each reason of a turn's end; all others are `stop`."""

FAILURE_REASONS: Final = frozenset[EndReason]({"protocol_failure", "provider_error", "runtime_error"})
"""End reasons that are errors. All others produce an answer, or a text that explains why there is none."""

KEPT_HEADERS: Final = ("retry-after", "www-authenticate", "x-should-retry")
"""Headers of an error response that are kept for OpenAI clients."""

ERROR_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
"""OpenAI error types by status. Others are `server_error` from 500 on, else `invalid_request_error`."""


class ChatContentPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message; only text is supported."""

    type: str
    text: str = ""


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the client's history."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | tuple[ChatContentPart, ...] | None = None


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a streamed completion."""

    include_usage: bool | None = None


class ChatBody(msgspec.Struct, frozen=True, kw_only=True):
    """A completion request; sampling options such as `temperature` are accepted and ignored."""

    model: str
    messages: Annotated[tuple[ChatMessage, ...], Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    metadata: dict[str, str] | None = None
    n: int | None = None
    tools: tuple[msgspec.Raw, ...] | None = None
    functions: tuple[msgspec.Raw, ...] | None = None


class AnswerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The assistant's message."""

    content: str
    role: Literal["assistant"] = "assistant"
    refusal: None = None


class CompletionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The only choice of a completion."""

    message: AnswerMessage
    finish_reason: str
    index: int = 0
    logprobs: None = None


class CachedTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt tokens that the provider read from its cache."""

    cached_tokens: int


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The token usage of all model calls of the turn."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer with the id of its conversation."""

    id: str
    created: int
    choices: tuple[CompletionChoice, ...]
    usage: TokenUsage
    conversation_id: str
    model: str = MODEL
    object: Literal["chat.completion"] = "chat.completion"


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """The agent, presented as a model."""

    id: str = MODEL
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = MODEL


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All models."""

    data: tuple[ModelCard, ...] = (ModelCard(),)
    object: Literal["list"] = "list"


async def list_models(_call: RequestContext) -> ModelList:
    """List the models."""
    return ModelList()


async def get_model(context: RequestContext) -> ModelCard:
    """Return a model by name."""
    _check_model(context.request.path_params["model"])
    return ModelCard()


async def post_completion(context: RequestContext, body: ChatBody) -> ChatCompletion | EventStream:
    """Send the last message to the conversation of the earlier ones and return the answer of its turn."""
    _check_supported(body)
    history, message = _split_messages(body.messages)
    sent = await _send_message(context, body, history, message)
    context.request.state.accepted = sent.accepted
    completion = _CompletionBuilder(context, sent.accepted, (*history, HistoryMessage("user", message)))
    if body.stream:
        wants_usage = bool(body.stream_options and body.stream_options.include_usage)
        return EventStream(
            sent.opened, context.services.drain_timeout_s, encoder=_ChunkEncoder(completion, wants_usage=wants_usage)
        )
    async with sent.opened as (_, events):
        async for event in events:
            completion.add_event(event)
    return completion.to_completion()


def to_openai_error(problem: Response) -> Response:
    """Convert a problem+json response to an OpenAI error response."""
    details = msgspec.json.decode(problem.body, type=ProblemDetails)
    headers = {name: value for name, value in problem.headers.items() if name in KEPT_HEADERS}
    error = _OpenAiError(message=details.detail, type=_error_type(details.status), code=details.code)
    return Response(msgspec.json.encode({"error": error}), details.status, headers, media_type="application/json")


class _OpenAiError(msgspec.Struct, frozen=True, kw_only=True):
    message: str
    type: str
    code: str
    param: None = None


def _error_type(status: int) -> str:
    return ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")


def _check_model(name: str) -> None:
    if name != MODEL:
        raise CodedError("model_unknown", f"the only model is {MODEL!r}, got {name[:60]!r}")


def _check_supported(body: ChatBody) -> None:
    _check_model(body.model)
    if body.tools or body.functions:
        raise CodedError("request_malformed", "tools must be empty; the agent uses only its configured tools")
    if body.n not in (None, 1):
        raise CodedError("request_malformed", "n must be 1")


def _split_messages(messages: Sequence[ChatMessage]) -> tuple[tuple[HistoryMessage, ...], str]:
    """Return the earlier messages and the text of the last one."""
    *earlier, last = messages
    if last.role != "user" or not (message := _text(last)).strip():
        raise CodedError("request_malformed", "the last message must have the role user and a text")
    return tuple(HistoryMessage(one.role, _text(one)) for one in earlier), message


def _text(message: ChatMessage) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    for part in message.content:
        if part.type != "text":
            raise CodedError("request_malformed", f"only text parts are supported, got type {part.type[:40]!r}")
    return "".join(part.text for part in message.content)


async def _send_message(
    context: RequestContext, body: ChatBody, history: tuple[HistoryMessage, ...], message: str
) -> SendResult:
    hub = context.services.hub
    conversation_name = context.request.headers.get(CONVERSATION_HEADER) or (body.metadata or {}).get(METADATA_KEY, "")
    if conversation_name:
        info = await context.require_conversation(conversation_name)
        return await _send_to(context, info.id, message, context.author_in(info))
    histories = context.services.histories
    if (position := histories.pop(_history_owner(context), history)) and await _is_current(context, position):
        try:
            return await _send_to(context, position.conversation, message)
        except BaseException:
            # The message was not sent, so a retry must find the same conversation again.
            histories.remember(_history_owner(context), history, position)
            raise
    header = ConversationStarted(tenant=context.tenant, project=context.project, user=context.principal.user)
    return await _send_to(context, (await hub.create_empty(header)).id, with_history(history, message))


async def _send_to(
    context: RequestContext, conversation: ConversationId, message: str, author: str = USER
) -> SendResult:
    return await send_and_stream(
        context.services, conversation, lambda: context.services.hub.send_message(conversation, message, author=author)
    )


async def _is_current(context: RequestContext, position: HistoryPosition) -> bool:
    """Whether the conversation still exists for this principal and has no later turn."""
    try:
        info = await context.require_conversation(position.conversation)
        return (await context.services.hub.status(info.id)).turn_id == position.turn
    except CodedError:
        return False


def _history_owner(context: RequestContext) -> tuple[str, ...]:
    return context.tenant, context.project, context.principal.user


class _CompletionBuilder:
    """Builds the completion of one turn from its events."""

    def __init__(self, context: RequestContext, accepted: SendReceipt, history: Sequence[HistoryMessage]) -> None:
        self.answer = TurnAnswer()
        self.conversation = accepted.conversation_id
        self.id = f"chatcmpl-{accepted.turn_id}-{accepted.seq}"
        self.created = context.services.clock.epoch_us() // 1_000_000
        self._context = context
        self._history = history
        self._turn = accepted.turn_id

    def add_event(self, event: Event) -> str:
        """Process the event and return the text that it adds; after the last one, remember the history."""
        text = self.answer.add_event(event)
        if self.is_last_event(event) and not self.failure():
            text = text if self.answer.parts else self._missing_answer_text()
            history = (*self._history, HistoryMessage("assistant", self.text))
            self._context.services.histories.remember(
                _history_owner(self._context), history, HistoryPosition(self.conversation, self._turn)
            )
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


def _to_token_usage(usage: Usage) -> TokenUsage:
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return TokenUsage(
        prompt_tokens=prompt,
        completion_tokens=usage.output_tokens,
        total_tokens=prompt + usage.output_tokens,
        prompt_tokens_details=CachedTokens(cached_tokens=usage.cache_read_tokens),
    )


class _ChoiceDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    content: str | None = None
    role: str | None = None


class _ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    delta: _ChoiceDelta
    finish_reason: str | None = None
    index: int = 0
    logprobs: None = None


class _CompletionChunk(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    created: int
    choices: tuple[_ChunkChoice, ...]
    conversation_id: str
    usage: TokenUsage | msgspec.UnsetType | None = msgspec.UNSET
    model: str = MODEL
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"


class _ChunkEncoder:
    """Encodes a streamed answer as server-sent chunks."""

    def __init__(self, completion: _CompletionBuilder, *, wants_usage: bool) -> None:
        self._completion = completion
        self._wants_usage = wants_usage
        self._has_started = False

    def __call__(self, event: Event) -> bytes:
        if isinstance(event, Heartbeat):
            return b": still here\n\n"
        text = self._completion.add_event(event)
        frames = b"" if self._has_started else self._encode_delta(_ChoiceDelta(role="assistant", content=""))
        self._has_started = True
        if text:
            frames += self._encode_delta(_ChoiceDelta(content=text))
        if self._completion.is_last_event(event):
            frames += self._encode_end()
        return frames

    def _encode_end(self) -> bytes:
        if failure := self._completion.failure():
            error = _OpenAiError(message=str(failure), type="server_error", code=failure.code)
            return _encode_sse(msgspec.json.encode({"error": error}))
        frames = self._encode_delta(_ChoiceDelta(), self._completion.finish_reason())
        if self._wants_usage:
            frames += self._encode_chunk((), self._completion.usage())
        return frames + _encode_sse(b"[DONE]")

    def _encode_delta(self, delta: _ChoiceDelta, finish_reason: str | None = None) -> bytes:
        choice = _ChunkChoice(delta=delta, finish_reason=finish_reason)
        return self._encode_chunk((choice,), None if self._wants_usage else msgspec.UNSET)

    def _encode_chunk(self, choices: tuple[_ChunkChoice, ...], usage: TokenUsage | msgspec.UnsetType | None) -> bytes:
        completion = self._completion
        chunk = _CompletionChunk(
            id=completion.id,
            created=completion.created,
            choices=choices,
            conversation_id=completion.conversation,
            usage=usage,
        )
        return _encode_sse(msgspec.json.encode(chunk))


def _encode_sse(data: bytes) -> bytes:
    return b"data: %s\n\n" % data
