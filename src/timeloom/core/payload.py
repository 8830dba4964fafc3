"""Payloads of blocks: text and bytes held inline, or a reference to the stored bytes."""

import hashlib

import msgspec


class BlobRef(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Reference to a stored payload by the SHA-256 of its bytes."""

    sha256: str
    size_bytes: int


Text = str | BlobRef
"""Inline text, or the reference to stored text."""

Data = bytes | BlobRef
"""Inline bytes, or the reference to stored bytes."""


def ref_of(data: bytes) -> BlobRef:
    """Return the reference under which these bytes are stored."""
    return BlobRef(sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def size_of(payload: Text | Data) -> int:
    """Return the size in bytes of an inline or stored payload; text is measured in UTF-8."""
    if isinstance(payload, BlobRef):
        return payload.size_bytes
    return len(payload if isinstance(payload, bytes) else payload.encode("utf-8", "surrogatepass"))


def max_utf8_bytes(text: str) -> int:
    """Return an upper bound of the text's UTF-8 size without encoding it."""
    return len(text) * (1 if text.isascii() else 4)
