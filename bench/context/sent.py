"""Requests as they were sent: when, and as content blocks with their cache points."""

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from bench.context.counting import Counter
from bench.context.provider_cache import FIVE_MINUTES_S, HOUR_S, OPUS, Bill, Piece, ProviderCache, Rules
from timeloom.core.blocks.caching import Lifetime
from timeloom.ports.model import ModelRequest, Segment, TextSegment


class Sent(msgspec.Struct, frozen=True):
    """One request; one `aside` is no step of the conversation, as that for a summary is not."""

    at_s: float
    pieces: tuple[Piece, ...]
    aside: bool = False

    @property
    def tokens(self) -> int:
        """All of its tokens."""
        return sum(piece.tokens for piece in self.pieces)


Lifetimes = Callable[[int], int]
"""How long the cache point at that place of a request is to live."""


def pieces_of(request: ModelRequest, counter: Counter) -> tuple[Piece, ...]:
    """The content blocks of a request of ours: the system text, then every segment that says something."""
    system = counter.piece(request.system, lifetime_s(request.system_cache_point, request.system_cache_lifetime))
    return (system, *(_piece(segment, counter) for segment in request.segments if _says_something(segment)))


def billed(sent: Sequence[Sent], rules: Rules = OPUS) -> list[Bill]:
    """What each request is billed as, one after the other, with a cache that holds nothing at first."""
    cache = ProviderCache(rules)
    return [cache.ask(one.pieces, one.at_s) for one in sent]


def total(bills: Sequence[Bill]) -> Bill:
    """The bills together."""
    return sum(bills, Bill())


def with_lifetimes(sent: Sequence[Sent], lifetimes: Lifetimes) -> list[Sent]:
    """The same requests and cache points with these lifetimes."""
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
"""The lifetimes that somebody could set once and for all."""


def lifetime_s(marked: bool, lifetime: Lifetime) -> int:
    """How long a cache point keeps its prefix; 0 where there is none."""
    if not marked:
        return 0
    return HOUR_S if lifetime == "1h" else FIVE_MINUTES_S


def _piece(segment: Segment, counter: Counter) -> Piece:
    # Recorded sessions have text only.
    text = segment.text if isinstance(segment, TextSegment) else ""
    return counter.piece(text, lifetime_s(segment.cache_point, segment.cache_lifetime))


def _says_something(segment: Segment) -> bool:
    return not isinstance(segment, TextSegment) or bool(segment.text.strip())
