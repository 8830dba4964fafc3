"""Caches the payloads of a session in memory, least recently used first out, within a byte limit."""

from collections import OrderedDict
from typing import Final

from timeloom.core.payload import BlobRef
from timeloom.runtime.session.session import Session

MAX_KEPT_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes cached per conversation, enough for a few images and PDFs. Smaller reads them from disk in every
round; larger takes memory from other conversations."""


class KeptPayloads:
    """Reads payloads of a session and keeps the most recently used ones."""

    def __init__(self, session: Session, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._session = session
        self._max_bytes = max_bytes
        self._kept: OrderedDict[BlobRef, bytes] = OrderedDict()
        self._bytes = 0

    async def read(self, ref: BlobRef) -> bytes:
        """Return the bytes that the reference names."""
        data = self._kept.get(ref)
        if data is None:
            data = await self._session.payload(ref)
            self._keep(ref, data)
        else:
            self._kept.move_to_end(ref)
        return data

    def _keep(self, ref: BlobRef, data: bytes) -> None:
        if len(data) > self._max_bytes or ref in self._kept:
            return
        self._kept[ref] = data
        self._bytes += len(data)
        while self._bytes > self._max_bytes:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped)
