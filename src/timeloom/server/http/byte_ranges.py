"""Parses the `Range` header of a request."""

import re
from typing import Final

from timeloom.core.codes import CodedError

_RANGE: Final = re.compile(r"bytes=[ \t]*(?:([0-9]+)-([0-9]*)|-([0-9]+))[ \t]*", re.IGNORECASE)
_MAX_DIGITS: Final = 18
"""No file size has more digits; a longer number is replaced by this many nines."""


def parse_range(header: str | None, size_bytes: int) -> tuple[int, int] | None:
    """Return the start and the exclusive end of the range; None for the whole file or an unsupported header.

    For several ranges the whole file is sent, as the standard allows. Raises if the range lies outside the file.
    """
    match = _RANGE.fullmatch(header or "")
    if match is None:
        return None
    first, last, suffix = (_parse_number(text) for text in match.groups())
    if suffix is not None:
        if suffix == 0:
            raise _unsatisfiable_error(size_bytes)
        return (max(0, size_bytes - suffix), size_bytes) if size_bytes else None
    assert first is not None
    if last is not None and last < first:
        return None
    if first >= size_bytes:
        raise _unsatisfiable_error(size_bytes)
    return first, size_bytes if last is None else min(last + 1, size_bytes)


def _parse_number(text: str | None) -> int | None:
    if not text:
        return None
    digits = text.lstrip("0") or "0"
    return int(digits) if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS - 1


def _unsatisfiable_error(size_bytes: int) -> CodedError:
    return CodedError("range_unsatisfiable", f"the range lies outside the file, which has {size_bytes} bytes")
