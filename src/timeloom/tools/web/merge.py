"""Merges the results of several queries and services into one list, by reciprocal rank."""

from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.core.sources import NewSource, normalize_url
from timeloom.ports.web import SearchHit

RANK_OFFSET: Final = 60
"""Added to each rank, so that a first place in one list does not outweigh good places in several."""


class RankedHit(msgspec.Struct, frozen=True, kw_only=True):
    """A result with its best rank in any list and its weight over all lists."""

    hit: SearchHit
    provider_rank: int
    weighted_rank: float


def merge_hits(lists: Sequence[Sequence[SearchHit]]) -> list[RankedHit]:
    """Return the results of all lists, each address once, the heaviest first; equal weights keep their order."""
    merged: dict[str, RankedHit] = {}
    for hits in lists:
        seen: set[str] = set()
        for rank, hit in enumerate(hits, 1):
            key = normalize_url(hit.url)
            if key in seen:
                continue
            seen.add(key)
            known = merged.get(key)
            merged[key] = RankedHit(
                hit=_fill_gaps(known.hit, hit) if known else hit,
                provider_rank=min(rank, known.provider_rank) if known else rank,
                weighted_rank=(known.weighted_rank if known else 0.0) + 1 / (RANK_OFFSET + rank),
            )
    return sorted(merged.values(), key=lambda ranked: -ranked.weighted_rank)


def to_source(ranked: RankedHit) -> NewSource:
    """Return the result as a source row; a field that no service gave stays empty."""
    hit = ranked.hit
    return NewSource(
        source_type="web",
        title=hit.title,
        url=hit.url,
        text=hit.text,
        favicon=hit.favicon,
        published_time_iso=hit.published_time_iso,
        modified_time_iso=hit.modified_time_iso,
        query_relevance=hit.query_relevance,
        provider_rank=float(ranked.provider_rank),
        weighted_rank=round(ranked.weighted_rank, 6),
    )


def _fill_gaps(known: SearchHit, other: SearchHit) -> SearchHit:
    values = msgspec.structs.asdict(known)
    gaps = {name: getattr(other, name) for name, value in values.items() if value in ("", None)}
    return msgspec.structs.replace(known, **gaps)
