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

TextOrigin = Literal["user", "file", "tool", "web", "event"]
"""The origin of a text."""

OWN_TOOLS: Final = frozenset({"react.plan", "react.hide", "react.memory_hide", "react.write"})
"""Tools whose results contain only text that the model itself wrote."""

RUNTIME_ERRORS: Final = frozenset({"gate_refused", "call_not_approved", "unknown_tool"})
"""Error codes of calls that did not run; the runtime wrote their messages."""

FILE_TOOLS: Final = frozenset({"react.read", "react.rg", "react.patch", "react.pull", "react.checkout"})
"""Tools whose results show files."""

_OF_SOURCE: Final[dict[str, TextOrigin]] = {"web": "web", "file": "file", "attachment": "file", "manual": "user"}


class TextOriginsView(msgspec.Struct):
    """The text origins that gates check."""

    origins: dict[TextOrigin, int] = {}
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
                self._add_origins(entry)

    def _add_origins(self, entry: Entry) -> None:
        match entry.block:
            case UserPrompt():
                self._record_origin("user", entry)
            case Attachment() | AttachmentMeta():
                self._record_origin("file", entry)
            case ExternalEvent():
                self._record_origin("event", entry)
            case SourcesAdded(rows=rows):
                for row in rows:
                    self._record_origin(_OF_SOURCE[row.source_type], entry)
            case ResultStatus(error=error) if error and error.code in RUNTIME_ERRORS:
                pass
            case ResultContent(tool_call_id=call_id) | ResultStatus(tool_call_id=call_id):
                tool_id = self.tools.get(call_id, "")
                if tool_id not in OWN_TOOLS:
                    self._record_origin("file" if tool_id in FILE_TOOLS else "tool", entry)
            case _:
                pass

    def _record_origin(self, origin: TextOrigin, entry: Entry) -> None:
        self.origins.setdefault(origin, entry.seq)
