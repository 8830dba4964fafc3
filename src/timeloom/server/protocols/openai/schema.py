"""The request and response types of OpenAI's chat completions API."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

MODEL: Final = "timeloom"
"""The name under which the agent is presented as a model."""


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


class JsonSchemaFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The schema of a structured answer; its name is not used."""

    schema: dict[str, msgspec.Raw] | None = None
    name: str = ""
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The form of the answer: `text`, `json_object`, or `json_schema` with a schema."""

    type: str
    json_schema: JsonSchemaFormat | None = None


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
    response_format: ResponseFormat | None = None


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


class ChoiceDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part that a chunk adds to the message."""

    content: str | None = None
    role: str | None = None


class ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The only choice of a chunk."""

    delta: ChoiceDelta
    finish_reason: str | None = None
    index: int = 0
    logprobs: None = None


class CompletionChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a streamed completion."""

    id: str
    created: int
    choices: tuple[ChunkChoice, ...]
    conversation_id: str
    usage: TokenUsage | msgspec.UnsetType | None = msgspec.UNSET
    model: str = MODEL
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"


class OpenAiError(msgspec.Struct, frozen=True, kw_only=True):
    """An error in the OpenAI format."""

    message: str
    type: str
    code: str
    param: None = None


class OpenAiErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an error response in the OpenAI format."""

    error: OpenAiError
