"""The blobs port: reads payloads by the hash of their bytes, separately for each tenant."""

from typing import Protocol

from timeloom.core.codes import CodedError
from timeloom.core.payload import BlobRef


class BlobError(CodedError):
    """A payload is missing or its bytes do not match its hash; the message names the hash, never a file."""


class Blobs(Protocol):
    """Reads payloads; they are written only together with the entry that refers to them."""

    async def read_blob(self, tenant: str, ref: BlobRef) -> bytes:
        """Return the bytes after checking their hash; raises `BlobError`."""
        ...

    async def read_part(self, tenant: str, ref: BlobRef, start: int, most_bytes: int) -> bytes:
        """Return up to `most_bytes` bytes from `start`, fewer only at the end; raises `BlobError`.

        Only the total size is checked, because checking the hash would read the whole payload each time.
        """
        ...
