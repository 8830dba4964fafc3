"""Decodes the JSON events of model services, and tolerates invalid UTF-8."""

import json
from typing import TypeVar

import msgspec

from timeloom.ports.model import ModelError

T = TypeVar("T")


def decode_event(service: str, decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Decode the JSON; falls back to a tolerant parser for invalid UTF-8 or a lone surrogate. Raises `ModelError`."""
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


def to_token_count(value: float | None) -> int:
    """Return a reported number of tokens; 0 if it is missing or implausible."""
    return int(value) if value is not None and 0 < value < 2**53 else 0
