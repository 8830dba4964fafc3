"""Value types that several groups of settings share."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Url = Annotated[
    str,
    Meta(
        pattern=r"\A(?:https?://[!-.0-~][!-~]*)?\Z",
        description="a URL that begins with `https://` or `http://`",
    ),
]
SecretKey = Annotated[
    str,
    Meta(
        pattern=r"\A(?:[!-~]*|(?:env|file|command):[^\x00-\x1f]+)\Z",
        description="visible ASCII characters without spaces, or a reference: `env:NAME`, `file:PATH` or "
        "`command:COMMAND`",
    ),
]
SecretSource = Annotated[
    str,
    Meta(
        pattern=r"\A(?:(?:env|file|command):[^\x00-\x1f]+)?\Z",
        description="a reference: `env:NAME`, `file:PATH` or `command:COMMAND`",
    ),
]
SecretTable = Annotated[
    Mapping[str, Annotated[str, Meta(pattern=r"\A(?:env|file|command):[^\x00-\x1f]+\Z")]],
    Meta(description="a table of references: `env:NAME`, `file:PATH` or `command:COMMAND`"),
]
Words = Annotated[
    tuple[str, ...], Meta(description="a list of words: an array in the file, comma-separated elsewhere", max_length=64)
]
