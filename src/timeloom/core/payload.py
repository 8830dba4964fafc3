"""Payloads: text and bytes that stand in a block, or the reference that stands for them once they are stored."""

import hashlib

import msgspec


class BlobRef(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Names a stored payload by the SHA-256 of its bytes."""

    sha256: str
    size_bytes: int


Text = str | BlobRef
"""Text in place, or where it is stored."""

Data = bytes | BlobRef
"""Bytes in place, or where they are stored."""


def ref_of(data: bytes) -> BlobRef:
    """The reference under which these bytes are stored."""
    return BlobRef(sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def size_of(payload: Text | Data) -> int:
    """The payload's size in bytes, wherever it is; text counts as UTF-8."""
    if isinstance(payload, BlobRef):
        return payload.size_bytes
    return len(payload if isinstance(payload, bytes) else payload.encode("utf-8", "surrogatepass"))


def most_bytes(text: str) -> int:
    """A size that the text's UTF-8 form does not exceed, known without making it."""
    return len(text) * (1 if text.isascii() else 4)
