"""Sources that citations name, merged by normalised address or path into one pool per conversation.

Reading order: `rows` (the values and their JSON form), `pool` (merging), `url` and `host` (the merge key of an
address).
"""

from timeloom.core.sources.pool import MergeResult, SourcesPool, merge_key
from timeloom.core.sources.rows import (
    COMPACT_TEXT_CHARS,
    MAX_BASE64_CHARS,
    MAX_TEXT_CHARS,
    NewSource,
    SourceError,
    SourceRow,
    SourceType,
    is_eligible_mime,
    make_manual_source,
    prepare_for_pool,
    row_from_json,
    row_to_json,
    source_from_json,
    to_compact_row,
    with_sid,
)
from timeloom.core.sources.url import TRACKING_NAMES, TRACKING_PREFIX, UrlParts, host_of, normalize_url, split_url

__all__ = [
    "COMPACT_TEXT_CHARS",
    "MAX_BASE64_CHARS",
    "MAX_TEXT_CHARS",
    "TRACKING_NAMES",
    "TRACKING_PREFIX",
    "MergeResult",
    "NewSource",
    "SourceError",
    "SourceRow",
    "SourceType",
    "SourcesPool",
    "UrlParts",
    "host_of",
    "is_eligible_mime",
    "make_manual_source",
    "merge_key",
    "normalize_url",
    "prepare_for_pool",
    "row_from_json",
    "row_to_json",
    "source_from_json",
    "split_url",
    "to_compact_row",
    "with_sid",
]
