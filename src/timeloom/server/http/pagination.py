"""Encodes and decodes the cursors of numbered lists such as turns and files."""

from typing import Final

from timeloom.core.codes import CodedError

_DIGITS: Final = 15


def encode_cursor(after: int | None) -> str:
    """Return the cursor of the page after that number; empty if there is none."""
    return "" if after is None else str(after)


def decode_cursor(cursor: str) -> int:
    """Return the number after which the page begins; raise if the cursor is malformed."""
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit()) or len(cursor) > _DIGITS:
        raise CodedError("cursor_malformed", f"unknown cursor {cursor[:40]!r}; pass the `cursor` of a previous page")
    return int(cursor)
