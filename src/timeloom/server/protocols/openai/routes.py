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
from timeloom.runtime.hub.live_conversation import USER, Accepted
from timeloom.server.history_match import Line, Spot, with_history
from timeloom.server.http.problem_json import Problem
from timeloom.server.http.sse import EventStream, is_last
from timeloom.server.protocols.send_and_stream import Asked, ask
from timeloom.server.protocols.turn_answer import Answer
from timeloom.server.services import RequestContext

ADDRESS: Final = "/v1/"
"""The path prefix of this API; all errors below it, also 404, have the OpenAI format."""

MODEL: Final = "timeloom"
CONVERSATION_HEADER: Final = "x-conversation-id"
METADATA_KEY: Final = "conversation_id"

FINISH: Final = {"max_iterations": "length", "budget_exhausted": "length", "refused": "content_filter"}
"""The `finish_reason` for each reason of a turn's end; all others are `stop`."""

FAILED: Final = frozenset[EndReason]({"protocol_failure", "provider_error", "runtime_error"})
"""End reasons that are errors. All others produce an answer, or a text that explains why there is none."""

KEPT: Final = ("retry-after", "www-authenticate", "x-should-retry")
"""Headers of an error response that are kept for OpenAI clients."""

ERROR_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
"""OpenAI error types by status. Others are `server_error` from 500 on, else `invalid_request_error`."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message; only text is supported."""

    type: str
    text: str = ""


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the client's history."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | tuple[Part, ...] | None = None


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


class Choice(msgspec.Struct, frozen=True, kw_only=True):
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
    choices: tuple[Choice, ...]
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


async def get_model(call: RequestContext) -> ModelCard:
    """Return a model by name."""
    _need_model(call.request.path_params["model"])
    return ModelCard()


async def post_completion(call: RequestContext, body: ChatBody) -> ChatCompletion | EventStream:
    """Send the last message to the conversation of the earlier ones and return the answer of its turn."""
    _need_plain(body)
    lines, message = _divided(body.messages)
    asked = await _asked(call, body, lines, message)
    call.request.state.accepted = asked.accepted
    told = _Telling(call, asked.accepted, (*lines, Line("user", message)))
    if body.stream:
        wants_usage = bool(body.stream_options and body.stream_options.include_usage)
        return EventStream(asked.opened, call.place.leave_s, frames=_Chunks(told, wants_usage=wants_usage))
    async with asked.opened as (_, events):
        async for event in events:
            told.hear(event)
    return told.completion()


def refused(problem: Response) -> Response:
    """Convert a problem+json response to an OpenAI error response."""
    said = msgspec.json.decode(problem.body, type=Problem)
    headers = {name: value for name, value in problem.headers.items() if name in KEPT}
    error = _Error(message=said.detail, type=_error_type(said.status), code=said.code)
    return Response(msgspec.json.encode({"error": error}), said.status, headers, media_type="application/json")


class _Error(msgspec.Struct, frozen=True, kw_only=True):
    message: str
    type: str
    code: str
    param: None = None


def _error_type(status: int) -> str:
    return ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")


def _need_model(name: str) -> None:
    if name != MODEL:
        raise CodedError("model_unknown", f"the only model is {MODEL!r}, got {name[:60]!r}")


def _need_plain(body: ChatBody) -> None:
    _need_model(body.model)
    if body.tools or body.functions:
        raise CodedError("request_malformed", "tools must be empty; the agent uses only its configured tools")
    if body.n not in (None, 1):
        raise CodedError("request_malformed", "n must be 1")


def _divided(messages: Sequence[ChatMessage]) -> tuple[tuple[Line, ...], str]:
    """Return the earlier messages and the text of the last one."""
    *before, last = messages
    if last.role != "user" or not (message := _text(last)).strip():
        raise CodedError("request_malformed", "the last message must have the role user and a text")
    return tuple(Line(one.role, _text(one)) for one in before), message


def _text(message: ChatMessage) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    for part in message.content:
        if part.type != "text":
            raise CodedError("request_malformed", f"only text parts are supported, got type {part.type[:40]!r}")
    return "".join(part.text for part in message.content)


async def _asked(call: RequestContext, body: ChatBody, lines: tuple[Line, ...], message: str) -> Asked:
    hub = call.place.hub
    named = call.request.headers.get(CONVERSATION_HEADER) or (body.metadata or {}).get(METADATA_KEY, "")
    if named:
        info = await call.visible(named)
        return await _said(call, info.id, message, call.author_in(info))
    histories = call.place.histories
    if (spot := histories.take(_owner(call), lines)) and await _is_there(call, spot):
        try:
            return await _said(call, spot.conversation, message)
        except BaseException:
            # The message was not sent, so a retry must find the same conversation again.
            histories.keep(_owner(call), lines, spot)
            raise
    header = ConversationStarted(tenant=call.tenant, project=call.project, user=call.caller.user)
    return await _said(call, (await hub.found(header)).id, with_history(lines, message))


async def _said(call: RequestContext, conversation: ConversationId, message: str, author: str = USER) -> Asked:
    return await ask(call.place, conversation, lambda: call.place.hub.say(conversation, message, author=author))


