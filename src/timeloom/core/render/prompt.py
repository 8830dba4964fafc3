"""Renders the cacheable part of the prompt incrementally, so that a round costs only its new entries.

The view follows the log entry by entry. Each part ends where a model was asked, so later requests repeat the same
segments. Only an entry that hides, prunes or summarizes changes existing parts, and only the parts that it affects.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

import msgspec

from timeloom.core.blocks import Hidden, ModelCalled, Pruned, RangeSummary
from timeloom.core.ids import CallId
from timeloom.core.render.entries.block_text import entry_text
from timeloom.core.render.entries.entry_text import NO_PAYLOADS, EntryText, Payloads
from timeloom.core.render.entries.stubs import stand_text
from timeloom.core.render.prompt_parts import Item, Part, Section, chained, partition
from timeloom.core.render.segments import RenderedSegment
from timeloom.core.timeline import Entry
from timeloom.core.view.context.visible import Stand, StandKind
from timeloom.core.view.views import Views

RENDERING: Final = 2
"""The rendering version, recorded with every model call. Increase it whenever a byte of a rendered prompt changes; a
golden test fails if that is forgotten."""

PREFIX_CHARS: Final = 16
"""Number of hexadecimal digits of the hash that identifies a prefix. Fewer digits would let two prefixes of a
conversation collide."""

_SECTIONS: Final[Mapping[StandKind, Section]] = {
    "hidden": Section.INTACT,
    "pruned": Section.PRUNED,
    "summary": Section.COMPACTED,
}


class End(msgspec.Struct, frozen=True):
    """A possible position of a cache point: the last entry before it, and the prefix of segments up to it."""

    seq: int
    blocks: int
    tokens: int
    prefix: str
    """A hash of the prefix."""


class Laid(msgspec.Struct, frozen=True):
    """The change of the cacheable part since the last call, so that a caller updates its copy without a full walk.

    The first `kept` segments are unchanged; `fresh` contains all segments after them. `ends` are the positions of the
    current cache points, in order. The segments themselves do not carry the points.
    """

    kept: int
    fresh: tuple[RenderedSegment, ...]
    ends: tuple[End, ...]

    @property
    def points(self) -> tuple[int, ...]:
        """The indexes of the segments that have a cache point now, counted over all segments."""
        return tuple(end.blocks - 1 for end in self.ends)


class PromptView:
    """The cacheable part of the prompt at one point of the log; each visible entry is rendered once."""

    def __init__(self) -> None:
        self.tokens = 0
        """Estimated tokens of the cacheable part."""
        self._parts: list[Part] = []
        self._chain: list[bytes] = []
        self._flat: list[RenderedSegment] = []
        self._ends: list[int] = []
        self._sums: list[int] = []
        self._kept = 0
        self._aliases: dict[str, list[int]] = {}

    def add(self, entry: Entry, views: Views, payloads: Payloads = NO_PAYLOADS) -> None:
        """Add the next entry; `views` must already contain it, and `payloads` holds the payloads it needs.

        Views that are further ahead do no harm: the prompt is correct once it has caught up with them.
        """
        text = entry_text(entry, _tool_of(entry, views), payloads)
        if isinstance(entry.block, Hidden | Pruned | RangeSummary):
            self._forget(self._touched(entry.block, views), entry, text, views)
        if entry.seq in views.visible.shown:
            self._named(entry)
            self._append(_item(entry.seq, None, entry, text))

    @classmethod
    def opened(cls, views: Views, entries: Mapping[int, Entry], payloads: Payloads = NO_PAYLOADS) -> "PromptView":
        """Return the prompt at these views, rendered from the entries of `needed_seqs` alone."""
        prompt = cls()
        for seq, stand in views.visible.shown.items():
            prompt.show(seq, entries[stand.by if stand else seq], views, payloads)
        return prompt

    def show(self, seq: int, entry: Entry, views: Views, payloads: Payloads = NO_PAYLOADS) -> None:
        """Append the rendering at `seq`; `entry` is the entry there, or the entry that put a stub there."""
        stand = views.visible.shown[seq]
        if stand is None:
            self._named(entry)
        self._append(_item(seq, stand, entry, entry_text(entry, _tool_of(entry, views), payloads)))

    def segments(self, cache_after: Iterable[int] = ()) -> tuple[RenderedSegment, ...]:
        """Return the segments; each seq in `cache_after` marks the last segment that ends at or before it."""
        self._lay_out()
        out = self._flat.copy()
        for index in self._marked(cache_after):
            place = self._ends[index] - 1
            last = out[place]
            out[place] = RenderedSegment(last.text, last.data, last.mime, cache_point=True)
        self._unroll(len(self._parts) - self._last_may_grow())
        return tuple(out)

    def laid(self, cache_after: Iterable[int] = ()) -> Laid:
        """Return the change of `segments` since the previous call; the cost is linear in the added entries."""
        self._lay_out()
        ends = tuple(self._end(index) for index in self._marked(cache_after))
        change = Laid(self._kept, tuple(self._flat[self._kept :]), ends)
        self._kept = len(self._flat)
        self._unroll(len(self._parts) - self._last_may_grow())
        return change

    def fingerprint(self) -> str:
        """Return a hash of the cacheable part; the cost is linear in the entries added since the last call."""
        return self._digest(len(self._parts) - 1).hex() if self._parts else ""

    def end_at(self, blocks: int) -> End | None:
        """Return the end of the sealed part after `blocks` segments, as of the last delta, or None if there is none."""
        index = bisect_left(self._ends, blocks)
        return self._end(index) if index < len(self._ends) and self._ends[index] == blocks else None

    def tokens_from(self, seq: int) -> int:
        """Return the estimated tokens from that entry to the end."""
        start = max(0, bisect_right(self._parts, seq, key=_first_seq) - 1)
        after = sum(part.tokens for part in self._parts[start + 1 :])
        here = self._parts[start].items if self._parts else ()
        return after + sum(item.text.tokens for item in here if item.seq >= seq)

    def tokens_between(self, first_seq: int, last_seq: int) -> int:
        """Return the estimated tokens of that range; the cost is linear in the range."""
        return sum(item.text.tokens for item in self._items_between(first_seq, last_seq))

    def heavy(self, least_tokens: int, until_seq: int, since_seq: int = 1) -> list[tuple[int, int]]:
        """Return the entries of the range with at least `min_tokens`, heaviest first, each with its tokens."""
        items = self._items_between(since_seq, until_seq)
        found = [(item.text.tokens, item.seq) for item in items if item.text.tokens >= least_tokens]
        return [(seq, tokens) for tokens, seq in sorted(found, key=lambda one: (-one[0], one[1]))]

    def _items_between(self, first: int, last: int) -> Iterable[Item]:
        for index in _parts_between(self._parts, first, last):
            yield from (item for item in self._parts[index].items if first <= item.seq <= last)

    def _named(self, entry: Entry) -> None:
        if alias := entry.alias:
            self._aliases.setdefault(alias, []).append(entry.seq)

    def _touched(self, block: Hidden | Pruned | RangeSummary, views: Views) -> set[int]:
        """Return the parts in which the block may have hidden entries, and possibly others."""
        parts = self._parts
        match block:
            case Pruned(cuts=cuts):
                return {index for cut in cuts for index in _parts_between(parts, cut.first_seq, cut.last_seq)}
            case RangeSummary(first_seq=first, last_seq=last) if last:
                return set(_parts_between(parts, first, last))
            case RangeSummary(covered_turn_ids=turns):
                spans = [span for turn in turns if (known := views.turns.turns.get(turn)) for span in known.spans]
                return {index for first, last in spans for index in _parts_between(parts, first, last)}
            case Hidden(target=path):
                # An alias names the newest entry of its family; it may have named an older one at the time of the hide.
                visible = views.visible
                family = self._aliases.get(path, ())
                seqs = [*views.paths.find(path), *visible.at_path.get(path, ()), *family]
                return {index for seq in seqs if (index := _part_of(parts, seq)) >= 0}
            case _:
                assert_never(block)

    def _last_may_grow(self) -> bool:
        return bool(self._parts) and not self._parts[-1].is_sealed

    def _lay_out(self) -> None:
        while len(self._ends) < len(self._parts):
            part = self._parts[len(self._ends)]
            self._flat += part.segments()
            self._ends.append(len(self._flat))
            self._sums.append(part.tokens + (self._sums[-1] if self._sums else 0))

    def _marked(self, cache_after: Iterable[int]) -> list[int]:
        return sorted({self._part_before(seq) for seq in cache_after} - {-1})

    def _end(self, index: int) -> End:
        digest = self._digest(index)
        return End(self._parts[index].last_seq, self._ends[index], self._sums[index], digest.hex()[:PREFIX_CHARS])

    def _digest(self, index: int) -> bytes:
        """Return the hash of all parts up to that one."""
        while len(self._chain) <= index:
            before = self._chain[-1] if self._chain else b""
            self._chain.append(chained(before, self._parts[len(self._chain)].segments()))
        return self._chain[index]

    def _unroll(self, index: int) -> None:
        """Discard the flattened segments of that part and of all later parts."""
        del self._ends[index:]
        del self._sums[index:]
        del self._flat[self._ends[-1] if self._ends else 0 :]
        self._kept = min(self._kept, len(self._flat))

    def _append(self, item: Item) -> None:
        if self._last_may_grow():
            part = self._parts[-1]
            self.tokens -= part.tokens
            part.append(item)
            del self._chain[len(self._parts) - 1 :]
        else:
            part = Part([item])
            part.enter(self._parts[-1].leaves if self._parts else Section.NONE)
            self._parts.append(part)
        self.tokens += part.tokens

    def _part_before(self, seq: int) -> int:
        """Return the last non-empty part that ends at or before that seq; -1 if there is none."""
        index = bisect_right(self._parts, seq, key=_last_seq) - 1
        while index >= 0 and not self._parts[index].segments():
            index -= 1
        return index

    def _forget(self, indexes: Iterable[int], by: Entry, text: EntryText, views: Views) -> None:
        lowest = len(self._parts)
        for index in sorted(indexes, reverse=True):
            items = [item for old in self._parts[index].items if (item := _after(old, by, text, views))]
            if items != self._parts[index].items:
                self._replace(index, items)
                lowest = index
        self._settle(lowest)

    def _replace(self, index: int, items: list[Item]) -> None:
        """Replace a part by these items; items that do not end with a seal are merged with the next part."""
        end = index + 1
        if items and not items[-1].seals and end < len(self._parts):
            items = items + self._parts[end].items
            end += 1
        self.tokens -= sum(part.tokens for part in self._parts[index:end])
        fresh = partition(items)
        self._parts[index:end] = fresh
        for part in fresh:
            part.enter(Section.NONE)
            self.tokens += part.tokens

    def _settle(self, index: int) -> None:
        """Update the first section of each part from that index on, where it has changed."""
        del self._chain[index:]
        self._unroll(index)
        leaves = self._parts[index - 1].leaves if index else Section.NONE
        for part in self._parts[index:]:
            if part.enters != leaves:
                self.tokens -= part.tokens
                part.enter(leaves)
                self.tokens += part.tokens
            leaves = part.leaves


def needed_seqs(views: Views) -> list[int]:
    """Return the entries to load for a prompt at these views: visible entries, and those that put stubs."""
    return sorted({stand.by if stand else seq for seq, stand in views.visible.shown.items()})


def _item(seq: int, stand: Stand | None, entry: Entry, text: EntryText) -> Item:
    """Return the item at that seq; `entry` is the entry there, or the entry that put the stub there."""
    if stand is None:
        section = Section.COMPACTED if isinstance(entry.block, RangeSummary) else Section.INTACT
        asked = isinstance(entry.block, ModelCalled) and entry.block.purpose == "decision"
        return Item(seq, text, section, seals=asked)
    # A stub for many entries ends its part, so that the parts depend only on the visible entries.
    return Item(seq, stand_text(stand, entry, text), _SECTIONS[stand.kind], seals=stand.kind != "hidden")


def _after(old: Item, by: Entry, text: EntryText, views: Views) -> Item | None:
    """Return the item after the forgetting entry `by` was applied, or None if the item is no longer visible."""
    if old.seq not in views.visible.shown:
        return None
    stand = views.visible.shown[old.seq]
    return _item(old.seq, stand, by, text) if stand and stand.by == by.seq else old


def _parts_between(parts: Sequence[Part], first: int, last: int) -> range:
    return range(max(0, _part_of(parts, first)), _part_of(parts, last) + 1)


def _part_of(parts: Sequence[Part], seq: int) -> int:
    """Return the last part that begins at or before that seq; -1 if none does."""
    return bisect_right(parts, seq, key=_first_seq) - 1


def _tool_of(entry: Entry, views: Views) -> str:
    call_id: CallId | None = getattr(entry.block, "tool_call_id", None)
    call = views.calls.get(entry.turn_id, call_id) if call_id else None
    return call.tool_id if call else ""


def _first_seq(part: Part) -> int:
    return part.first_seq


def _last_seq(part: Part) -> int:
    return part.last_seq
