"""Simulates a provider's prompt cache by Anthropic's public description of it.

The rules: at most four cache points per request. A point writes one entry: the hash of all blocks up to its own. A
point reads by searching an entry at its own block and then at the preceding blocks, twenty in all. The longest prefix
found is read, the blocks after it up to the last point are written, and the rest is plain input. An entry lives for
five minutes or an hour after its last use. Points with the longer lifetime come first. Prefixes shorter than a minimum
that depends on the model are not cached. Tokens written up to the last one-hour point cost more than the rest.

The description does not cover three cases. A point inside the read prefix without an entry gets one that lives no
longer than the read entry, because nothing is billed for it. An existing entry keeps its lifetime when a point with
another lifetime meets it. For a one-hour entry that continues a five-minute one, only the new part was billed for an
hour. By the letter, all of it is kept for an hour; with `hour_keeps_all=False`, the careful reading, it lives no longer
than the entry that it continues.
"""

import hashlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

import msgspec

FIVE_MINUTES_S: Final = 300
HOUR_S: Final = 3600


class CachePricing(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's limits and prices, in dollars per million tokens."""

    max_points: int = 4
    look_back: int = 20
    min_tokens: int = 4_096
    input_usd: float = 5.0
    read_factor: float = 0.1
    write_factor: float = 1.25
    write_hour_factor: float = 2.0
    hour_keeps_all: bool = True


OPUS: Final = CachePricing()
"""Claude Opus 4.6, the model of the recorded sessions, by the letter of the description."""

CAREFUL: Final = CachePricing(hour_keeps_all=False)
"""The same by the careful reading."""


class ContentPiece(msgspec.Struct, frozen=True):
    """A content block of a request: the hash of its text, its tokens, and the lifetime of its cache point.

    Without a cache point the lifetime is 0.
    """

    sha256: bytes
    tokens: int
    lifetime_s: int = 0


class Bill(msgspec.Struct, frozen=True):
    """The billed input of one or more requests, in tokens."""

    read: int = 0
    written: int = 0
    written_for_an_hour: int = 0
    plain: int = 0

    def __add__(self, other: "Bill") -> "Bill":
        return Bill(
            self.read + other.read,
            self.written + other.written,
            self.written_for_an_hour + other.written_for_an_hour,
            self.plain + other.plain,
        )

    @property
    def tokens(self) -> int:
        """The total input."""
        return self.read + self.written + self.written_for_an_hour + self.plain

    @property
    def share_read(self) -> float:
        """The share of the input that was read from the cache, in percent."""
        return 100 * self.read / max(1, self.tokens)

    def usd(self, rules: CachePricing) -> float:
        """Return the cost in dollars."""
        weighted = (
            self.read * rules.read_factor
            + self.written * rules.write_factor
            + self.written_for_an_hour * rules.write_hour_factor
            + self.plain
        )
        return weighted * rules.input_usd / 1e6


class RequestRefusedError(ValueError):
    """A request that the provider refuses."""


class _CacheEntry(msgspec.Struct):
    lifetime_s: int
    until_s: float


class ProviderCache:
    """The entries that a provider holds for one account."""

    def __init__(self, rules: CachePricing = OPUS) -> None:
        self._rules = rules
        self._entries: dict[bytes, _CacheEntry] = {}

    def bill_request(self, pieces: Sequence[ContentPiece], at_s: float) -> Bill:
        """Bill a request that is sent at that time; requests must be in order of time."""
        self._check(pieces)
        ends = list(accumulate(piece.tokens for piece in pieces))
        points = [n for n, piece in enumerate(pieces) if piece.lifetime_s and ends[n] >= self._rules.min_tokens]
        keys = _prefix_keys(pieces)
        met = [self._find_entry(keys, point, at_s) for point in points]
        place = max(met, default=-1)
        self._renew_entries(keys, met, at_s)
        self._write(pieces, points, keys, place, at_s)
        read = ends[place] if place >= 0 else 0
        hour_end = max((ends[n] for n in points if pieces[n].lifetime_s > FIVE_MINUTES_S), default=0)
        last_end = ends[points[-1]] if points else 0
        for_an_hour = max(0, hour_end - read)
        written = max(0, last_end - max(read, hour_end))
        total = ends[-1] if ends else 0
        return Bill(read, written, for_an_hour, total - read - written - for_an_hour)

    def _check(self, pieces: Sequence[ContentPiece]) -> None:
        lifetimes = [piece.lifetime_s for piece in pieces if piece.lifetime_s]
        if len(lifetimes) > self._rules.max_points:
            raise RequestRefusedError(f"at most {self._rules.max_points} cache points, got {len(lifetimes)}")
        if any(later > earlier for earlier, later in pairwise(lifetimes)):
            raise RequestRefusedError(f"longer lifetimes come first, got {lifetimes}")

    def _find_entry(self, keys: Sequence[bytes], point: int, at_s: float) -> int:
        """Return the position of the entry that a point finds; -1 if there is none."""
        for place in range(point, max(-1, point - self._rules.look_back), -1):
            if (entry := self._entries.get(keys[place])) and entry.until_s >= at_s:
                return place
        return -1

    def _renew_entries(self, keys: Sequence[bytes], met: Sequence[int], at_s: float) -> None:
        for place in set(met) - {-1}:
            entry = self._entries[keys[place]]
            entry.until_s = at_s + entry.lifetime_s

    def _write(
        self, pieces: Sequence[ContentPiece], points: Sequence[int], keys: Sequence[bytes], place: int, at_s: float
    ) -> None:
        for point in points:
            known = self._entries.get(keys[point])
            if known and known.until_s >= at_s:
                continue
            lifetime_s = pieces[point].lifetime_s
            if point <= place or (place >= 0 and not self._rules.hour_keeps_all):
                lifetime_s = min(lifetime_s, self._entries[keys[place]].lifetime_s)
            self._entries[keys[point]] = _CacheEntry(lifetime_s, at_s + lifetime_s)


def _prefix_keys(pieces: Sequence[ContentPiece]) -> list[bytes]:
    keys: list[bytes] = []
    before = b""
    for piece in pieces:
        before = hashlib.sha256(before + piece.sha256).digest()
        keys.append(before)
    return keys
