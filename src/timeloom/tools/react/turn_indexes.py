"""Writes turn indexes for `react.read`: a row for each text of a turn, and rows for the line ranges of long texts."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from timeloom.core.blocks import (
    ContentBlock,
    ModelAnswered,
    ModelCalled,
    PlanRecorded,
    RangeSummary,
    ResultDigest,
    ToolCall,
    Unknown,
)
from timeloom.core.blocks.extract_payloads import find_blob_refs, restore_payloads
from timeloom.core.ids import TurnId
from timeloom.core.render.editions import renderer_for
from timeloom.core.timeline import Entry
from timeloom.core.view.outline import WordCounts, find_excerpts, join_excerpts, split_ranges
from timeloom.core.view.turn_index import HINT_CHARS, IndexRow, TurnIndex, turn_index
from timeloom.ports.tool import TimelineReader
from timeloom.tools.artifacts import is_read_output
from timeloom.wire.block_json import to_block_json

MAX_INDEX_CHARS: Final = 20_000
"""Length up to which an index has rows for ranges of texts; it stays below the limit of one read."""

MAX_INDEXES_CHARS: Final = 9_800
"""Total length up to which several indexes are read one by one. More are merged into one list of this length, which a
window of 24,000 tokens can show."""

MAX_OUTLINED_CHARS: Final = 8_000_000
"""Maximum characters of the texts that one read outlines, since every word in them is counted."""

EXCERPTS_PER_ROW: Final = 2

MERGED_EXCERPT_CHARS: Final = 28
"""Length of the one excerpt in a row of a merged list, so that the list has at least a hundred rows."""

_UNREAD_BLOCKS: Final = (ResultDigest, RangeSummary, ToolCall, ModelCalled, ModelAnswered, Unknown)
"""Blocks that repeat what other blocks say."""


class LoadedIndex(msgspec.Struct, frozen=True):
    """The index of a turn, and the texts at its paths as a read shows them."""

    n: int
    index: TurnIndex
    texts: dict[str, str]
    aliases: dict[str, str]
    """The paths of the rows as the prompts of the conversation's edition show them, where they are others."""

    def shown(self, row: IndexRow) -> str:
        """Return the path of the row as a prompt shows it."""
        return self.aliases.get(row.path, row.path)

    @property
    def least_chars(self) -> int:
        """The length of the index without outlines of its texts."""
        return sum(len(row.kind) + len(row.path) + len(row.hint) + 4 for row in self.index.rows)


class _Row(msgspec.Struct, frozen=True):
    """A row of an index, and how common its rarest word is."""

    text: str
    commonness: int
    is_range: bool = False


async def load_index(turn: TurnId, timeline: TimelineReader, max_chars: int = MAX_OUTLINED_CHARS) -> LoadedIndex:
    """Return the index of that turn with at most `max_chars` characters of its texts."""
    known = timeline.views.turns.turns[turn]
    entries = await timeline.entries(list(known.seqs()))
    parts: dict[str, list[str]] = {}
    left = max_chars
    for entry in entries:
        if not _has_text(entry, timeline):
            continue
        left -= sum(ref.size_bytes for ref in find_blob_refs(entry))
        if left < 0:
            break
        payloads = {ref: await timeline.payload(ref) for ref in find_blob_refs(entry)}
        text = _outlined_text(restore_payloads(entry, payloads.__getitem__))
        # A path of a call names all its parts; any other path names its newest text.
        before = parts.get(entry.path, []) if entry.path.startswith("tc:") else []
        parts[entry.path] = [*before, text]
    index, texts = turn_index(turn, entries), {path: "\n\n".join(texts) for path, texts in parts.items()}
    renderer = renderer_for(timeline.views.turns.edition)
    aliases = {row.path: renderer.path(row.path, timeline.views) for row in index.rows}
    return LoadedIndex(known.n, index, texts, aliases)


async def index_text(loaded: LoadedIndex) -> str:
    """Return the text of one index: all rows, and as many rows of ranges as fit."""
    return await asyncio.to_thread(_index_text, loaded)


