"""Decodes server-sent events from chunks of any size, according to the WHATWG standard."""

import re
from typing import Final

import msgspec

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""Largest event. A smaller bound would reject a long reply in one delta; a larger one could fill the memory."""

BOM: Final = b"\xef\xbb\xbf"

_SINGLE_EVENT: Final = re.compile(rb"(?:event: ?(.*)\n)?data: ?(.*)\n\n")
"""A complete event in the form that services send most of the time."""


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: its name (empty if none was sent) and its undecoded data."""

    name: str
    data: bytes


class StreamError(ValueError):
    """The stream cannot be decoded."""


class SseError(StreamError):
    """An event of the stream is too large."""


class SseDecoder:
    """Decodes the bytes of a stream into events; an incomplete event at the end is dropped, as the standard says."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_event_bytes
        self._line: list[bytes] = []
        self._name = ""
        self._data: list[bytes] = []
        self._buffered_bytes = 0
        self._first_line = True
        self._after_cr = False
        self._is_idle = False  # whether nothing is held and the next line is not the first

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Add bytes and return the events that they complete."""
        # Fast path: most chunks contain exactly one event.
        if self._is_idle and len(piece) <= self._max_bytes and b"\r" not in piece:
            whole = _SINGLE_EVENT.fullmatch(piece)
            if whole is not None:
                name, data = whole.groups(b"")
                return [SseEvent(name.decode("utf-8", "replace"), data)]
        events = self._feed(piece)
        self._is_idle = not (self._line or self._data or self._name or self._first_line or self._after_cr)
        return events

    def _feed(self, piece: bytes) -> list[SseEvent]:
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if b"\n" not in piece and b"\r" not in piece:
            self._buffer(self._line, piece)
            return []
        if self._line:
            # A long line in many chunks is joined once, at its end.
            self._buffered_bytes -= sum(map(len, self._line))
            piece = b"".join((*self._line, piece))
            self._line.clear()
        self._after_cr = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = piece.split(b"\n")
        if rest:
            self._buffer(self._line, rest)
        return [event for line in lines if (event := self._decode_line(line)) is not None]

    def _decode_line(self, line: bytes) -> SseEvent | None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._buffer(self._data, value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        return None

    def _dispatch(self) -> SseEvent | None:
        name, data = self._name, self._data
        self._name = ""
        if not data:
            return None
        self._data = []
        self._buffered_bytes = 0
        return SseEvent(name, data[0] if len(data) == 1 else b"\n".join(data))

    def _buffer(self, where: list[bytes], piece: bytes) -> None:
        self._buffered_bytes += len(piece)
        if self._buffered_bytes > self._max_bytes:
            raise SseError(f"an event is larger than {self._max_bytes} bytes")
        where.append(piece)
