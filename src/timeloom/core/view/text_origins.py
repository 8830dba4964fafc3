"""The view of the origins of all text in a conversation, which gates use to detect untrusted text."""

from typing import Final, Literal

import msgspec

from timeloom.core.blocks import (
    Attachment,
    AttachmentMeta,
    ExternalEvent,
    ResultContent,
    ResultStatus,
    RoundStarted,
    SourcesAdded,
    ToolCall,
    UserPrompt,
)
from timeloom.core.ids import CallId
from timeloom.core.timeline import Entry

Origin = Literal["user", "file", "tool", "web", "event"]
"""The origin of a text."""

OWN_TOOLS: Final = frozenset({"react.plan", "react.hide", "react.memory_hide", "react.write"})
"""Tools whose results contain only text that the model itself wrote."""

OWN_WORDS: Final = frozenset({"gate_refused", "call_not_approved", "unknown_tool"})
"""Error codes of calls that did not run; the runtime wrote their messages."""

FILE_TOOLS: Final = frozenset({"react.read", "react.rg", "react.patch", "react.pull", "react.checkout"})
"""Tools whose results show files."""

_OF_SOURCE: Final[dict[str, Origin]] = {"web": "web", "file": "file", "attachment": "file", "manual": "user"}


class GovernanceView(msgspec.Struct):
    """The text origins that gates check."""

    origins: dict[Origin, int] = {}
    """The first entry with text of each origin."""
    tools: dict[CallId, str] = {}
    """The tools that the current round has called, by call id."""

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        match entry.block:
            case RoundStarted():
                self.tools = {}
            case ToolCall(tool_call_id=call_id, tool_id=tool_id):
                self.tools[call_id] = tool_id
            case _:
                self._see(entry)

    def _see(self, entry: Entry) -> None:
        match entry.block:
            case UserPrompt():
                self._saw("user", entry)
            case Attachment() | AttachmentMeta():
                self._saw("file", entry)
            case ExternalEvent():
                self._saw("event", entry)
            case SourcesAdded(rows=rows):
                for row in rows:
                    self._saw(_OF_SOURCE[row.source_type], entry)
            case ResultStatus(error=error) if error and error.code in OWN_WORDS:
                pass
            case ResultContent(tool_call_id=call_id) | ResultStatus(tool_call_id=call_id):
                tool_id = self.tools.get(call_id, "")
                if tool_id not in OWN_TOOLS:
                    self._saw("file" if tool_id in FILE_TOOLS else "tool", entry)
            case _:
                pass

    def _saw(self, origin: Origin, entry: Entry) -> None:
        self.origins.setdefault(origin, entry.seq)
