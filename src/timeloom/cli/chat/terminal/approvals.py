"""Loads the call that waits for a person's approval, and parses the person's decision."""

from typing import Final

import msgspec
from msgspec.structs import replace

from timeloom.cli.chat.display.labels import format_params
from timeloom.cli.sanitize import one_line
from timeloom.core.blocks import ApprovalRequested, ToolCall, ToolCode
from timeloom.core.ids import CallId
from timeloom.core.policy.next_step import INTERRUPTED_POLICY
from timeloom.core.timeline import Entry
from timeloom.core.view.progress import MODEL_TOOL_ID
from timeloom.runtime.session.session import Session

DECISION_PROMPT: Final = "allow? y/n> "
"""Prompt of the input line; short, so that it fits on a narrow terminal."""

DECISION_HELP: Final = "y allows it, n refuses it; a reason may follow, for example: n too expensive"
"""Explains how to answer."""

_YES: Final = frozenset({"y", "yes", "allow", "ok"})
_NO: Final = frozenset({"n", "no", "refuse", "deny"})


class ApprovalQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for approval: its tool, the reason for asking, its parameters and its program."""

    call_id: CallId
    tool_id: str
    reason: str
    policy: str = ""
    params: str = ""
    code: str = ""

    @property
    def headline(self) -> str:
        """The question in one sentence."""
        if self.tool_id == MODEL_TOOL_ID:
            return "May the model be asked?"
        name = one_line(self.tool_id, 80)
        return f"Call {name} once more?" if self.policy == INTERRUPTED_POLICY else f"May it call {name}?"

    def detail_lines(self) -> list[str]:
        """Return the full parameters and the full program of the call, as lines."""
        body = format_params(self.params).split("\n") if self.params else []
        if self.code:
            body += ["", "the program:", *self.code.split("\n")]
        return body


class ApprovalDecision(msgspec.Struct, frozen=True):
    """A person's decision on a call, with an optional reason."""

    approved: bool
    text: str = ""


def parse_decision(words: str) -> ApprovalDecision | None:
    """Parse a typed decision like `y` or `n too expensive`; None if the first word is neither yes nor no."""
    first, _, rest = words.strip().partition(" ")
    verdict = first.strip(",.:;!").lower()
    if verdict in _YES:
        return ApprovalDecision(approved=True, text=rest.strip())
    if verdict in _NO:
        return ApprovalDecision(approved=False, text=rest.strip())
    return None


async def find_pending_approval(session: Session) -> ApprovalQuestion | None:
    """Return the call that the open turn waits for, or None; a turn waits for at most one."""
    progress = session.views.progress
    asked = [one.call_id for one in (progress.open_call, progress.model_call) if one and one.is_pending]
    if not progress.running or not asked:
        return None
    turn, call_id = progress.turn_id, asked[0]
    known = session.views.calls.get(turn, call_id)
    # A call may have several approval requests; entries are applied in order, so the newest wins.
    seqs = [*session.views.paths.find(f"ar:{turn}.react.approval.{call_id}")]
    seqs += [seq for seq in (known.call_seq, known.code_seq) if seq] if known else []
    question = ApprovalQuestion(call_id=call_id, tool_id=known.tool_id if known else MODEL_TOOL_ID, reason="")
    for entry in await session.entries(sorted(seqs)):
        question = await _add_entry(session, question, entry)
    return question


async def _add_entry(session: Session, question: ApprovalQuestion, entry: Entry) -> ApprovalQuestion:
    match entry.block:
        case ApprovalRequested(tool_id=tool_id, text=text, policy=policy):
            return replace(question, tool_id=tool_id, reason=await session.text(text), policy=policy)
        case ToolCall(params=params):
            return replace(question, params=await session.text(params))
        case ToolCode(text=code):
            return replace(question, code=await session.text(code))
        case _:
            return question
