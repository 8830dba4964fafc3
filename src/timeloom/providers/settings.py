"""Settings of a model: where it is asked, how long it may take, what it costs."""

from collections.abc import Mapping

import msgspec


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long a service may take to be reached, to begin its answer, and between two parts of it."""

    connect_s: float = 10.0
    first_byte_s: float = 300.0
    between_bytes_s: float = 120.0


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model costs in dollars for a million tokens; a cached token without a price costs what any other does."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How models are opened; what is `None` comes from the environment or from the provider's own default."""

    key: str | None = None
    base_url: str | None = None
    window_tokens: int | None = None
    timeouts: Timeouts = Timeouts()
    prices: Mapping[str, Price] = {}

    def __repr__(self) -> str:
        return f"ModelSettings(base_url={self.base_url!r}, window_tokens={self.window_tokens!r})"
