"""The view of calls that the current turn repeats and that have the same result each time."""

import hashlib

import msgspec

from timeloom.core.blocks import (
    Pruned,
    RangeSummary,
    ResultContent,
    ResultDigest,
    ResultStatus,
    ToolCall,
    TurnStarted,
)
from timeloom.core.payload import BlobRef, Data, Text, ref_of
from timeloom.core.timeline import Entry


class RepeatedResult(msgspec.Struct, frozen=True):
    """The digest of a call's last result, and how many times in a row the call had it."""

    digest: str
    times: int


class RepeatedCallsView(msgspec.Struct):
    """The results of the model's calls in the current turn, by tool and parameters."""

    results: dict[str, RepeatedResult] = {}
    call_id: str = ""
    """The newest call; its result may not be complete."""
    key: str = ""
    digest: str = ""

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        match entry.block:
            case TurnStarted() | RangeSummary() | Pruned():
                # After forgetting, the model may need a result again.
                self.results, self.call_id, self.key, self.digest = {}, "", "", ""
            case ToolCall(by=None, tool_call_id=call_id, tool_id=tool_id, params=params):
                self._settle()
                self.call_id, self.key, self.digest = call_id, call_key(tool_id, params), ""
            case ResultStatus(tool_call_id=call_id, text=text, error=error) if call_id == self.call_id:
                self._add_piece(error.code if error else "", text)
            case ResultDigest(tool_call_id=call_id, digest=digest) if call_id == self.call_id:
                # The path of a result contains the id of its call.
                self._add_piece(digest.artifact_path.replace(call_id, ""), str(digest.size_bytes))
            case ResultContent(tool_call_id=call_id, text=text, data=data) if call_id == self.call_id:
                self._add_piece(*(one for one in (text, data) if one is not None))
            case _:
                pass

    def times(self, key: str) -> int:
        """Return how many times in a row the call with that key had the same result in this turn."""
        known = self.results.get(key)
        if key != self.key or not self.digest:
            return known.times if known else 0
        return known.times + 1 if known and known.digest == self.digest else 1

    def _settle(self) -> None:
        if self.digest:
            self.results[self.key] = RepeatedResult(self.digest, self.times(self.key))

    def _add_piece(self, *pieces: Text | Data) -> None:
        whole = "\0".join([self.digest, *map(_hash, pieces)])
        self.digest = hashlib.sha256(whole.encode()).hexdigest()


def call_key(tool_id: str, params: Text) -> str:
    """Return the key of a call: equal for the same tool with the same parameter text."""
    return f"{tool_id} {_hash(params)}"


def _hash(payload: Text | Data) -> str:
    if isinstance(payload, BlobRef):
        return payload.sha256
    return ref_of(payload if isinstance(payload, bytes) else payload.encode()).sha256