async def merged_index_text(indexes: Sequence[LoadedIndex]) -> str:
    """Return one list for many turns: the rows with the rarest words, as many as fit, in order."""
    return await asyncio.to_thread(_merged_index_text, indexes)


def _has_text(entry: Entry, timeline: TimelineReader) -> bool:
    block = entry.block
    if isinstance(block, _UNREAD_BLOCKS) or not entry.path:
        return False
    return not (isinstance(block, ContentBlock) and block.text is None) and not is_read_output(entry, timeline.views)


def _outlined_text(entry: Entry) -> str:
    """Return the text that a read shows; of a plan, only its steps, since the rest is ids and times."""
    if isinstance(entry.block, PlanRecorded):
        return "\n".join(entry.block.snapshot.steps)
    return to_block_json(entry).text or ""


def _index_text(loaded: LoadedIndex) -> str:
    places = [f"every entry as it was recorded: {place}" for place in loaded.index.places]
    rows = list(_rows(loaded, WordCounts(loaded.texts.values())))
    left = MAX_INDEX_CHARS - sum(len(row.text) + 1 for row in rows if not row.is_range)
    kept = _select((row for row in rows if row.is_range), left)
    return "\n".join([*places, *(row.text for row in rows if not row.is_range or row.text in kept)])


def _merged_index_text(indexes: Sequence[LoadedIndex]) -> str:
    counts = WordCounts(text for loaded in indexes for text in loaded.texts.values())
    rows = [row for loaded in indexes for row in _merged_rows(loaded, counts)]
    kept = _select(rows, MAX_INDEXES_CHARS)
    shown = [row.text for row in rows if row.text in kept]
    head = (
        f"{len(indexes)} turns, {len(rows)} rows; these {len(shown)} have the rarest words. "
        "The index of a single turn has all of its rows."
    )
    return "\n".join([head, *shown])


def _select(rows: Iterable[_Row], chars: int) -> set[str]:
    """Return the rows with the rarest words that fit."""
    kept: set[str] = set()
    for row in sorted(rows, key=lambda row: row.commonness):
        chars -= len(row.text) + 1
        if chars < 0:
            break
        kept.add(row.text)
    return kept


def _rows(loaded: LoadedIndex, counts: WordCounts) -> Iterator[_Row]:
    """Yield the row of each path with its hint, and rows for the ranges of long texts."""
    for row in loaded.index.rows:
        text = loaded.texts.get(row.path, "")
        ranges = split_ranges(text) if len(text) > HINT_CHARS else []
        base = f"{row.kind} {loaded.shown(row)}{_tool(row)}"
        if len(ranges) < 2:
            excerpts = [one for part in ranges for one in find_excerpts(text, part, counts, EXCERPTS_PER_ROW).texts]
            yield _Row(f"{base}: {join_excerpts([row.hint, *excerpts])}", 0)
            continue
        yield _Row(f"{base}: {row.hint}, {len(text)} characters", 0)
        total = text.count("\n") + 1
        for part in ranges:
            found = find_excerpts(text, part, counts, EXCERPTS_PER_ROW)
            where = f"{part.words} of {total}"
            yield _Row(f"{base} {where}: {join_excerpts(found.texts)}", found.commonness, is_range=True)


def _merged_rows(loaded: LoadedIndex, counts: WordCounts) -> Iterator[_Row]:
    """Yield a row with one excerpt for each text, or for each range of a long text."""
    for row in loaded.index.rows:
        text = loaded.texts.get(row.path, "")
        ranges = split_ranges(text)
        for part in ranges:
            found = find_excerpts(text, part, counts, 1, MERGED_EXCERPT_CHARS)
            where = f" {part.words}" if len(ranges) > 1 else ""
            # The path tells the kind.
            yield _Row(f"{loaded.shown(row)}{where}: {join_excerpts(found.texts)}", found.commonness)


def _tool(row: IndexRow) -> str:
    return f" ({row.tool_id})" if row.tool_id else ""
