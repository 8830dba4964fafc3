"""Values of caching that a model call records: where its cache points are, how long they last, and what is expected."""

from typing import Literal

import msgspec

from timeloom.core.blocks.block import need_count, need_text

Lifetime = Literal["5m", "1h"]
"""How long a provider keeps a prefix after it was last used."""

LifetimeChoice = Literal["auto", "5m", "1h"]
"""How lifetimes are chosen: by arithmetic, or always the same."""


class CacheSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """From how many rounds on a pre-tail point is set, how many rounds stay behind it, and how much may be edited.

    A larger offset lets more be hidden and costs more to send again after a hide.
    """

    min_rounds: int = 2
    offset_rounds: int = 4
    editable_tail_tokens: int = 20_000
    lifetime: LifetimeChoice = "auto"


class CacheRates(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Prices of cached tokens as multiples of the price of a token that is not cached."""

    read: float = 0.1
    write_5m: float = 1.25
    write_1h: float = 2.0


class CachePoint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A cache point of a request: the last entry before it, and the prefix that ends there.

    `blocks` counts the content blocks of the prefix after the system text, so the point on the system text has none and
    seq 0. `tokens` is our own count with the system text, and `prefix` a hash of the prefix without it.
    """

    seq: int
    blocks: int
    tokens: int
    prefix: str = ""
    lifetime: Lifetime = "5m"
    small: bool = False
    """Whether the prefix has fewer tokens than the provider keeps."""

    def __post_init__(self) -> None:
        need_count(self.seq, "seq")
        need_count(self.blocks, "blocks")
        need_count(self.tokens, "tokens")


class CacheForecast(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The cache points of a request and what its provider is expected to report, in the model's own tokens.

    With what the log says, `at`, `last`, `settings` and `rates` are all that the points and lifetimes were chosen from.
    """

    at: str
    """The time that it was made for."""
    system: str
    """A hash of the system text."""
    points: tuple[CachePoint, ...] = ()
    hit: CachePoint | None = None
    """The longest prefix that the provider should still have; None where it should have none."""
    read_tokens: int = 0
    written_5m_tokens: int = 0
    written_1h_tokens: int = 0
    uncached_tokens: int = 0
    last: bool = False
    """Whether the turn was sure to end with this call."""
    settings: CacheSettings = CacheSettings()
    rates: CacheRates = CacheRates()
    version: int = 1
    """The version of the arithmetic; another one may choose otherwise."""

    def __post_init__(self) -> None:
        need_text(self.at, "at")
        for name in ("read_tokens", "written_5m_tokens", "written_1h_tokens", "uncached_tokens"):
            need_count(getattr(self, name), name)

    @property
    def seqs(self) -> tuple[int, ...]:
        """The entries that the points stand after; the one on the system text stands after none."""
        return tuple(point.seq for point in self.points if point.seq)

    @property
    def written_tokens(self) -> int:
        """What should be written to the cache, for however long."""
        return self.written_5m_tokens + self.written_1h_tokens

    @property
    def prompt_tokens(self) -> int:
        """What the whole request should count."""
        return self.read_tokens + self.written_tokens + self.uncached_tokens
