"""Streams one JSON value that is too large to hold in memory."""

from typing import ClassVar

import msgspec
from starlette.responses import StreamingResponse


class JsonStream(StreamingResponse):
    """A response with the pieces of one JSON value."""

    media_type = "application/json"
    value_type: ClassVar[type[msgspec.Struct]]
    """The type of the value; it describes the response and is not built."""
