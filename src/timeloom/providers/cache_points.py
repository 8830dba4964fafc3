"""Chooses the cache points of a request to a model of Claude's family, at Anthropic and on Bedrock."""

from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.core.blocks.caching import Lifetime
from timeloom.ports.model import DataSegment, ModelRequest, Segment

MAX_CACHE_POINTS: Final = 4
"""The services reject a request with more."""


def drop_blank_segments(segments: Sequence[Segment]) -> list[Segment]:
    """Drop blank text segments, which the API rejects; a blank one passes its cache point to the previous segment."""
    kept: list[Segment] = []
    for segment in segments:
        if isinstance(segment, DataSegment) or segment.text.strip():
            kept.append(segment)
        elif segment.cache_point and kept:
            kept[-1] = msgspec.structs.replace(kept[-1], cache_point=True, cache_lifetime=segment.cache_lifetime)
    return kept


def cache_lifetimes(
    request: ModelRequest, segments: Sequence[Segment]
) -> tuple[Lifetime | None, list[Lifetime | None]]:
    """Return the cache lifetimes of the system text and of each segment; at most the last four points are kept.

    Without a system text, its cache point moves to the last tool.

    The last points cover the longest prefix. The API rejects a lifetime that is shorter than a later one, so such a
    lifetime is extended.
    """
    has_system = request.system_cache_point and (bool(request.system.strip()) or bool(request.tools))
    wanted: list[Lifetime | None] = [request.system_cache_lifetime if has_system else None]
    wanted.extend(segment.cache_lifetime if segment.cache_point else None for segment in segments)
    left = MAX_CACHE_POINTS
    least: Lifetime = "5m"
    for at in reversed(range(len(wanted))):
        if wanted[at]:
            least = "1h" if wanted[at] == "1h" else least
            wanted[at] = least if left > 0 else None
            left -= 1
    return wanted[0], wanted[1:]
