"""Settings of a model: API key, base URL, context window, timeouts, HTTP client and prices."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from timeloom.ports.model import MAX_CALL_S

HttpClient = Literal["auto", "direct", "httpx2"]
"""The HTTP client: the built-in one (`direct`, without a proxy), httpx2, or `auto`: httpx2 if a proxy is named."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts for the connection, for the first event of the response, between two events, and for the whole call.

    Comments that keep a connection alive are not events.
    """

    connect_s: float = 10.0
    first_byte_s: float = 300.0
    between_bytes_s: float = 120.0
    call_s: float = MAX_CALL_S


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices in dollars per million tokens; without a cache price, a cached token costs as much as an input token."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings to open a model with; `None` means the environment variable or the provider's default."""

    key: str | None = None
    """The API key, or a reference to it (`env:`, `file:`, `command:`) that `open_model` resolves."""
    base_url: str | None = None
    window_tokens: int | None = None
    timeouts: Timeouts = Timeouts()
    http_client: HttpClient = "auto"
    prices: Mapping[str, Price] = {}

    def __repr__(self) -> str:
        return f"ModelSettings(base_url={self.base_url!r}, window_tokens={self.window_tokens!r})"
