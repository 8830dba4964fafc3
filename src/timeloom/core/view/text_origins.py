"""The view of the origins of all text in a conversation, which gates use to detect untrusted text."""

from typing import Final, Literal, assert_never

import msgspec

from timeloom.core.blocks import (
    Attachment,
    AttachmentMeta,
    ExternalEvent,
    Feedback,
    Followup,
    ResultContent,
    ResultStatus,
    RoundStarted,
    SourcesAdded,
    ToolCall,
    Unknown,
    UserPrompt,
)
from timeloom.core.blocks.tool_traits import ResultText
from timeloom.core.ids import CallId
from timeloom.core.timeline import Entry

TextOrigin = Literal["user", "file", "tool", "web", "event", "quoted"]
"""The origin of a text."""

RUNTIME_ERRORS: Final = frozenset({"gate_refused", "call_not_approved", "unknown_tool"})
"""Error codes of calls that did not run; the runtime wrote their messages."""

_OF_SOURCE: Final[dict[str, TextOrigin]] = {"web": "web", "file": "file", "attachment": "file", "manual": "user"}


class TextOriginsView(msgspec.Struct):
    """The text origins that gates check."""

    origins: dict[TextOrigin, int] = {}
    """The first entry with text of each origin."""
    result_texts: dict[CallId, ResultText] = {}
    """The origin of the text in the results of each call of the current round."""

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        match entry.block:
            case RoundStarted():
                self.result_texts = {}
            case ToolCall(tool_call_id=call_id) as call:
                self.result_texts[call_id] = call.known_traits.result_text
            case _:
                self._add_origins(entry)

    def _add_origins(self, entry: Entry) -> None:
        match entry.block:
            case UserPrompt(quoted_roles=roles):
                self._record_origin("user", entry)
                self._add_quoted(roles, entry)
            case Followup(quoted_roles=roles):
                self._add_quoted(roles, entry)
            case Attachment() | AttachmentMeta():
                self._record_origin("file", entry)
            case ExternalEvent() | Feedback(origin="machine") | Unknown():
                self._record_origin("event", entry)
            case SourcesAdded(rows=rows, tool_call_id=call_id):
                for row in rows:
                    # The rows of a result's files name no call; the result itself says where their text comes from.
                    if row.source_type != "file" or call_id:
                        self._record_origin(_OF_SOURCE[row.source_type], entry)
            case ResultStatus(error=error) if error and error.code in RUNTIME_ERRORS:
                pass
            case ResultContent(tool_call_id=call_id) | ResultStatus(tool_call_id=call_id):
                self._add_result_origin(self.result_texts.get(call_id, "foreign"), entry)
            case _:
                pass

    def _add_quoted(self, roles: tuple[str, ...], entry: Entry) -> None:
        if roles:
            self._record_origin("quoted", entry)

    def _add_result_origin(self, text: ResultText, entry: Entry) -> None:
        match text:
            case "own":
                pass
            case "file":
                self._record_origin("file", entry)
            case "foreign":
                self._record_origin("tool", entry)
            case _:
                assert_never(text)

    def _record_origin(self, origin: TextOrigin, entry: Entry) -> None:
        self.origins.setdefault(origin, entry.seq)
