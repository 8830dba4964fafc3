"""The view of calls that the current turn repeats and that have the same result each time."""

import hashlib
from typing import ClassVar, Final

import msgspec

from timeloom.core.blocks import (
    AnyBlock,
    Pruned,
    RangeSummary,
    ResultContent,
    ResultDigest,
    ResultStatus,
    ToolCall,
    TurnStarted,
)
from timeloom.core.payload import BlobRef, Data, Text
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds

MAX_LITERAL_CHARS: Final = 128
"""Length from which parameters and results are compared by their hash. A larger value makes snapshots larger.

Texts below it are never stored as payloads, so a call has the same key before and after its append.
"""


class RepeatedResult(msgspec.Struct, frozen=True, gc=False):
    """The digest of a call's last result, and how many times in a row the call had it."""

    digest: str
    times: int


class RepeatedCallsView(BlockView, msgspec.Struct):
    """The results of the model's calls in the current turn, by tool and parameters."""

    results: dict[str, RepeatedResult] = {}
    call_id: str = ""
    """The newest call; its result may not be complete."""
    key: str = ""
    digest: str = ""

    def times(self, key: str) -> int:
        """Return how many times in a row the call with that key had the same result in this turn."""
        known = self.results.get(key)
        if key != self.key or not self.digest:
            return known.times if known else 0
        return known.times + 1 if known and known.digest == self.digest else 1

    def _forget(self, _: Entry, __: TurnStarted | RangeSummary | Pruned) -> None:
        # After forgetting, the model may need a result again.
        self.results, self.call_id, self.key, self.digest = {}, "", "", ""

    def _add_call(self, _: Entry, call: ToolCall) -> None:
        if call.by is None:
            self._settle()
            self.call_id, self.key, self.digest = call.tool_call_id, call_key(call.tool_id, call.params), ""

    def _add_status(self, _: Entry, block: ResultStatus) -> None:
        if block.tool_call_id == self.call_id:
            self._add_piece(block.error.code if block.error else "", block.text)

    def _add_digest(self, _: Entry, block: ResultDigest) -> None:
        if block.tool_call_id == self.call_id:
            # The path of a result contains the id of its call.
            path = block.digest.artifact_path.replace(block.tool_call_id, "")
            self._add_piece(path, str(block.digest.size_bytes))

    def _add_content(self, _: Entry, block: ResultContent) -> None:
        if block.tool_call_id == self.call_id:
            self._add_piece("", block.data if block.text is None else block.text)

    def _settle(self) -> None:
        if self.digest:
            self.results[self.key] = RepeatedResult(self.digest, self.times(self.key))

    def _add_piece(self, label: str, content: Text | Data | None) -> None:
        if isinstance(content, str) and len(content) + len(self.digest) < MAX_LITERAL_CHARS:
            # Hashing a short text would take longer than comparing it.
            self.digest = f"{self.digest}\0{label}\0{content}"
            return
        hashed = hashlib.sha256(f"{self.digest}\0{label}\0".encode())
        if isinstance(content, BlobRef):
            hashed.update(content.sha256.encode())
        elif content is not None:
            hashed.update(content if isinstance(content, bytes) else content.encode())
        self.digest = hashed.hexdigest()

    folds: ClassVar[Folds] = {
        TurnStarted: _forget,
        RangeSummary: _forget,
        Pruned: _forget,
        ToolCall: _add_call,
        ResultStatus: _add_status,
        ResultDigest: _add_digest,
        ResultContent: _add_content,
    }
    resets: ClassVar[frozenset[type[AnyBlock]]] = frozenset((TurnStarted, RangeSummary, Pruned))


def call_key(tool_id: str, params: Text) -> str:
    """Return the key of a call: equal for the same tool with the same parameter text."""
    if isinstance(params, str) and len(params) < MAX_LITERAL_CHARS:
        return f"{tool_id} {params}"
    digest = params.sha256 if isinstance(params, BlobRef) else hashlib.sha256(params.encode()).hexdigest()
    return f"{tool_id} {digest}"
