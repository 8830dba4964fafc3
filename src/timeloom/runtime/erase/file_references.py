"""Finds results that show lines of a file, and copies of the file in other turns, as tools reported them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

import msgspec

from timeloom.core.blocks import ResultContent, ResultStatus, ToolCall
from timeloom.core.ids import CallId, TurnId
from timeloom.core.timeline import Entry
from timeloom.ports.blobs import Blobs
from timeloom.runtime.erase.same_text import whole

SEARCHING: Final = "react.rg"
COPYING: Final = frozenset({"react.checkout", "react.patch"})
"""Tools whose results report lines found in files, and tools whose results report files copied from other turns."""


class FileTraces:
    """The search results that show lines of files, and the files that are copies of others."""

    def __init__(self) -> None:
        self.shown: defaultdict[str, set[int]] = defaultdict(set)
        """By path, the seqs of the results that show lines of the file."""
        self.copies: defaultdict[str, set[str]] = defaultdict(set)
        """By path, the paths to which the file was copied, possibly to be changed there."""

    def copies_of(self, paths: Iterable[str]) -> frozenset[str]:
        """Return all direct and indirect copies of these files."""
        found: set[str] = set()
        ways = list(paths)
        while ways:
            fresh = self.copies.get(ways.pop(), set[str]()) - found
            found |= fresh
            ways += fresh
        return frozenset(found)

    def showing(self, paths: Iterable[str]) -> frozenset[int]:
        """Return the seqs of the results that show lines of any of these files."""
        return frozenset(seq for path in paths for seq in self.shown.get(path, ()))


async def find_traces(blobs: Blobs, tenant: str, entries: Sequence[Entry]) -> FileTraces:
    """Return the references found in the results of search and copy tools; no other results are read."""
    traces = FileTraces()
    tools: dict[tuple[TurnId, CallId], str] = {}
    for entry in entries:
        match entry.block:
            case ToolCall(tool_call_id=call, tool_id=tool):
                tools[entry.turn_id, call] = tool
            case ResultContent(tool_call_id=call) | ResultStatus(tool_call_id=call):
                tool = tools.get((entry.turn_id, call), "")
                if tool == SEARCHING or tool in COPYING:
                    _add(traces, entry.seq, tool, await _said(blobs, tenant, entry))
            case _:
                pass
    return traces


def _add(traces: FileTraces, seq: int, tool: str, said: object) -> None:
    for row in _rows(said):
        if tool == SEARCHING and row.get("matches"):
            traces.shown[str(row.get("logical_path"))].add(seq)
        if tool in COPYING and row.get("copied_from"):
            traces.copies[str(row["copied_from"])].add(str(row.get("path")))


async def _said(blobs: Blobs, tenant: str, entry: Entry) -> object:
    text: object = getattr((await whole(blobs, tenant, entry)).block, "text", None)
    try:
        return msgspec.json.decode(text) if isinstance(text, str) else None
    except (msgspec.MsgspecError, RecursionError):
        # The text is the file itself or a diff, not a report.
        return None


def _rows(said: object) -> Iterator[dict[str, object]]:
    """Yield the object itself and the objects in its lists."""
    if not isinstance(said, dict):
        return
    row = cast("dict[str, object]", said)
    yield row
    for inner in row.values():
        listed = cast("list[object]", inner) if isinstance(inner, list) else []
        yield from (cast("dict[str, object]", one) for one in listed if isinstance(one, dict))
