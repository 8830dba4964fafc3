"""Reads again: what an agent would have to read a second time because it was taken out of its sight.

A recorded agent does not notice that something is gone. So that forgetting is not free here, every edit of a file whose
content is out of sight by then is charged what reading it again would cost: one more request, the content written to
the cache, and its tokens in the requests for which it would stay.
"""

from typing import Final

import msgspec

from bench.context.asks import Call
from bench.context.counting import Counter
from bench.context.provider_cache import Bill
from timeloom.core.blocks import ResultContent, ResultStatus, ToolCall
from timeloom.core.ids import CallId
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views

STAYS_REQUESTS: Final = 8
"""In how many further requests the content that was read again is read from the cache."""

_READ: Final = "Read"
_WRITE: Final = "Write"
_EDIT: Final = "Edit"


class _Params(msgspec.Struct):
    file_path: str = ""


class _Source(msgspec.Struct, frozen=True):
    """The call that shows a file: in its result where it read it, in its parameters where it wrote it."""

    call_id: CallId
    in_result: bool
    tokens: int


class ReadsAgain:
    """Follows which call shows each file, and what is edited without it."""

    def __init__(self, counter: Counter) -> None:
        self.bills: list[Bill] = []
        self._counter = counter
        self._sources: dict[str, _Source] = {}
        self._calls: dict[CallId, int] = {}
        self._results: dict[CallId, int] = {}

    def heard(self, entry: Entry) -> None:
        """Takes in an entry of the timeline."""
        match entry.block:
            case ToolCall(tool_call_id=call_id):
                self._calls[call_id] = entry.seq
            case ResultContent(tool_call_id=call_id) | ResultStatus(tool_call_id=call_id):
                self._results[call_id] = entry.seq
            case _:
                pass

    def called(self, call: Call, call_id: CallId, views: Views, prompt_tokens: int) -> None:
        """Takes in a call that runs now, after a request of so many tokens."""
        path = msgspec.json.decode(call.params, type=_Params).file_path
        if call.tool == _READ:
            self._sources[path] = _Source(call_id, True, self._counter.tokens(call.result))
        elif call.tool == _WRITE:
            self._sources[path] = _Source(call_id, False, self._counter.tokens(call.params))
        elif call.tool == _EDIT and (source := self._sources.get(path)) and not self._is_shown(source, views):
            self.bills.append(Bill(read=prompt_tokens + STAYS_REQUESTS * source.tokens, written=source.tokens))
            self._sources[path] = _Source(call_id, False, source.tokens)

    def _is_shown(self, source: _Source, views: Views) -> bool:
        seq = (self._results if source.in_result else self._calls).get(source.call_id, 0)
        return seq in views.visible.shown and views.visible.shown[seq] is None
