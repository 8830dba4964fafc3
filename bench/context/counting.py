"""Counting tokens: one counter for all sides, calibrated to what a trace's provider billed."""

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Final

import msgspec

from bench.context.asks import Ask, recorded_lengths
from bench.context.provider_cache import Piece
from timeloom.core.tokens import estimate

UNKNOWN_OWN_TOKENS: Final = 20_000
"""What the system text and the tools of an agent count as where no provider said it."""


class Counter(msgspec.Struct, frozen=True):
    """`ratio` is the provider's tokens for each estimated one; `own_tokens` what it counted before the first message.

    The system text and the tools of the recorded sessions are not in their traces, only how long they were.
    """

    ratio: float = 1.0
    own_tokens: int = UNKNOWN_OWN_TOKENS

    def tokens(self, text: str) -> int:
        """The tokens of a text."""
        return round(self.ratio * _estimate(text))

    def piece(self, text: str, lifetime_s: int = 0) -> Piece:
        """The text as a content block."""
        return Piece(_sha256(text), self.tokens(text), lifetime_s)


def calibrated(asks: Sequence[Ask]) -> Counter:
    """The counter by which the trace's requests have as many tokens as were billed for them."""
    billed = recorded_lengths(asks)
    if not billed:
        return Counter()
    own_tokens = _own_tokens(asks)
    history = 0
    estimated = 0
    for ask in asks:
        if ask.summary:
            history = 0
        history += sum(estimate(event.text) for event in ask.before)
        estimated += history
        history += estimate(ask.thinking) + estimate(ask.text)
        history += sum(estimate(call.params) + estimate(call.result) for call in ask.calls)
    return Counter((sum(billed) - own_tokens * len(asks)) / max(1, estimated), own_tokens)


def _own_tokens(asks: Sequence[Ask]) -> int:
    """What was read where all else had just been summed up, or at first: the part that never changes."""
    reads = [ask.tokens.cache_read for n, ask in enumerate(asks) if n == 0 or ask.summary]
    return max(reads)


@cache
def _estimate(text: str) -> int:
    # The same text stands in every request after it.
    return estimate(text)


@cache
def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
