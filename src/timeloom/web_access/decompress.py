"""Decompresses the body of a response in pieces, up to a limit of its decompressed size."""

import zlib
from typing import Final, Protocol

ACCEPTED: Final = "gzip, deflate"
"""The value of `Accept-Encoding`: the encodings that the standard library decodes in bounded pieces."""

MAX_ENCODINGS: Final = 2
"""Most encodings on top of each other. Servers use one; each more multiplies the work of a hostile body."""

_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_RAW_DEFLATE: Final = -zlib.MAX_WBITS
_HEAD_BYTES: Final = 2


class BodyTooLargeError(Exception):
    """The body is larger than the limit."""


class BodyDamagedError(Exception):
    """The body cannot be decompressed."""


class Decoder(Protocol):
    """Decodes a body piece by piece."""

    def feed(self, data: bytes, limit: int, /) -> bytes:
        """Return the decoded bytes of the piece; raises `BodyTooLargeError` if they are more than `limit`."""
        ...

    def close(self) -> None:
        """Raise `BodyDamagedError` if the body ended in its middle."""
        ...


class BodyDecoder:
    """Decodes the encodings of a `Content-Encoding` header, the last one first."""

    def __init__(self, content_encoding: str, max_bytes: int) -> None:
        names = [name for part in content_encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
        if len(names) > MAX_ENCODINGS:
            raise BodyDamagedError(f"the body has more than {MAX_ENCODINGS} encodings")
        self._decoders = [_make_decoder(name) for name in reversed(names)]
        self._left = max_bytes

    def feed(self, data: bytes) -> bytes:
        """Return the decoded bytes of this piece."""
        for decoder in self._decoders:
            data = decoder.feed(data, self._left)
        self._left -= len(data)
        if self._left < 0:
            raise BodyTooLargeError
        return data

    def close(self) -> None:
        """Raise `BodyDamagedError` if the body ended in its middle."""
        for decoder in self._decoders:
            decoder.close()


def _make_decoder(name: str) -> Decoder:
    if name in ("gzip", "x-gzip", "deflate"):
        return _ZlibDecoder()
    raise BodyDamagedError(f"the body has the encoding {name[:40]!a}, which was not asked for")


class _ZlibDecoder:
    """Decodes gzip (also several members after each other), zlib, and deflate without the zlib header."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._head = b""
        self._started = False

    def feed(self, data: bytes, limit: int) -> bytes:
        data, self._head = self._head + data, b""
        output = bytearray()
        while data:
            if self._zlib.eof:
                if not data.strip(b"\0"):
                    break  # padding after the last member
                self._zlib, self._started = zlib.decompressobj(_GZIP_OR_ZLIB), False
            if not self._started:
                if len(data) < _HEAD_BYTES:
                    self._head = data
                    break
                self._start(data)
            output += self._decompress(data, limit - len(output) + 1)
            if len(output) > limit:
                raise BodyTooLargeError
            data = self._zlib.unconsumed_tail or self._zlib.unused_data
        return bytes(output)

    def close(self) -> None:
        if self._head or (self._started and not self._zlib.eof):
            raise BodyDamagedError("the compressed body ended in its middle")

    def _start(self, data: bytes) -> None:
        """Choose the format by its first bytes: a header that zlib does not know is the first block of raw deflate."""
        self._started = True
        try:
            zlib.decompressobj(_GZIP_OR_ZLIB).decompress(data[:_HEAD_BYTES])
        except zlib.error:
            self._zlib = zlib.decompressobj(_RAW_DEFLATE)

    def _decompress(self, data: bytes, limit: int) -> bytes:
        try:
            return self._zlib.decompress(data, limit)
        except zlib.error as error:
            raise BodyDamagedError("the compressed body is damaged") from error
