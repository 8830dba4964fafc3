"""The model port: sends a prompt and streams the reply."""

from collections.abc import AsyncGenerator
from functools import cache
from typing import Final, Literal, Protocol, cast, runtime_checkable

import msgspec

from timeloom.core.blocks import Usage
from timeloom.core.blocks.caching import Lifetime
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.codes import CodedError
from timeloom.core.policy.model_retry import RETRIED_ERRORS
from timeloom.core.render.native_tools import NativeTool

ErrorKind = Literal[
    "overloaded",
    "rate_limited",
    "unreachable",
    "timeout",
    "cut",
    "unavailable",
    "context_too_long",
    "refused",
    "unauthorized",
    "invalid",
]
"""Why a model did not answer, or did not finish its answer."""

MAX_CALL_S: Final = 1_800.0
"""Default seconds of a whole model call. Less ends long replies of slow models; more holds a turn of a service that
sends content and never ends."""

MAX_CHARS_PER_TOKEN: Final = 128
"""Characters that a token may have. The longest tokens of today's vocabularies are 128 spaces, so that a smaller value
cuts honest replies; a larger one accepts more of a model that ignores its limit."""

MIN_REPLY_CHARS: Final = 65_536
"""Characters that every reply may have, so that rounding and framing never cut a reply to a request for few tokens."""

StopReason = Literal["end", "max_tokens", "stop_sequence", "other"]
"""Why a reply ended: the model finished, reached its token limit or a stop sequence, or another reason."""


class TextSegment(msgspec.Struct, frozen=True, gc=False, tag="text"):
    """Text of the prompt; `cache_point` caches the prefix up to its end for `cache_lifetime`."""

    text: str
    cache_point: bool = False
    cache_lifetime: Lifetime = "5m"


class DataSegment(msgspec.Struct, frozen=True, gc=False, tag="data"):
    """An image or a PDF in the prompt."""

    mime: str
    data: bytes
    cache_point: bool = False
    cache_lifetime: Lifetime = "5m"


Segment = TextSegment | DataSegment


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request: the system text, then one user message that consists of the segments.

    `number` counts the recorded outcomes of this purpose in the conversation, from 0. A request that is sent again
    after a crash has the same number. `opening` is the conversation's first user message. `conversation` is set if the
    next request of the same conversation extends this one, so that a client can keep what it encoded; it is not sent.
    `tools` are the functions of native tool calling; only a `NativeToolModel` accepts them.
    """

    system: str
    segments: tuple[Segment, ...]
    purpose: CallPurpose = "decision"
    max_output_tokens: int = 8_192
    thinking_tokens: int = 0
    temperature: float | None = None
    system_cache_point: bool = True
    system_cache_lifetime: Lifetime = "5m"
    number: int = 0
    opening: str = ""
    conversation: str = ""
    tools: tuple[NativeTool, ...] = ()
    several_calls: bool = False
    """Whether a reply may call several of the tools."""

    @property
    def max_reply_chars(self) -> int:
        """The characters that all parts of a reply may have together; a longer reply ignores `max_output_tokens`."""
        return MIN_REPLY_CHARS + MAX_CHARS_PER_TOKEN * (self.max_output_tokens + self.thinking_tokens)


class TextPiece(msgspec.Struct, frozen=True, gc=False, tag="text"):
    """The next piece of the reply."""

    text: str


class ThinkingPiece(msgspec.Struct, frozen=True, gc=False, tag="thinking"):
    """The next piece of the provider's thinking, which is not part of the reply."""

    text: str


class ToolCallPiece(msgspec.Struct, frozen=True, gc=False, tag="tool_call"):
    """The next piece of a native tool call: JSON text of its arguments.

    `index` counts the calls of a reply from 0. The first piece of a call has the name of the function.
    """

    index: int
    text: str = ""
    name: str = ""


class FinishEvent(msgspec.Struct, frozen=True, tag="finished"):
    """The last event of a complete reply; `model` is the model id that the service reports.

    If the service reported no usage, `usage` is empty and `usage_reported` is false. If the price is unknown, the cost
    is 0 and `priced` is false.
    """

    stop_reason: StopReason
    usage: Usage
    model: str = ""
    usage_reported: bool = True
    priced: bool = True


ModelEvent = TextPiece | ThinkingPiece | ToolCallPiece | FinishEvent


class ModelError(CodedError):
    """The model did not answer, or did not finish; `usage` is the usage reported before the error.

    If its cost is missing because the price is unknown, `priced` is false.
    """

    def __init__(
        self, kind: ErrorKind, message: str, *, retry_after_s: float | None = None, usage: Usage | None = None
    ) -> None:
        super().__init__(f"model_{kind}", message)
        self.kind: ErrorKind = kind
        self.retry_after_s = retry_after_s
        self.usage = usage or Usage()
        self.priced = True

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later, after `retry_after_s` if the service gave one."""
        return self.kind in RETRIED_ERRORS


@runtime_checkable
class PricedModel(Protocol):
    """A model whose price is known before a request."""

    def price_nano_usd(self, usage: Usage) -> int | None:
        """Return the cost of a call with that usage in billionths of a dollar, or None if it is unknown."""
        ...


@runtime_checkable
class NativeToolModel(Protocol):
    """A model that accepts `ModelRequest.tools` and answers with `ToolCallPiece`."""

    @property
    def native_tools(self) -> bool:
        """Whether this model does it; a provider may know that one of its models cannot."""
        ...


class Model(Protocol):
    """A model, or a client of a model service."""

    @property
    def name(self) -> str:
        """The requested name, such as `anthropic:<id>`."""
        ...

    @property
    def window_tokens(self) -> int:
        """The maximum number of tokens of prompt and reply together."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the reply piece by piece, then `FinishEvent`; raises `ModelError`.

        The text is valid Unicode and not longer than `request.max_reply_chars`; `ReplyPieces` ensures both.
        Closing the generator (`contextlib.aclosing`) cancels the call and closes its connection.
        """
        ...

    async def close(self) -> None:
        """Close connections; closing twice does nothing."""
        ...


def as_priced_model(model: Model) -> PricedModel | None:
    """Return the model as a `PricedModel` if its price is known before a request, otherwise None."""
    return cast("PricedModel", model) if _has_price(type(model)) else None


def supports_native_tools(model: Model) -> bool:
    """Return whether the model can call tools through its provider's native tool calling."""
    return isinstance(model, NativeToolModel) and model.native_tools


@cache
def _has_price(kind: type[object]) -> bool:
    """Whether the type implements `PricedModel`; cached, because a protocol check is slow."""
    return issubclass(kind, PricedModel)
