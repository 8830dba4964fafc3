"""Blocks of a tool call: code, the call, notices and results."""

from typing import ClassVar, Final

import msgspec

from timeloom.core.blocks.block import Block, BlockError, need_call, need_path, need_text
from timeloom.core.blocks.content import ContentBlock
from timeloom.core.blocks.digest import Digest, Shown, ToolError
from timeloom.core.blocks.tool_traits import ToolTraits, resolve_traits
from timeloom.core.ids import CallId, TurnId
from timeloom.core.payload import Text

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class ToolCode(Block, tag="react.tool.code", frozen=True, kw_only=True):
    """Program of an exec call; it precedes the call in edition 1 and follows it in edition 2."""

    type_name: ClassVar[str] = "react.tool.code"
    tool_call_id: CallId
    text: Text
    mime: str = "text/x-python"

    def __post_init__(self) -> None:
        need_call(self.tool_call_id)
        need_text(self.mime, "mime")

    def mime_type(self) -> str:
        return self.mime

    def path(self, turn: TurnId) -> str:
        return f"tc:{turn}.{self.tool_call_id}.code"


class ToolCall(Block, tag="react.tool.call", frozen=True, kw_only=True):
    """Intent to call a tool; `params` is the complete text of one JSON object."""

    type_name: ClassVar[str] = "react.tool.call"
    fixed_mime: ClassVar[str] = "application/json"
    tool_id: str
    tool_call_id: CallId
    params: Text = "{}"
    by: CallId | None = None
    """The call whose program made this one; None if the model made it."""
    traits: ToolTraits | None = None
    """The tool's traits at the time of the call; None stands for the built-in traits of the tool id."""

    def __post_init__(self) -> None:
        need_call(self.tool_call_id)
        need_text(self.tool_id, "tool_id")
        if self.by is not None:
            need_call(self.by)
        if isinstance(self.params, str):
            _need_object(self.params)

    @property
    def known_traits(self) -> ToolTraits:
        """The recorded traits of the called tool; without any, the built-in ones of the tool id."""
        return resolve_traits(self.tool_id, self.traits)

    def path(self, turn: TurnId) -> str:
        return f"tc:{turn}.{self.tool_call_id}.call"


class Notice(Block, tag="react.notice", frozen=True, kw_only=True):
    """Information for the model about its call or its reply: a code of the registry and a sentence."""

    type_name: ClassVar[str] = "react.notice"
    code: str
    text: str
    tool_call_id: CallId | None = None
    in_result: bool = False
    """Whether the result of the call states the same error, so that a prompt need not show it twice."""
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_text(self.code, "code")
        need_text(self.text, "text")
        if self.tool_call_id is not None:
            need_call(self.tool_call_id)

    def path(self, turn: TurnId) -> str:
        return f"tc:{turn}.{self.tool_call_id}.notice" if self.tool_call_id else ""


class ResultDigest(Block, tag="react.tool.result", frozen=True, kw_only=True):
    """A call's metadata for one of its artifacts."""

    type_name: ClassVar[str] = "react.tool.result"
    fixed_mime: ClassVar[str] = "application/json"
    tool_call_id: CallId
    digest: Digest

    def __post_init__(self) -> None:
        need_call(self.tool_call_id)
        need_path(self.digest.artifact_path, "digest.artifact_path")

    def path(self, turn: TurnId) -> str:
        return f"tc:{turn}.{self.tool_call_id}.result"


class ResultStatus(Block, tag="react.tool.result.status", frozen=True, kw_only=True):
    """A call's result as text: a report or status, with a structured error if the call failed."""

    type_name: ClassVar[str] = "react.tool.result"
    tool_call_id: CallId
    text: Text
    mime: str = "text/markdown"
    error: ToolError | None = None
    shown: Shown | None = None

    def __post_init__(self) -> None:
        need_call(self.tool_call_id)
        need_text(self.mime, "mime")

    def mime_type(self) -> str:
        return self.mime

    def path(self, turn: TurnId) -> str:
        return f"tc:{turn}.{self.tool_call_id}.result"


class ResultContent(ContentBlock, tag="react.tool.result.content", frozen=True, kw_only=True):
    """Content of one artifact after a call; a later block at the same path holds a newer version."""

    type_name: ClassVar[str] = "react.tool.result"
    tool_call_id: CallId

    def __post_init__(self) -> None:
        need_call(self.tool_call_id)
        ContentBlock.__post_init__(self)


def _need_object(text: str) -> None:
    try:
        _OBJECT.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise BlockError(f"params is the text of a JSON object, got {text[:40]!r}: {error}") from error
