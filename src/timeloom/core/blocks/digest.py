"""The digest of an artifact: what a metadata block says of it, safe to show."""

from typing import Literal

import msgspec

from timeloom.core.blocks.block import BlockError, need_count, need_sids
from timeloom.core.codes import CODES
from timeloom.core.ids import CallId

Kind = Literal["file", "display"]
Visibility = Literal["external", "internal"]


class ToolError(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why a tool failed, in its own words."""

    code: str
    message: str
    where: str = ""
    details: dict[str, str | int | float | bool | None] = {}


class Digest(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """An artifact's logical and physical path, kind, size and origin; never where it is hosted.

    `tool_call_id` is set only where it is not that of the block around it.
    """

    artifact_path: str
    physical_path: str = ""
    mime: str = ""
    kind: Kind | None = None
    visibility: Visibility | None = None
    channel: str = ""
    tool_call_id: CallId | None = None
    sources_used: tuple[int, ...] = ()
    tokens: int | None = None
    size_bytes: int | None = None
    edited: bool = False
    write_warning: str = ""
    error: ToolError | None = None

    def __post_init__(self) -> None:
        need_sids(self.sources_used)
        need_count(self.tokens or 0, "tokens")
        need_count(self.size_bytes or 0, "size_bytes")


class Shown(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How a prompt shows a content, decided once when it was appended: whole, or as the text kept here.

    `tokens` is the count that decided it.
    """

    how: Literal["whole", "preview", "stub"]
    tokens: int = 0
    text: str = ""

    def __post_init__(self) -> None:
        need_count(self.tokens, "tokens")
        if (self.how == "whole") == bool(self.text):
            raise BlockError("a preview or stub has its text, and what is shown whole has none")


class Hosting(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Where a file is hosted; kept in the file block's meta and never rendered."""

    hosted_uri: str = ""
    rn: str = ""
    key: str = ""


def registered_error(code: str, message: str, where: str = "") -> ToolError:
    """An error of our own; foreign tools may use any code, we use only those of the registry."""
    if code not in CODES:
        raise KeyError(f"{code!r} is not in core/codes.py")
    return ToolError(code=code, message=message, where=where)
