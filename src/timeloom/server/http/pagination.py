"""Cursors of lists that are counted, such as turns and files."""

from typing import Final

from timeloom.core.codes import CodedError

_DIGITS: Final = 15


def page_cursor(after: int | None) -> str:
    """The cursor of the page after that number; empty where there is none."""
    return "" if after is None else str(after)


def page_after(cursor: str) -> int:
    """The number after which the page begins; raises where no page has given that cursor."""
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit()) or len(cursor) > _DIGITS:
        raise CodedError("cursor_malformed", f"a cursor is what a page gave, got {cursor[:40]!r}")
    return int(cursor)
