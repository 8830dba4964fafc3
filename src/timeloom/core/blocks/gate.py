"""Blocks of governance: verdicts of policies, requests for approval and decisions on them."""

from typing import ClassVar, Literal

from timeloom.core.blocks.block import Block, need_call, need_text
from timeloom.core.ids import CallId, TurnId
from timeloom.core.payload import Text

Verdict = Literal["allow", "refuse", "ask"]


class Gate(Block, tag="react.gate", frozen=True, kw_only=True):
    """A policy's verdict on a proposed step."""

    type_name: ClassVar[str] = "react.gate"
    policy: str
    verdict: Verdict
    text: str = ""
    tool_call_id: CallId | None = None
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_text(self.policy, "policy")
        if self.tool_call_id is not None:
            need_call(self.tool_call_id)


class ApprovalRequested(Block, tag="react.approval.request", frozen=True, kw_only=True):
    """Requests a person's approval of a call; the turn waits for the decision."""

    type_name: ClassVar[str] = "react.approval.request"
    tool_call_id: CallId
    tool_id: str
    text: Text
    policy: str = ""
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_call(self.tool_call_id)
        need_text(self.tool_id, "tool_id")

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.react.approval.{self.tool_call_id}"


class ApprovalDecided(Block, tag="react.approval.decision", frozen=True, kw_only=True):
    """A person's decision to allow or refuse a call."""

    type_name: ClassVar[str] = "react.approval.decision"
    tool_call_id: CallId
    approved: bool
    by: str
    text: str = ""
    author: str = "user"

    def __post_init__(self) -> None:
        need_call(self.tool_call_id)
        need_text(self.by, "by")

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.react.approval.{self.tool_call_id}"
