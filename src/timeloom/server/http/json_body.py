"""Decodes the JSON that clients send, and tolerates lone surrogates."""

from typing import TypeVar

import msgspec

from timeloom.core.stream.surrogates import replace_lone_escapes

T = TypeVar("T")


def decode_json(data: bytes | str, kind: type[T]) -> T:
    """Decode the JSON as that type; half of a surrogate pair in it becomes U+FFFD.

    JavaScript sends such halves where a text was cut inside an emoji. Raises `MsgspecError` or `UnicodeDecodeError`.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        text = data.decode() if isinstance(data, bytes) else data
        mended = replace_lone_escapes(text)
        if mended is text:
            raise
        return msgspec.json.decode(mended, type=kind)
