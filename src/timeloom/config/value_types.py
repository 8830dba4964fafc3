"""Kinds of values that settings of several groups have."""

from typing import Annotated

from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Url = Annotated[
    str,
    Meta(
        pattern=r"\A(?:https?://[!-.0-~][!-~]*)?\Z",
        description="an address that begins with `https://` or `http://`",
    ),
]
Words = Annotated[
    tuple[str, ...], Meta(description="words; an array in the file, commas between them elsewhere", max_length=64)
]
