"""Reading what services send: JSON of an expected shape, with the tolerance that streams need."""

import json
from typing import TypeVar

import msgspec

from timeloom.ports.model import ModelError

T = TypeVar("T")


def decoded(service: str, decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """The value, read once more by hand where bytes are no UTF-8 or half a surrogate pair was escaped."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise ModelError("invalid", f"{service} sent an event of another shape: {error}") from error
    except (ValueError, RecursionError):
        pass
    try:
        return msgspec.convert(json.loads(data.decode("utf-8", "replace")), decoder.type)
    except (ValueError, RecursionError) as error:
        raise ModelError("invalid", f"{service} sent an event of {len(data)} bytes that is not JSON") from error


def count(value: float | None) -> int:
    """A reported number of tokens; what is missing or nonsense counts as none."""
    return int(value) if value is not None and 0 < value < 2**53 else 0
