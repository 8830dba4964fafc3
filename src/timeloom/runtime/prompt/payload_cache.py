"""Caches the payloads of a session in memory, least recently used first out, within a byte limit."""

from collections import OrderedDict
from typing import Final

from timeloom.core.payload import BlobRef
from timeloom.runtime.session.session import Session

MAX_CACHED_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes cached per conversation, enough for a few images and PDFs. Smaller reads them from disk in every
round; larger takes memory from other conversations."""


class PayloadCache:
    """Reads payloads of a session and keeps the most recently used ones."""

    def __init__(self, session: Session, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._session = session
        self._max_bytes = max_bytes
        self._payloads: OrderedDict[BlobRef, bytes] = OrderedDict()
        self._cached_bytes = 0

    async def read(self, ref: BlobRef) -> bytes:
        """Return the bytes that the reference names."""
        data = self._payloads.get(ref)
        if data is None:
            data = await self._session.payload(ref)
            self._remember(ref, data)
        else:
            self._payloads.move_to_end(ref)
        return data

    def _remember(self, ref: BlobRef, data: bytes) -> None:
        if len(data) > self._max_bytes or ref in self._payloads:
            return
        self._payloads[ref] = data
        self._cached_bytes += len(data)
        while self._cached_bytes > self._max_bytes:
            _, dropped = self._payloads.popitem(last=False)
            self._cached_bytes -= len(dropped)
