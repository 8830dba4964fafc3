"""The tool `react.compact`: requests a summary of older rounds before the window is full."""

from typing import Final

import msgspec

from timeloom.core.blocks import CompactionRequested
from timeloom.core.codes import CodedError
from timeloom.core.ids import MessageId
from timeloom.core.render.v1.summary import FOCUS_CHARS
from timeloom.ports.tool import Outcome, ToolContext

MAX_KEPT_ROUNDS: Final = 1_000
"""Maximum number of rounds that a requested compaction may keep. More rounds do not fit any window."""


class CompactStatus(msgspec.Struct, frozen=True):
    """When the compaction is carried out, and what it keeps."""

    carried_out: str
    keep: int
    focus: str


async def compact(context: ToolContext, keep: int = 0, focus: str = "") -> Outcome:
    """Replace older rounds by a summary before the next round. Reading their paths brings them back.

    keep: newest rounds that stay; 0 means two
    focus: what the summary should tell more about
    """
    check_compaction(keep, focus)
    request = CompactionRequested(message_id=MessageId(context.tool_call_id), text=focus, keep=keep, author="react")
    status = CompactStatus("before the next round", keep, focus)
    return Outcome(blocks=(request,), status=msgspec.json.encode(status).decode())


def check_compaction(keep: int, focus: str) -> None:
    """Raise unless a requested compaction may have this focus and keep this many rounds."""
    if len(focus) > FOCUS_CHARS:
        message = f"the focus has at most {FOCUS_CHARS} characters, got {len(focus)}; shorten it"
        raise CodedError("compaction_malformed", message)
    if type(keep) is not int or not 0 <= keep <= MAX_KEPT_ROUNDS:
        raise CodedError("compaction_malformed", f"keep is 0 to {MAX_KEPT_ROUNDS} rounds, got {str(keep)[:40]}")
