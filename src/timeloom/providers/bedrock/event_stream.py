"""Decodes the media type `application/vnd.amazon.eventstream` into events."""

import struct
from typing import Final

import msgspec

from timeloom.providers.bedrock.access import load_botocore
from timeloom.providers.sse import SseEvent, StreamError

MEDIA_TYPE: Final = "application/vnd.amazon.eventstream"

ERROR_EVENT: Final = "error"
"""The name of an event that reports an error without a type of its own."""


class AwsEventDecoder:
    """Decodes the bytes of a stream into events; an incomplete one at the end is dropped.

    The name of an event is its type, such as `contentBlockDelta`, or that of its exception.
    """

    def __init__(self) -> None:
        eventstream = load_botocore("eventstream")
        self._parser_error: type[Exception] = eventstream.ParserError
        self._buffer = eventstream.EventStreamBuffer()

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Add bytes and return the events that they complete; raises `StreamError`."""
        self._buffer.add_data(piece)
        try:
            return [_to_event(message.headers, message.payload) for message in self._buffer]
        # Beside its own errors, the library lets those of its tables and of `struct` pass for a malformed header.
        except (self._parser_error, KeyError, ValueError, struct.error) as error:
            raise StreamError(f"a frame of the event stream is damaged ({type(error).__name__})") from error


def _to_event(headers: dict[str, object], payload: bytes) -> SseEvent:
    match headers.get(":message-type"):
        case "exception":
            return SseEvent(str(headers.get(":exception-type", ERROR_EVENT)), payload)
        case "error":
            code, message = (str(headers.get(name, "")) for name in (":error-code", ":error-message"))
            return SseEvent(ERROR_EVENT, msgspec.json.encode({"message": f"{code}: {message}"}))
        case _:
            return SseEvent(str(headers.get(":event-type", "")), payload)
