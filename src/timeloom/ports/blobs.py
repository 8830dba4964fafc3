"""The blobs port: payloads by the hash of their bytes, apart per tenant."""

from typing import Protocol

from timeloom.core.codes import CodedError
from timeloom.core.payload import BlobRef


class BlobError(CodedError):
    """A payload that is missing or whose bytes do not have its hash; the message names the hash, never a file."""


class Blobs(Protocol):
    """Reads payloads; they are written only together with the entry that refers to them."""

    async def read_blob(self, tenant: str, ref: BlobRef) -> bytes:
        """The bytes, checked against their hash; raises `BlobError`."""
        ...

    async def read_part(self, tenant: str, ref: BlobRef, start: int, most_bytes: int) -> bytes:
        """So many of the bytes from that one on, fewer only at their end; raises `BlobError`.

        Of a part only the size of the whole is checked: to check the hash, all would have to be read each time.
        """
        ...
