"""Finds results that show lines of a file, and copies of the file in other turns, as tools reported them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import msgspec

from timeloom.core.blocks import ResultContent, ResultStatus, ToolCall, ToolTraits
from timeloom.core.ids import CallId, TurnId
from timeloom.core.timeline import Entry
from timeloom.ports.blobs import Blobs
from timeloom.runtime.erase.same_text import load_whole_entry


class FileReferences:
    """The search results that show lines of files, and the files that are copies of others."""

    def __init__(self) -> None:
        self.shown_in: defaultdict[str, set[int]] = defaultdict(set)
        """By path, the seqs of the results that show lines of the file."""
        self.copies: defaultdict[str, set[str]] = defaultdict(set)
        """By path, the paths to which the file was copied, possibly to be changed there."""

    def find_copies(self, paths: Iterable[str]) -> frozenset[str]:
        """Return all direct and indirect copies of these files."""
        found: set[str] = set()
        pending = list(paths)
        while pending:
            fresh = self.copies.get(pending.pop(), set[str]()) - found
            found |= fresh
            pending += fresh
        return frozenset(found)

    def find_results(self, paths: Iterable[str]) -> frozenset[int]:
        """Return the seqs of the results that show lines of any of these files."""
        return frozenset(seq for path in paths for seq in self.shown_in.get(path, ()))


async def find_file_references(blobs: Blobs, tenant: str, entries: Sequence[Entry]) -> FileReferences:
    """Return the references found in the results of search and copy tools; no other results are read."""
    references = FileReferences()
    traits_by_call: dict[tuple[TurnId, CallId], ToolTraits] = {}
    for entry in entries:
        match entry.block:
            case ToolCall(tool_call_id=call) as block:
                traits_by_call[entry.turn_id, call] = block.known_traits
            case ResultContent(tool_call_id=call) | ResultStatus(tool_call_id=call):
                traits = traits_by_call.get((entry.turn_id, call), ToolTraits())
                if traits.lists_matches or traits.copies_files:
                    _add_report(references, entry.seq, traits, await _load_report(blobs, tenant, entry))
            case _:
                pass
    return references


def _add_report(references: FileReferences, seq: int, traits: ToolTraits, report: object) -> None:
    for row in _rows(report):
        if traits.lists_matches and row.get("matches"):
            references.shown_in[str(row.get("logical_path"))].add(seq)
        if traits.copies_files and row.get("copied_from"):
            references.copies[str(row["copied_from"])].add(str(row.get("path")))


async def _load_report(blobs: Blobs, tenant: str, entry: Entry) -> object:
    text: object = getattr((await load_whole_entry(blobs, tenant, entry)).block, "text", None)
    try:
        return msgspec.json.decode(text) if isinstance(text, str) else None
    except (msgspec.MsgspecError, RecursionError):
        # The text is the file itself or a diff, not a report.
        return None


def _rows(report: object) -> Iterator[dict[str, object]]:
    """Yield the object itself and the objects in its lists."""
    if not isinstance(report, dict):
        return
    row = cast("dict[str, object]", report)
    yield row
    for inner in row.values():
        listed = cast("list[object]", inner) if isinstance(inner, list) else []
        yield from (cast("dict[str, object]", one) for one in listed if isinstance(one, dict))