async def _is_there(call: RequestContext, spot: Spot) -> bool:
    """Whether the conversation still exists for this principal and has no later turn."""
    try:
        info = await call.visible(spot.conversation)
        return (await call.place.hub.status(info.id)).turn_id == spot.turn
    except CodedError:
        return False


def _owner(call: RequestContext) -> tuple[str, ...]:
    return call.tenant, call.project, call.caller.user


class _Telling:
    """Builds the completion of one turn from its events."""

    def __init__(self, call: RequestContext, accepted: Accepted, lines: Sequence[Line]) -> None:
        self.answer = Answer()
        self.conversation = accepted.conversation_id
        self.id = f"chatcmpl-{accepted.turn_id}-{accepted.seq}"
        self.created = call.place.clock.epoch_us() // 1_000_000
        self._call = call
        self._lines = lines
        self._turn = accepted.turn_id

    def hear(self, event: Event) -> str:
        """Process the event and return the text that it adds; after the last one, remember the history."""
        piece = self.answer.hear(event)
        if self.is_over(event) and not self.failure():
            piece = piece if self.answer.pieces else self._why()
            lines = (*self._lines, Line("assistant", self.text))
            self._call.place.histories.keep(_owner(self._call), lines, Spot(self.conversation, self._turn))
        return piece

    def is_over(self, event: Event) -> bool:
        """Whether the event is the last one of the turn."""
        return is_last(event, self._turn)

    @property
    def text(self) -> str:
        """The answer, or the reason why there is none; an error would make clients retry."""
        return self.answer.text if self.answer.pieces else self._why()

    def failure(self) -> CodedError | None:
        """Return the error of a failed turn; None if the turn did not fail."""
        if error := self.answer.error:
            return CodedError(error.code, error.message)
        return CodedError("answer_missing", self._why()) if self.answer.reason in FAILED else None

    def _why(self) -> str:
        reason = self.answer.reason
        return self.answer.words or f"the turn ended without an answer{f': {reason}' if reason else ''}"

    def finish_reason(self) -> str:
        """Return OpenAI's name for the end of the turn."""
        return FINISH.get(self.answer.reason or "", "stop")

    def usage(self) -> TokenUsage:
        """Return the token usage of the turn."""
        return _usage(self.answer.usage)

    def completion(self) -> ChatCompletion:
        """Return the completion; raise if the turn failed."""
        if failure := self.failure():
            raise failure
        message = AnswerMessage(content=self.text)
        return ChatCompletion(
            id=self.id,
            created=self.created,
            choices=(Choice(message=message, finish_reason=self.finish_reason()),),
            usage=self.usage(),
            conversation_id=self.conversation,
        )


def _usage(used: Usage) -> TokenUsage:
    prompt = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
    return TokenUsage(
        prompt_tokens=prompt,
        completion_tokens=used.output_tokens,
        total_tokens=prompt + used.output_tokens,
        prompt_tokens_details=CachedTokens(cached_tokens=used.cache_read_tokens),
    )


class _Delta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    content: str | None = None
    role: str | None = None


class _ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    delta: _Delta
    finish_reason: str | None = None
    index: int = 0
    logprobs: None = None


class _Chunk(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    created: int
    choices: tuple[_ChunkChoice, ...]
    conversation_id: str
    usage: TokenUsage | msgspec.UnsetType | None = msgspec.UNSET
    model: str = MODEL
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"


class _Chunks:
    """Encodes a streamed answer as server-sent chunks."""

    def __init__(self, told: _Telling, *, wants_usage: bool) -> None:
        self._told = told
        self._wants_usage = wants_usage
        self._has_begun = False

    def __call__(self, event: Event) -> bytes:
        if isinstance(event, Heartbeat):
            return b": still here\n\n"
        piece = self._told.hear(event)
        said = b"" if self._has_begun else self._chunk(_Delta(role="assistant", content=""))
        self._has_begun = True
        if piece:
            said += self._chunk(_Delta(content=piece))
        if self._told.is_over(event):
            said += self._end()
        return said

    def _end(self) -> bytes:
        if failure := self._told.failure():
            error = _Error(message=str(failure), type="server_error", code=failure.code)
            return _framed(msgspec.json.encode({"error": error}))
        said = self._chunk(_Delta(), self._told.finish_reason())
        if self._wants_usage:
            said += self._framed_chunk((), self._told.usage())
        return said + _framed(b"[DONE]")

    def _chunk(self, delta: _Delta, finish_reason: str | None = None) -> bytes:
        choice = _ChunkChoice(delta=delta, finish_reason=finish_reason)
        return self._framed_chunk((choice,), None if self._wants_usage else msgspec.UNSET)

    def _framed_chunk(self, choices: tuple[_ChunkChoice, ...], usage: TokenUsage | msgspec.UnsetType | None) -> bytes:
        told = self._told
        chunk = _Chunk(
            id=told.id, created=told.created, choices=choices, conversation_id=told.conversation, usage=usage
        )
        return _framed(msgspec.json.encode(chunk))


def _framed(data: bytes) -> bytes:
    return b"data: %s\n\n" % data
