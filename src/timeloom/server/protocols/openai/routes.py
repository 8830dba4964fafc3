"""The chat completions of OpenAI's interface: a conversation for clients that send everything again each time."""

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
"""Below it everything is said as clients of this interface expect it, also that nothing is there."""

MODEL: Final = "timeloom"
CONVERSATION_HEADER: Final = "x-conversation-id"
METADATA_KEY: Final = "conversation_id"

FINISH: Final = {"max_iterations": "length", "budget_exhausted": "length", "refused": "content_filter"}
"""How ends of turns are called there; all others are `stop`."""

FAILED: Final = frozenset[EndReason]({"protocol_failure", "provider_error", "runtime_error"})
"""Ends of turns that are errors; after all others there is an answer, or it is said why there is none."""

KEPT: Final = ("retry-after", "www-authenticate", "x-should-retry")
"""Headers of a problem that clients of this interface read, too."""

ERROR_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
"""How errors are called there, by their status; the others are the client's, or from 500 on the server's."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message; only text is taken."""

    type: str
    text: str = ""


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the client has it."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | tuple[Part, ...] | None = None


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream tells beside the answer."""

    include_usage: bool | None = None


class ChatBody(msgspec.Struct, frozen=True, kw_only=True):
    """A request; how a model should write (`temperature` and the like) is taken and has no effect."""

    model: str
    messages: Annotated[tuple[ChatMessage, ...], Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    metadata: dict[str, str] | None = None
    n: int | None = None
    tools: tuple[msgspec.Raw, ...] | None = None
    functions: tuple[msgspec.Raw, ...] | None = None


class AnswerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The answer."""

    content: str
    role: Literal["assistant"] = "assistant"
    refusal: None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The one answer, and how it ended."""

    message: AnswerMessage
    finish_reason: str
    index: int = 0
    logprobs: None = None


class CachedTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Those that the provider had in its cache."""

    cached_tokens: int


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What all model calls of the turn used together."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer; the conversation it is part of stands beside it."""

    id: str
    created: int
    choices: tuple[Choice, ...]
    usage: TokenUsage
    conversation_id: str
    model: str = MODEL
    object: Literal["chat.completion"] = "chat.completion"


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """The agent, which is called a model there."""

    id: str = MODEL
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = MODEL


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All there are."""

    data: tuple[ModelCard, ...] = (ModelCard(),)
    object: Literal["list"] = "list"


async def list_models(_call: RequestContext) -> ModelList:
    """The names that a completion can be asked of."""
    return ModelList()


async def get_model(call: RequestContext) -> ModelCard:
    """The model of that name."""
    _need_model(call.request.path_params["model"])
    return ModelCard()


async def post_completion(call: RequestContext, body: ChatBody) -> ChatCompletion | EventStream:
    """Say the last message to the conversation that the earlier ones are of, and answer with its turn's answer."""
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
    """The problem as clients of this interface expect it."""
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
        raise CodedError("model_unknown", f"the one model here is {MODEL!r}, got {name[:60]!r}")


def _need_plain(body: ChatBody) -> None:
    _need_model(body.model)
    if body.tools or body.functions:
        raise CodedError("request_malformed", "the agent has tools of its own and takes none from clients")
    if body.n not in (None, 1):
        raise CodedError("request_malformed", "there is one answer; n is 1")


def _divided(messages: Sequence[ChatMessage]) -> tuple[tuple[Line, ...], str]:
    """What was said before, and the message now."""
    *before, last = messages
    if last.role != "user" or not (message := _text(last)).strip():
        raise CodedError("request_malformed", "the last message is one of the user, with a text")
    return tuple(Line(one.role, _text(one)) for one in before), message


def _text(message: ChatMessage) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    for part in message.content:
        if part.type != "text":
            raise CodedError("request_malformed", f"only text is taken, got a part of type {part.type[:40]!r}")
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
            # It was not said, so whoever tries again goes on from there.
            histories.keep(_owner(call), lines, spot)
            raise
    header = ConversationStarted(tenant=call.tenant, project=call.project, user=call.caller.user)
    return await _said(call, (await hub.found(header)).id, with_history(lines, message))


async def _said(call: RequestContext, conversation: ConversationId, message: str, author: str = USER) -> Asked:
    return await ask(call.place, conversation, lambda: call.place.hub.say(conversation, message, author=author))


async def _is_there(call: RequestContext, spot: Spot) -> bool:
    """Whether the conversation is still the caller's, and has not gone on since."""
    try:
        info = await call.visible(spot.conversation)
        return (await call.place.hub.status(info.id)).turn_id == spot.turn
    except CodedError:
        return False


def _owner(call: RequestContext) -> tuple[str, ...]:
    return call.tenant, call.project, call.caller.user


class _Telling:
    """One answer on its way, and what it comes to."""

    def __init__(self, call: RequestContext, accepted: Accepted, lines: Sequence[Line]) -> None:
        self.answer = Answer()
        self.conversation = accepted.conversation_id
        self.id = f"chatcmpl-{accepted.turn_id}-{accepted.seq}"
        self.created = call.place.clock.epoch_us() // 1_000_000
        self._call = call
        self._lines = lines
        self._turn = accepted.turn_id

    def hear(self, event: Event) -> str:
        """The text that the event adds; with the last one the answer is one of the conversation's."""
        piece = self.answer.hear(event)
        if self.is_over(event) and not self.failure():
            piece = piece if self.answer.pieces else self._why()
            lines = (*self._lines, Line("assistant", self.text))
            self._call.place.histories.keep(_owner(self._call), lines, Spot(self.conversation, self._turn))
        return piece

    def is_over(self, event: Event) -> bool:
        """Whether the event is the last one."""
        return is_last(event, self._turn)

    @property
    def text(self) -> str:
        """The answer, or why there is none: a client that gets an error asks again by itself."""
        return self.answer.text if self.answer.pieces else self._why()

    def failure(self) -> CodedError | None:
        """What went wrong; None where there is an answer or none was to be."""
        if error := self.answer.error:
            return CodedError(error.code, error.message)
        return CodedError("answer_missing", self._why()) if self.answer.reason in FAILED else None

    def _why(self) -> str:
        reason = self.answer.reason
        return self.answer.words or f"the turn ended without an answer{f': {reason}' if reason else ''}"

    def finish_reason(self) -> str:
        """How the answer ended."""
        return FINISH.get(self.answer.reason or "", "stop")

    def usage(self) -> TokenUsage:
        """What was used."""
        return _usage(self.answer.usage)

    def completion(self) -> ChatCompletion:
        """All of it; raises where the turn failed."""
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
    """The frames of a streamed answer."""

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
