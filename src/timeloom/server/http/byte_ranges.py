"""Ranges: which bytes of a file a request asks for."""

import re
from typing import Final

from timeloom.core.codes import CodedError

_RANGE: Final = re.compile(r"bytes=[ \t]*(?:([0-9]+)-([0-9]*)|-([0-9]+))[ \t]*", re.IGNORECASE)
_DIGITS: Final = 18
"""No file has a size with more digits; a longer number is as good as this many nines."""


def wanted_range(header: str | None, size_bytes: int) -> tuple[int, int] | None:
    """The first byte and the one after the last; None where all are wanted, or where the header is not understood.

    Of several ranges all bytes are sent, as the standard allows. Raises where no byte is in the range.
    """
    found = _RANGE.fullmatch(header or "")
    if found is None:
        return None
    first, last, suffix = (_number(text) for text in found.groups())
    if suffix is not None:
        if suffix == 0:
            raise _unsatisfiable(size_bytes)
        return (max(0, size_bytes - suffix), size_bytes) if size_bytes else None
    assert first is not None
    if last is not None and last < first:
        return None
    if first >= size_bytes:
        raise _unsatisfiable(size_bytes)
    return first, size_bytes if last is None else min(last + 1, size_bytes)


def _number(text: str | None) -> int | None:
    if not text:
        return None
    digits = text.lstrip("0") or "0"
    return int(digits) if len(digits) <= _DIGITS else 10**_DIGITS - 1


def _unsatisfiable(size_bytes: int) -> CodedError:
    return CodedError("range_unsatisfiable", f"the file has {size_bytes} bytes")
