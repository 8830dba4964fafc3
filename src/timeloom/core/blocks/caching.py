"""Cache points, lifetimes and the expected cache use that a model call records."""

from typing import Literal

import msgspec

from timeloom.core.blocks.block import need_count, need_text

Lifetime = Literal["5m", "1h"]
"""How long a provider keeps a cached prefix after its last use."""

LifetimeChoice = Literal["auto", "5m", "1h"]
"""How lifetimes are chosen: computed from prices (`auto`), or fixed."""


class CacheSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of the pre-tail cache point: first round that sets it, rounds after it, and editable tokens.

    A larger `offset_rounds` lets the agent hide more blocks, but a hide then resends more tokens.
    """

    min_rounds: int = 2
    offset_rounds: int = 4
    editable_tail_tokens: int = 20_000
    lifetime: LifetimeChoice = "auto"


class CacheRates(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Prices of cached tokens as multiples of the price of an uncached token."""

    read: float = 0.1
    write_5m: float = 1.25
    write_1h: float = 2.0


class CachePoint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A cache point of a request: the last entry before it, and the prefix that ends there.

    `blocks` counts the content blocks of the prefix after the system text; the point on the system text has 0 blocks
    and seq 0. `tokens` is our count including the system text. `prefix` is a hash of the prefix without the system
    text.
    """

    seq: int
    blocks: int
    tokens: int
    prefix: str = ""
    lifetime: Lifetime = "5m"
    small: bool = False
    """Whether the prefix has fewer tokens than the provider's minimum for caching."""

    def __post_init__(self) -> None:
        need_count(self.seq, "seq")
        need_count(self.blocks, "blocks")
        need_count(self.tokens, "tokens")


class CacheForecast(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Cache points of a request and the usage its provider is expected to report, in the model's tokens.

    The points and lifetimes are a function of the log and of `at`, `last`, `settings` and `rates`.
    """

    at: str
    """Time for which the forecast was made."""
    system: str
    """Hash of the system text."""
    points: tuple[CachePoint, ...] = ()
    hit: CachePoint | None = None
    """Longest prefix that the provider should still have cached; None if it should have none."""
    read_tokens: int = 0
    written_5m_tokens: int = 0
    written_1h_tokens: int = 0
    uncached_tokens: int = 0
    last: bool = False
    """Whether this call was certain to be the last of its turn."""
    settings: CacheSettings = CacheSettings()
    rates: CacheRates = CacheRates()
    version: int = 1
    """Version of the arithmetic; another version may choose other points."""

    def __post_init__(self) -> None:
        need_text(self.at, "at")
        for name in ("read_tokens", "written_5m_tokens", "written_1h_tokens", "uncached_tokens"):
            need_count(getattr(self, name), name)

    @property
    def seqs(self) -> tuple[int, ...]:
        """Seqs of the entries before the cache points, without the point on the system text."""
        return tuple(point.seq for point in self.points if point.seq)

    @property
    def written_tokens(self) -> int:
        """Tokens expected to be written to the cache, for all lifetimes."""
        return self.written_5m_tokens + self.written_1h_tokens

    @property
    def prompt_tokens(self) -> int:
        """Expected tokens of the whole request."""
        return self.read_tokens + self.written_tokens + self.uncached_tokens
