"""Metadata of artifacts: digest, display form, hosting and tool errors; a digest is safe to show."""

from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks.block import BlockError, need_count, need_sids
from timeloom.core.codes import CODES
from timeloom.core.ids import CallId

Kind = Literal["file", "display"]
Visibility = Literal["external", "internal"]


class ToolError(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Error of a tool, with the code and message that the tool reported."""

    code: str
    message: str
    where: str = ""
    details: dict[str, str | int | float | bool | None] = {}


OUTCOME: Final = "outcome"
UNKNOWN_OUTCOME: Final = "unknown"
"""The name and value of the detail of an error whose call may have had its effect."""


def is_outcome_unknown(error: ToolError | None) -> bool:
    """Return whether the failed call may have had its effect nevertheless."""
    return error is not None and error.details.get(OUTCOME) == UNKNOWN_OUTCOME


def with_unknown_outcome(error: ToolError) -> ToolError:
    """Return the error of a call that may have had its effect nevertheless."""
    # First, because only the first details are stored.
    details = {OUTCOME: UNKNOWN_OUTCOME} | error.details | {OUTCOME: UNKNOWN_OUTCOME}
    return replace(error, details=details)


class Digest(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """An artifact's logical and physical path, kind, size and origin, without its hosting location.

    `tool_call_id` is set only if it differs from that of the surrounding block.
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
    """How prompts show a content, decided once at append time: whole, or as the text stored here.

    `tokens` is the count on which the decision was based.
    """

    how: Literal["whole", "preview", "stub"]
    tokens: int = 0
    text: str = ""
    hint: str = ""
    """What a large content is about, on one line, for the index of its turn."""

    def __post_init__(self) -> None:
        need_count(self.tokens, "tokens")
        if (self.how == "whole") == bool(self.text):
            raise BlockError("a preview or stub has its text, and what is shown whole has none")


class Hosting(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Where a file is hosted; stored in the file block's meta and never rendered."""

    hosted_uri: str = ""
    rn: str = ""
    key: str = ""


def make_tool_error(code: str, message: str, where: str = "") -> ToolError:
    """Return a tool error whose code must be in the registry. Tools from outside timeloom may use other codes."""
    if code not in CODES:
        raise KeyError(f"{code!r} is not in core/codes.py")
    return ToolError(code=code, message=message, where=where)
