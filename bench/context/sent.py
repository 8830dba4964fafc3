"""Sent requests: their time, and their content blocks with cache points."""

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from bench.context.counting import TokenCounter
from bench.context.provider_cache import FIVE_MINUTES_S, HOUR_S, OPUS, Bill, CachePricing, ContentPiece, ProviderCache
from timeloom.core.blocks.caching import Lifetime
from timeloom.ports.model import ModelRequest
from timeloom.providers.anthropic.request import request_body


class SentRequest(msgspec.Struct, frozen=True):
    """One request; an `aside` request is not a step of the conversation, such as one for a summary."""

    at_s: float
    pieces: tuple[ContentPiece, ...]
    aside: bool = False

    @property
    def tokens(self) -> int:
        """The total tokens of the request."""
        return sum(piece.tokens for piece in self.pieces)


Lifetimes = Callable[[int], int]
"""Returns the lifetime of the cache point at that position of a request."""


class _CacheControl(msgspec.Struct, frozen=True):
    ttl: Lifetime = "5m"


class _BodyPart(msgspec.Struct, frozen=True):
    type: str
    text: str = ""
    cache_control: _CacheControl | None = None


class _BodyMessage(msgspec.Struct, frozen=True):
    content: list[_BodyPart]


class _RequestBody(msgspec.Struct, frozen=True):
    messages: list[_BodyMessage]
    system: list[_BodyPart] = []


def to_pieces(model: str, request: ModelRequest, counter: TokenCounter) -> tuple[ContentPiece, ...]:
    """Return the content blocks of the request body that timeloom's adapter sends for a request."""
    body = msgspec.json.decode(request_body(model, request), type=_RequestBody)
    parts = [*body.system, *(part for message in body.messages for part in message.content)]
    return tuple(counter.piece(part.text, _lifetime_s(part.cache_control)) for part in parts)


def bill_requests(sent: Sequence[SentRequest], rules: CachePricing = OPUS) -> list[Bill]:
    """Return the bill of each request in order, with a cache that is empty at first."""
    cache = ProviderCache(rules)
    return [cache.bill_request(one.pieces, one.at_s) for one in sent]


def sum_bills(bills: Sequence[Bill]) -> Bill:
    """Return the sum of the bills."""
    return sum(bills, Bill())


def with_lifetimes(sent: Sequence[SentRequest], lifetimes: Lifetimes) -> list[SentRequest]:
    """Return the same requests and cache points with these lifetimes."""
    return [
        replace(
            one,
            pieces=tuple(
                replace(piece, lifetime_s=lifetimes(n)) if piece.lifetime_s else piece
                for n, piece in enumerate(one.pieces)
            ),
        )
        for one in sent
    ]


FIXED: dict[str, Lifetimes] = {
    "all points 5 minutes": lambda _: FIVE_MINUTES_S,
    "all points 1 hour": lambda _: HOUR_S,
    "system text 1 hour, the rest 5 minutes": lambda n: FIVE_MINUTES_S if n else HOUR_S,
}
"""Lifetimes that a user could configure statically."""


def _lifetime_s(cache: _CacheControl | None) -> int:
    """Return the lifetime of a cache point in seconds; 0 if there is none."""
    if cache is None:
        return 0
    return HOUR_S if cache.ttl == "1h" else FIVE_MINUTES_S
