"""Sent requests: their time, and their content blocks with cache points."""

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from bench.context.counting import TokenCounter
from bench.context.provider_cache import FIVE_MINUTES_S, HOUR_S, OPUS, Bill, CachePricing, ContentPiece, ProviderCache
from timeloom.core.blocks.caching import Lifetime
from timeloom.ports.model import ModelRequest, Segment, TextSegment


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


def to_pieces(request: ModelRequest, counter: TokenCounter) -> tuple[ContentPiece, ...]:
    """Return the content blocks of a timeloom request: the system text, then every segment that is not empty."""
    system = counter.piece(request.system, lifetime_s(request.system_cache_point, request.system_cache_lifetime))
    return (system, *(_piece(segment, counter) for segment in request.segments if _has_content(segment)))


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


def lifetime_s(marked: bool, lifetime: Lifetime) -> int:
    """Return the lifetime of a cache point in seconds; 0 if there is none."""
    if not marked:
        return 0
    return HOUR_S if lifetime == "1h" else FIVE_MINUTES_S


def _piece(segment: Segment, counter: TokenCounter) -> ContentPiece:
    # Recorded sessions contain only text.
    text = segment.text if isinstance(segment, TextSegment) else ""
    return counter.piece(text, lifetime_s(segment.cache_point, segment.cache_lifetime))


def _has_content(segment: Segment) -> bool:
    return not isinstance(segment, TextSegment) or bool(segment.text.strip())
