"""The view of forms: which were shown to people, and which are answered."""

from typing import ClassVar

import msgspec

from timeloom.core.blocks import ExternalEvent, ResultStatus, ToolCall
from timeloom.core.blocks.tool_traits import resolve_traits
from timeloom.core.ids import CallId
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds

FORM_EVENT = "form"
"""The kind of the events that answer forms."""


class ShownForm(msgspec.Struct, frozen=True, gc=False):
    """A form by the entry of its call; `answered` is the entry of its answer, 0 before that."""

    seq: int
    is_shown: bool = False
    """Whether its call succeeded."""
    answered: int = 0


class FormsView(BlockView, msgspec.Struct):
    """All forms by the ids of their calls, in order."""

    forms: dict[CallId, ShownForm] = {}

    def open_forms(self) -> list[CallId]:
        """Return the calls of the forms that wait for an answer, oldest first."""
        return [call for call, form in self.forms.items() if form.is_shown and not form.answered]

    def _add_call(self, entry: Entry, block: ToolCall) -> None:
        if resolve_traits(block.tool_id, block.traits).asks_by_form:
            self.forms[block.tool_call_id] = ShownForm(entry.seq)

    def _add_status(self, entry: Entry, block: ResultStatus) -> None:
        known = self.forms.get(block.tool_call_id)
        if known and block.error is None:
            self.forms[block.tool_call_id] = msgspec.structs.replace(known, is_shown=True)

    def _add_event(self, entry: Entry, block: ExternalEvent) -> None:
        if block.kind != FORM_EVENT or not self.forms or not isinstance(block.text, str):
            return
        call = _answered_form(block.text)
        known = self.forms.get(call)
        if known and not known.answered:
            self.forms[call] = msgspec.structs.replace(known, answered=entry.seq)

    folds: ClassVar[Folds] = {ToolCall: _add_call, ResultStatus: _add_status, ExternalEvent: _add_event}


class _FormAnswer(msgspec.Struct):
    form: CallId


def _answered_form(text: str) -> CallId:
    try:
        return msgspec.json.decode(text, type=_FormAnswer).form
    except (msgspec.MsgspecError, RecursionError):
        # Other programs may send any text as a form.
        return CallId("")
