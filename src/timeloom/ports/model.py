"""The model port: a prompt goes out, text comes back in pieces."""

from collections.abc import AsyncGenerator
from functools import cache
from typing import Final, Literal, Protocol, cast, runtime_checkable

import msgspec

from timeloom.core.blocks import Usage
from timeloom.core.blocks.caching import Lifetime
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.codes import CodedError

ErrorKind = Literal[
    "overloaded",
    "rate_limited",
    "unreachable",
    "timeout",
    "cut",
    "context_too_long",
    "refused",
    "unauthorized",
    "invalid",
]
"""Why a model did not answer, or not to the end."""

RETRYABLE: Final[frozenset[ErrorKind]] = frozenset({"overloaded", "rate_limited", "unreachable", "timeout", "cut"})
"""Kinds that may pass when the same request is sent again; for `context_too_long` only a smaller one may."""

StopReason = Literal["end", "max_tokens", "stop_sequence", "other"]
"""Why a reply ended: the model was done, it may not write more, it met a stop sequence, or none of these."""


class TextSegment(msgspec.Struct, frozen=True, tag="text"):
    """Text of the prompt; the prefix up to its end is cached where `cache_point` is set, for that lifetime."""

    text: str
    cache_point: bool = False
    cache_lifetime: Lifetime = "5m"


class DataSegment(msgspec.Struct, frozen=True, tag="data"):
    """An image or a PDF in the prompt."""

    mime: str
    data: bytes
    cache_point: bool = False
    cache_lifetime: Lifetime = "5m"


Segment = TextSegment | DataSegment


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is asked: the system text, then one user message of these segments, one after another.

    `number` counts the outcomes of this purpose that the conversation has recorded, from 0: a request that is sent
    again after a crash has the same number. `opening` is the conversation's first user message.
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


class TextPiece(msgspec.Struct, frozen=True, gc=False, tag="text"):
    """More of the reply."""

    text: str


class ThinkingPiece(msgspec.Struct, frozen=True, gc=False, tag="thinking"):
    """More of what the provider calls thinking, which is no part of the reply."""

    text: str


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """The last event of a reply that came to its end; `model` is the id that the service says has answered.

    Where the service reported no usage, `usage` is empty and `usage_reported` false; where nobody knows the price,
    the cost is 0 and `priced` false.
    """

    stop_reason: StopReason
    usage: Usage
    model: str = ""
    usage_reported: bool = True
    priced: bool = True


ModelEvent = TextPiece | ThinkingPiece | Finished


class ModelError(CodedError):
    """The model did not answer, or not to the end; `usage` is what it reported before that.

    Where that has no cost because nobody knows the price, `priced` is false.
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
        """Whether the same request may pass later, after `retry_after_s` where the service said so."""
        return self.kind in RETRYABLE


@runtime_checkable
class Priced(Protocol):
    """A model whose price is known before it is asked."""

    def price_nano_usd(self, usage: Usage) -> int | None:
        """What a call with that usage costs, in billionths of a dollar; None where nobody knows."""
        ...


class Model(Protocol):
    """A model, or an endpoint that speaks for one."""

    @property
    def name(self) -> str:
        """The name under which it was asked for, such as `anthropic:<id>`."""
        ...

    @property
    def window_tokens(self) -> int:
        """How many tokens prompt and reply may have together."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The reply, piece by piece, then `Finished`; raises `ModelError`.

        Closing the generator (`contextlib.aclosing`) gives the call up and its connection with it.
        """
        ...

    async def close(self) -> None:
        """Lets go of connections; a second close does nothing."""
        ...


def as_priced(model: Model) -> Priced | None:
    """The model as one whose price is known before it is asked, if it is one."""
    return cast("Priced", model) if _names_prices(type(model)) else None


@cache
def _names_prices(kind: type[object]) -> bool:
    """Asked once for each type of model, because asking it of a protocol takes as long as rendering a block."""
    return issubclass(kind, Priced)
