"""Renders the cacheable part of the prompt incrementally, so that a round costs only its new entries.

The view follows the log entry by entry. Each part ends where a model was asked, so later requests repeat the same
segments. Only an entry that hides, prunes or summarizes changes existing parts, and only the parts that it affects.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, assert_never

import msgspec

from timeloom.core.blocks import Hidden, ModelCalled, Pruned, RangeSummary
from timeloom.core.render.editions import FIRST_EDITION, renderer_for
from timeloom.core.render.entry_text import NO_PAYLOADS, EntryText, Payloads
from timeloom.core.render.prompt_parts import (
    PromptItem,
    PromptPart,
    StoredPart,
    chain_hash,
    split_into_parts,
)
from timeloom.core.render.renderer import Renderer
from timeloom.core.render.section import Section
from timeloom.core.render.segments import RenderedSegment
from timeloom.core.timeline import Entry, EntryError
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.context.visible import Stub, StubKind
from timeloom.core.view.views import Views

PREFIX_CHARS: Final = 16
"""Number of hexadecimal digits of the hash that identifies a prefix. Fewer digits would let two prefixes of a
conversation collide."""

_SECTIONS: Final[Mapping[StubKind, Section]] = {
    "hidden": Section.INTACT,
    "pruned": Section.PRUNED,
    "summary": Section.COMPACTED,
}


class PrefixEnd(msgspec.Struct, frozen=True):
    """A possible position of a cache point: the last entry before it, and the prefix of segments up to it."""

    seq: int
    blocks: int
    tokens: int
    prefix: str
    """A hash of the prefix."""


class PromptDelta(msgspec.Struct, frozen=True):
    """The change of the cacheable part since the last call, so that a caller updates its copy without a full walk.

    The first `kept` segments are unchanged; `fresh` contains all segments after them. `ends` are the positions of the
    current cache points, in order. The segments themselves do not carry the points.
    """

    kept: int
    fresh: tuple[RenderedSegment, ...]
    ends: tuple[PrefixEnd, ...]

    @property
    def points(self) -> tuple[int, ...]:
        """The indexes of the segments that have a cache point now, counted over all segments."""
        return tuple(end.blocks - 1 for end in self.ends)


class PromptView:
    """The cacheable part of the prompt at one point of the log; each visible entry is rendered once."""

    def __init__(self, seq: int = 0, renderer: Renderer | None = None) -> None:
        self.renderer = renderer or renderer_for(FIRST_EDITION)
        """The edition that renders the prompt; a turn with another edition needs another view."""
        self.seq = seq
        """The last entry that was added: the prompt shows the log up to it and nothing after it."""
        self.tokens = 0
        """Estimated tokens of the cacheable part."""
        self._parts: list[PromptPart] = []
        self._chain: list[bytes] = []
        self._flat: list[RenderedSegment] = []
        self._ends: list[int] = []
        self._sums: list[int] = []
        self._kept = 0
        self._aliases: dict[str, list[int]] = {}

    def add(self, entry: Entry, views: Views, payloads: Payloads = NO_PAYLOADS) -> None:
        """Add the next entry; `views` must already contain it, and `payloads` holds the payloads it needs.

        Raises `EntryError` for any other entry, so that `seq` is true: no entry up to it is missing.
        Views that are further ahead do no harm: the prompt is correct once it has caught up with them.
        """
        if entry.seq != self.seq + 1:
            raise EntryError(f"the entry after {self.seq} was expected, got {entry.seq}")
        if not needs_rendering(entry, views):
            self.seq = entry.seq
            return
        text = self.renderer.entry_text(entry, views, payloads)
        self.seq = entry.seq
        if isinstance(entry.block, Hidden | Pruned | RangeSummary):
            self._apply_forgetting(self._affected_parts(entry.block, views), entry, text, views)
        if entry.seq in views.visible.shown:
            self._record_alias(entry)
            self._append(self._make_item(entry.seq, None, entry, text, views))

    @classmethod
    def from_views(cls, views: Views, entries: Mapping[int, Entry], payloads: Payloads = NO_PAYLOADS) -> "PromptView":
        """Return the prompt at these views, rendered from the entries of `needed_seqs` alone."""
        prompt = cls(views.tail, renderer_for(views.turns.edition))
        for seq, stub in views.visible.shown.items():
            prompt.append_visible(seq, stub, entries[stub.by if stub else seq], views, payloads)
        return prompt

    @classmethod
    def from_stored(
        cls, seq: int, parts: Iterable[StoredPart], aliases: Mapping[str, Sequence[int]], renderer: Renderer
    ) -> "PromptView":
        """Return the prompt at that entry, as `stored_parts` and `aliases` described it."""
        prompt = cls(seq, renderer)
        for part in parts:
            prompt._parts.append(PromptPart.from_stored(part, renderer.titles))
            prompt._chain.append(part.digest)
            prompt.tokens += part.tokens
        prompt._aliases = {alias: list(seqs) for alias, seqs in aliases.items()}
        return prompt

    @property
    def aliases(self) -> Mapping[str, Sequence[int]]:
        """The entries of each numbered family that the prompt has shown, by the path of its newest."""
        return self._aliases

    def stored_parts(self) -> Iterator[StoredPart]:
        """Yield the parts in the form that snapshots store."""
        for index, part in enumerate(self._parts):
            yield part.to_stored(self._digest(index))

    def append_visible(
        self, seq: int, stub: Stub | None, entry: Entry, views: Views, payloads: Payloads = NO_PAYLOADS
    ) -> None:
        """Append the rendering at `seq`; `entry` is the entry there, or the entry that put the stub there."""
        if stub is None:
            self._record_alias(entry)
        item = self._make_item(seq, stub, entry, self.renderer.entry_text(entry, views, payloads), views)
        self._append(self._mark_pinned(item, views) if stub is None else item)

    def segments(self, cache_after: Iterable[int] = ()) -> tuple[RenderedSegment, ...]:
        """Return the segments; each seq in `cache_after` marks the last segment that ends at or before it."""
        self._lay_out()
        out = self._flat.copy()
        for index in self._parts_with_points(cache_after):
            place = self._ends[index] - 1
            last = out[place]
            out[place] = RenderedSegment(last.text, last.data, last.mime, cache_point=True)
        self._drop_layout_from(len(self._parts) - self._last_may_grow())
        return tuple(out)

    def compute_delta(self, cache_after: Iterable[int] = ()) -> PromptDelta:
        """Return the change of `segments` since the previous call; the cost is linear in the added entries."""
        self._lay_out()
        ends = tuple(self._end_of_part(index) for index in self._parts_with_points(cache_after))
        delta = PromptDelta(self._kept, tuple(self._flat[self._kept :]), ends)
        self._kept = len(self._flat)
        self._drop_layout_from(len(self._parts) - self._last_may_grow())
        return delta

    def fingerprint(self) -> str:
        """Return a hash of the cacheable part; the cost is linear in the entries added since the last call."""
        return self._digest(len(self._parts) - 1).hex() if self._parts else ""

    def end_at(self, blocks: int) -> PrefixEnd | None:
        """Return the end of the sealed part after `blocks` segments, or None if there is none."""
        self._lay_out(len(self._parts) - self._last_may_grow())
        index = bisect_left(self._ends, blocks)
        return self._end_of_part(index) if index < len(self._ends) and self._ends[index] == blocks else None

    def tokens_from(self, seq: int) -> int:
        """Return the estimated tokens from that entry to the end."""
        start = max(0, bisect_right(self._parts, seq, key=_first_seq) - 1)
        after = sum(part.tokens for part in self._parts[start + 1 :])
        return after + (self._parts[start].tokens_between(seq, self.seq) if self._parts else 0)

    def tokens_between(self, first_seq: int, last_seq: int) -> int:
        """Return the estimated tokens of that range; the cost is linear in the range."""
        parts = _parts_between(self._parts, first_seq, last_seq)
        return sum(self._parts[index].tokens_between(first_seq, last_seq) for index in parts)

    def find_heavy(self, min_tokens: int, until_seq: int, since_seq: int = 1) -> list[tuple[int, int]]:
        """Return the entries of the range with at least `min_tokens`, heaviest first, each with its tokens."""
        parts = [self._parts[index] for index in _parts_between(self._parts, since_seq, until_seq)]
        found = [one for part in parts for one in part.token_counts() if one[1] >= min_tokens]
        inside = [one for one in found if since_seq <= one[0] <= until_seq]
        return sorted(inside, key=lambda one: (-one[1], one[0]))

    def _record_alias(self, entry: Entry) -> None:
        if alias := entry.alias:
            self._aliases.setdefault(alias, []).append(entry.seq)

    def _affected_parts(self, block: Hidden | Pruned | RangeSummary, views: Views) -> set[int]:
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

    def _lay_out(self, count: int | None = None) -> None:
        """Flatten the first `count` parts, or all; those that were flattened before stay."""
        while len(self._ends) < (len(self._parts) if count is None else count):
            part = self._parts[len(self._ends)]
            self._flat += part.segments()
            self._ends.append(len(self._flat))
            self._sums.append(part.tokens + (self._sums[-1] if self._sums else 0))

    def _parts_with_points(self, cache_after: Iterable[int]) -> list[int]:
        return sorted({self._part_before(seq) for seq in cache_after} - {-1})

    def _end_of_part(self, index: int) -> PrefixEnd:
        digest = self._digest(index)
        return PrefixEnd(self._parts[index].last_seq, self._ends[index], self._sums[index], digest.hex()[:PREFIX_CHARS])

    def _digest(self, index: int) -> bytes:
        """Return the hash of all parts up to that one."""
        while len(self._chain) <= index:
            before = self._chain[-1] if self._chain else b""
            self._chain.append(chain_hash(before, self._parts[len(self._chain)].segments()))
        return self._chain[index]

    def _drop_layout_from(self, index: int) -> None:
        """Discard the flattened segments of that part and of all later parts."""
        del self._ends[index:]
        del self._sums[index:]
        del self._flat[self._ends[-1] if self._ends else 0 :]
        self._kept = min(self._kept, len(self._flat))

    def _append(self, item: PromptItem) -> None:
        if self._last_may_grow():
            part = self._parts[-1]
            self.tokens -= part.tokens
            part.append(item)
            del self._chain[len(self._parts) - 1 :]
        else:
            part = PromptPart([item], self.renderer.titles)
            part.start_in(self._parts[-1].section_after if self._parts else Section.NONE)
            self._parts.append(part)
        self.tokens += part.tokens
        if part.is_sealed:
            # Only its text is kept from here on.
            part.segments()

    def _part_before(self, seq: int) -> int:
        """Return the last non-empty part that ends at or before that seq; -1 if there is none."""
        index = bisect_right(self._parts, seq, key=_last_seq) - 1
        while index >= 0 and not self._parts[index].segments():
            index -= 1
        return index

    def _apply_forgetting(self, indexes: Iterable[int], by: Entry, text: EntryText, views: Views) -> None:
        lowest = len(self._parts)
        for index in sorted(indexes, reverse=True):
            before = self._parts[index].items
            items = [item for old in before if (item := self._updated_item(old, by, text, views))]
            if items != before:
                self._replace(index, items)
                lowest = index
        self._update_sections(lowest)

    def _replace(self, index: int, items: list[PromptItem]) -> None:
        """Replace a part by these items; items that do not end with a seal are merged with the next part."""
        end = index + 1
        if items and not items[-1].ends_part and end < len(self._parts):
            items = items + self._parts[end].items
            end += 1
        self.tokens -= sum(part.tokens for part in self._parts[index:end])
        fresh = split_into_parts(items, self.renderer.titles)
        self._parts[index:end] = fresh
        for part in fresh:
            part.start_in(Section.NONE)
            self.tokens += part.tokens

    def _update_sections(self, index: int) -> None:
        """Update the first section of each part from that index on, where it has changed."""
        del self._chain[index:]
        self._drop_layout_from(index)
        leaves = self._parts[index - 1].section_after if index else Section.NONE
        for part in self._parts[index:]:
            if part.section_before != leaves:
                self.tokens -= part.tokens
                part.start_in(leaves)
                self.tokens += part.tokens
            leaves = part.section_after

    def _make_item(self, seq: int, stub: Stub | None, entry: Entry, text: EntryText, views: Views) -> PromptItem:
        """Return the item at that seq; `entry` is the entry there, or the entry that put the stub there."""
        if stub is None:
            section = Section.COMPACTED if isinstance(entry.block, RangeSummary) else Section.INTACT
            asked = isinstance(entry.block, ModelCalled) and entry.block.purpose == "decision"
            return PromptItem(seq, text, section, ends_part=asked)
        # A stub for many entries ends its part, so that the parts depend only on the visible entries.
        shown = self.renderer.stub_text(stub, entry, text, views)
        return PromptItem(seq, shown, _SECTIONS[stub.kind], ends_part=stub.kind != "hidden")

    def _updated_item(self, old: PromptItem, by: Entry, text: EntryText, views: Views) -> PromptItem | None:
        """Return the item after the forgetting entry `by` was applied, or None if the item is no longer visible."""
        if old.seq not in views.visible.shown:
            return None
        stub = views.visible.shown[old.seq]
        if stub is None:
            return self._mark_pinned(old, views)
        return self._make_item(old.seq, stub, by, text, views) if stub.by == by.seq else old

    def _mark_pinned(self, item: PromptItem, views: Views) -> PromptItem:
        """Return the item of a visible entry in the section around it, marked if only a pin kept it there."""
        kind = views.visible.kept.get(item.seq)
        if kind is None or item.section == _SECTIONS[kind]:
            return item
        text = item.text
        if item.section == Section.INTACT and not text.is_empty:
            mark = self.renderer.pinned_line
            text = EntryText(mark + text.text, text.data, text.mime, text.tokens + estimate_tokens(mark))
        return PromptItem(item.seq, text, _SECTIONS[kind], item.ends_part)


def needs_rendering(entry: Entry, views: Views) -> bool:
    """Whether adding the entry to a prompt needs its text: it is visible, or it forgets others."""
    return isinstance(entry.block, Hidden | Pruned | RangeSummary) or entry.seq in views.visible.shown


def needed_seqs(views: Views) -> list[int]:
    """Return the entries to load for a prompt at these views: visible entries, and those that put stubs."""
    return sorted({stub.by if stub else seq for seq, stub in views.visible.shown.items()})


def _parts_between(parts: Sequence[PromptPart], first: int, last: int) -> range:
    return range(max(0, _part_of(parts, first)), _part_of(parts, last) + 1)


def _part_of(parts: Sequence[PromptPart], seq: int) -> int:
    """Return the last part that begins at or before that seq; -1 if none does."""
    return bisect_right(parts, seq, key=_first_seq) - 1


def _first_seq(part: PromptPart) -> int:
    return part.first_seq


def _last_seq(part: PromptPart) -> int:
    return part.last_seq
