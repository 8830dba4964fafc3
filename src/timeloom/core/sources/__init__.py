"""Sources that citations name, merged by normalised address or path into one pool per conversation.

Reading order: `rows` (the values and their JSON form), `pool` (merging), `url` and `host` (the merge key of an
address).
"""

from timeloom.core.sources.pool import Merged, SourcesPool, key_of
from timeloom.core.sources.rows import (
    COMPACT_TEXT_CHARS,
    MAX_BASE64_CHARS,
    MAX_TEXT_CHARS,
    NewSource,
    SourceError,
    SourceRow,
    SourceType,
    admitted,
    compact,
    eligible,
    manual_source,
    row_from_json,
    row_to_json,
    source_from_json,
    with_sid,
)
from timeloom.core.sources.url import TRACKING_NAMES, TRACKING_PREFIX, host_of, normalize_url

__all__ = [
    "COMPACT_TEXT_CHARS",
    "MAX_BASE64_CHARS",
    "MAX_TEXT_CHARS",
    "TRACKING_NAMES",
    "TRACKING_PREFIX",
    "Merged",
    "NewSource",
    "SourceError",
    "SourceRow",
    "SourceType",
    "SourcesPool",
    "admitted",
    "compact",
    "eligible",
    "host_of",
    "key_of",
    "manual_source",
    "normalize_url",
    "row_from_json",
    "row_to_json",
    "source_from_json",
    "with_sid",
]
