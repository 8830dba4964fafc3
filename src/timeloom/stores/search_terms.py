"""Words of a search, and the cursor that asks for the next page: what comes from outside, made harmless."""

from typing import Final

import msgspec

from timeloom.core.codes import CodedError
from timeloom.ports.reader import ConversationInfo

QUERY_CHARS: Final = 1000
"""How much of a query is looked at; a longer one narrows nothing further."""

QUERY_WORDS: Final = 16
"""How many words of a query count; each is a search of its own."""

PAGE_LIMIT: Final = 500
"""Most conversations of one page, whatever was asked for."""


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    last_ts: str
    id: str


def cursor_of(info: ConversationInfo) -> str:
    """The cursor that asks for what follows this conversation."""
    return cursor_at(info.last_ts, info.id)


def cursor_at(time: str, name: str) -> str:
    """The cursor that asks for what follows the conversation of that id, where the list has it at that time."""
    return msgspec.json.encode(_Cursor(time, name)).hex()


def read_cursor(cursor: str) -> tuple[str, str]:
    """The time and id after which to go on."""
    try:
        found = msgspec.json.decode(bytes.fromhex(cursor), type=_Cursor)
    except (ValueError, UnicodeDecodeError) as error:
        raise CodedError("cursor_malformed", f"a cursor is what a page gave, got {cursor[:40]!r}") from error
    return found.last_ts, found.id


def page_size(limit: int) -> int:
    """The limit, brought into its bounds."""
    return max(1, min(limit, PAGE_LIMIT))


def storable(text: str) -> str:
    """The text with a mark for every half of a character, which no stored text contains."""
    return text.encode("utf-8", "replace").decode()
