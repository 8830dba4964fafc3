"""Charges the repeated reads that an agent would need for content that is no longer visible.

A recorded agent does not notice that content is gone. So that forgetting is not free, every edit of a file whose
content is hidden, or was only shown as a preview or cut, is charged the cost of reading it again: one more request, the
content written to the cache, and its tokens in the requests for which it would stay.
"""

from typing import Final

import msgspec

from bench.context.asks import TraceCall
from bench.context.counting import TokenCounter
from bench.context.provider_cache import Bill
from timeloom.core.blocks import ResultContent, ResultStatus, ToolCall
from timeloom.core.ids import CallId
from timeloom.core.render.v1.entries.call_text import MAX_PARAM_CHARS
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views

STAYS_REQUESTS: Final = 8
"""Number of further requests in which the repeated content is read from the cache."""

_READ: Final = "Read"
_WRITE: Final = "Write"
_EDIT: Final = "Edit"


class _Params(msgspec.Struct):
    file_path: str = ""


class _ShownFile(msgspec.Struct, frozen=True):
    """The call that shows a file: in its result if it read the file, in its parameters if it wrote it."""

    call_id: CallId
    in_result: bool
    tokens: int
    whole: bool = True
    """Whether the model saw all of it. Long results are shown as previews, and long parameters are cut."""


class RepeatedReads:
    """Tracks which call shows each file, and charges edits of files that are not visible."""

    def __init__(self, counter: TokenCounter) -> None:
        self.bills: list[Bill] = []
        self._counter = counter
        self._sources: dict[str, _ShownFile] = {}
        self._calls: dict[CallId, int] = {}
        self._results: dict[CallId, int] = {}
        self._previews: set[CallId] = set()

    def on_entry(self, entry: Entry) -> None:
        """Process an entry of the timeline."""
        match entry.block:
            case ToolCall(tool_call_id=call_id):
                self._calls[call_id] = entry.seq
            case ResultContent(tool_call_id=call_id, shown=shown) | ResultStatus(tool_call_id=call_id, shown=shown):
                self._results[call_id] = entry.seq
                if shown and shown.how != "whole":
                    self._previews.add(call_id)
            case _:
                pass

    def on_call(self, call: TraceCall, call_id: CallId, views: Views, prompt_tokens: int) -> None:
        """Process a call that runs now, after a request of that many tokens."""
        path = msgspec.json.decode(call.params, type=_Params).file_path
        if call.tool == _READ:
            self._sources[path] = _ShownFile(call_id, True, self._counter.tokens(call.result))
        elif call.tool == _WRITE:
            cut = any(len(value) > MAX_PARAM_CHARS for value in _strings(call.params))
            self._sources[path] = _ShownFile(call_id, False, self._counter.tokens(call.params), whole=not cut)
        elif call.tool == _EDIT and (source := self._sources.get(path)) and not self._is_shown(source, views):
            self.bills.append(Bill(read=prompt_tokens + STAYS_REQUESTS * source.tokens, written=source.tokens))
            self._sources[path] = _ShownFile(call_id, False, source.tokens)

    def _is_shown(self, source: _ShownFile, views: Views) -> bool:
        if not source.whole or (source.in_result and source.call_id in self._previews):
            return False
        seq = (self._results if source.in_result else self._calls).get(source.call_id, 0)
        return seq in views.visible.shown and views.visible.shown[seq] is None


def _strings(params: str) -> list[str]:
    values = msgspec.json.decode(params, type=dict[str, object]).values()
    return [value for value in values if isinstance(value, str)]
