"""Bounds and sanitizes search input from outside: query length, page cursors, page sizes and text."""

from typing import Final

import msgspec

from timeloom.core.codes import CodedError
from timeloom.ports.reader import ConversationInfo

QUERY_CHARS: Final = 1000
"""Characters of a query that are used. The rest of a longer query is ignored."""

QUERY_WORDS: Final = 16
"""Words of a query that are used. Each word is a separate index search, so more words make a query slower."""

PAGE_LIMIT: Final = 500
"""Maximum number of conversations on one page. Larger requested limits are reduced to it."""


class _PageCursor(msgspec.Struct, frozen=True, array_like=True):
    last_ts: str
    id: str


def cursor_after(info: ConversationInfo) -> str:
    """Return the cursor for the page that starts after this conversation."""
    return make_cursor(info.last_ts, info.id)


def make_cursor(time: str, conversation: str) -> str:
    """Return the cursor for the page that starts after the conversation with that sort time and id."""
    return msgspec.json.encode(_PageCursor(time, conversation)).hex()


def parse_cursor(cursor: str) -> tuple[str, str]:
    """Return the sort time and the id after which the next page starts; raises `CodedError` if malformed."""
    try:
        parsed = msgspec.json.decode(bytes.fromhex(cursor), type=_PageCursor)
    except (ValueError, UnicodeDecodeError) as error:
        raise CodedError("cursor_malformed", f"cursor must come from a previous page, got {cursor[:40]!r}") from error
    return parsed.last_ts, parsed.id


def clamp_page_size(limit: int) -> int:
    """Return the limit, reduced or raised to between 1 and `PAGE_LIMIT`."""
    return max(1, min(limit, PAGE_LIMIT))


def replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates replaced by `?`, because stored text has none."""
    return text.encode("utf-8", "replace").decode()
