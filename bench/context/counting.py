"""Counts tokens with one counter for all sides, calibrated to the billed tokens of a trace."""

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Final

import msgspec

from bench.context.asks import TraceRequest, recorded_lengths
from bench.context.provider_cache import ContentPiece
from bench.context.tokenizer import CountTokens
from timeloom.core.tokens import estimate_tokens

UNKNOWN_OWN_TOKENS: Final = 20_000
"""Assumed size of an agent's system text and tools if no provider reported it."""


class TokenCounter(msgspec.Struct, frozen=True):
    """A token counter: `ratio` is billed tokens per counted one, `own_tokens` the size before the first message.

    The system text and the tools of the recorded sessions are not in their traces, only their length.
    """

    ratio: float = 1.0
    own_tokens: int = UNKNOWN_OWN_TOKENS
    count: CountTokens = estimate_tokens

    def tokens(self, text: str) -> int:
        """Return the tokens of a text."""
        return round(self.ratio * self.count(text))

    def piece(self, text: str, lifetime_s: int = 0) -> ContentPiece:
        """Return the text as a content block."""
        return ContentPiece(_sha256(text), self.tokens(text), lifetime_s)


def calibrate_counter(asks: Sequence[TraceRequest], count: CountTokens = estimate_tokens) -> TokenCounter:
    """Return the counter that reproduces the billed tokens of the trace's requests."""
    billed = recorded_lengths(asks)
    if not billed:
        return TokenCounter(count=count)
    own_tokens = _own_tokens(asks)
    history = 0
    counted = 0
    for ask in asks:
        if ask.summary:
            history = 0
        history += sum(count(event.text) for event in ask.before)
        counted += history
        history += count(ask.thinking) + count(ask.text)
        history += sum(count(call.params) + count(call.result) for call in ask.calls)
    return TokenCounter((sum(billed) - own_tokens * len(asks)) / max(1, counted), own_tokens, count)


def _own_tokens(asks: Sequence[TraceRequest]) -> int:
    """Return the cache read of the first request or after a summary: the constant part."""
    reads = [ask.tokens.cache_read for n, ask in enumerate(asks) if n == 0 or ask.summary]
    return max(reads)


@cache
def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
