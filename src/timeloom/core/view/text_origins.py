"""The view of the origins of all text in a conversation, which gates use to detect untrusted text."""

from typing import ClassVar, Final, Literal, assert_never

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
from timeloom.core.view.block_view import BlockView, Folds

TextOrigin = Literal["user", "file", "tool", "web", "event", "quoted"]
"""The origin of a text."""

RUNTIME_ERRORS: Final = frozenset({"gate_refused", "call_not_approved", "unknown_tool"})
"""Error codes of calls that did not run; the runtime wrote their messages."""

_OF_SOURCE: Final[dict[str, TextOrigin]] = {"web": "web", "file": "file", "attachment": "file", "manual": "user"}


class TextOriginsView(BlockView, msgspec.Struct):
    """The text origins that gates check."""

    origins: dict[TextOrigin, int] = {}
    """The first entry with text of each origin."""
    result_texts: dict[CallId, ResultText] = {}
    """The origin of the text in the results of each call of the current round."""

    def _begin_round(self, _: Entry, __: RoundStarted) -> None:
        self.result_texts = {}

    def _add_call(self, _: Entry, call: ToolCall) -> None:
        self.result_texts[call.tool_call_id] = call.known_traits.result_text

    def _add_prompt(self, entry: Entry, block: UserPrompt) -> None:
        self._record_origin("user", entry)
        self._add_quoted(block.quoted_roles, entry)

    def _add_followup(self, entry: Entry, block: Followup) -> None:
        self._add_quoted(block.quoted_roles, entry)

    def _add_file(self, entry: Entry, _: Attachment | AttachmentMeta) -> None:
        self._record_origin("file", entry)

    def _add_event(self, entry: Entry, _: ExternalEvent | Unknown) -> None:
        self._record_origin("event", entry)

    def _add_feedback(self, entry: Entry, block: Feedback) -> None:
        if block.origin == "machine":
            self._record_origin("event", entry)

    def _add_sources(self, entry: Entry, block: SourcesAdded) -> None:
        for row in block.rows:
            # The rows of a result's files name no call; the result itself says where their text comes from.
            if row.source_type != "file" or block.tool_call_id:
                # A manual row comes from the user, unless a tool added it.
                of_tool = row.source_type == "manual" and block.tool_call_id
                self._record_origin("tool" if of_tool else _OF_SOURCE[row.source_type], entry)

    def _add_status(self, entry: Entry, block: ResultStatus) -> None:
        if not (block.error and block.error.code in RUNTIME_ERRORS):
            self._add_result_origin(self.result_texts.get(block.tool_call_id, "foreign"), entry)

    def _add_content(self, entry: Entry, block: ResultContent) -> None:
        self._add_result_origin(self.result_texts.get(block.tool_call_id, "foreign"), entry)

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

    folds: ClassVar[Folds] = {
        RoundStarted: _begin_round,
        ToolCall: _add_call,
        UserPrompt: _add_prompt,
        Followup: _add_followup,
        Attachment: _add_file,
        AttachmentMeta: _add_file,
        ExternalEvent: _add_event,
        Unknown: _add_event,
        Feedback: _add_feedback,
        SourcesAdded: _add_sources,
        ResultStatus: _add_status,
        ResultContent: _add_content,
    }
