"""Pins and unpins blocks: pinned ones stay in the prompt when older entries are pruned or summarized."""

from dataclasses import dataclass
from typing import Final

from timeloom.core.blocks import AnyBlock, Cut, Pinned, Pruned
from timeloom.core.policy.pins import find_lapsed_pins
from timeloom.core.render.editions import renderer_for
from timeloom.core.timeline import Entry
from timeloom.core.view.aliases import parse_in
from timeloom.runtime.context.read_range import load_card_context
from timeloom.runtime.session.session import Session
from timeloom.tools.react.pin import make_pin, make_unpin

LAPSED: Final = "the pins no longer fit the model's window"


@dataclass(frozen=True, slots=True)
class PinKeeper:
    """Keeps the pins of one conversation; `window_tokens` is the model's window in estimated tokens."""

    session: Session
    window_tokens: int

    async def pin(self, path: str, author: str = "user") -> Entry:
        """Pin the blocks at the path and return the entry of the pin; a pin of the same blocks is not repeated.

        Raises `pin_not_visible` or `pins_full`.
        """
        views = self.session.views
        wanted = str(parse_in(path, views))
        while True:
            tail = views.tail
            block = await make_pin(self.session, wanted, self.window_tokens, author)
            known = views.visible.pins.get(block.target)
            if known and set(known.seqs) == set(views.visible.pinnable_at(block.target)):
                return (await self.session.entries([known.by]))[0]
            if entries := await self.session.append([block], views.turns.newest, after=tail):
                return entries[0]

    async def unpin(self, path: str, author: str = "user") -> Entry:
        """End the pin of the path and return its entry; raises `pin_unknown`."""
        views = self.session.views
        wanted = str(parse_in(path, views))
        while True:
            tail = views.tail
            block = make_unpin(views.visible, wanted, author)
            if entries := await self.session.append([block], views.turns.newest, after=tail):
                return entries[0]

    async def end_oldest(self, max_tokens: int) -> bool:
        """End the oldest pins until the others have at most `max_tokens`; return whether one had to end.

        Blocks whose surroundings are gone give way to the line that reads them, since no later cut may cover them.
        """
        visible = self.session.views.visible
        paths = find_lapsed_pins(visible.pins, max_tokens)
        if not paths:
            return False
        blocks: list[AnyBlock] = [Pinned(target=path, pinned=False, text=LAPSED, author="runtime") for path in paths]
        alone = sorted(seq for path in paths for seq in visible.pins[path].seqs if seq in visible.kept)
        entries = await self.session.entries(alone)
        known = await load_card_context(self.session, entries)
        renderer = renderer_for(self.session.views.turns.edition)
        views = self.session.views
        texts = {one.seq: renderer.shorten_entry(one, 0, views, known.payloads) for one in entries}
        if cuts := tuple(Cut(seq, seq, text) for seq, text in texts.items()):
            blocks.append(Pruned(cuts=cuts, reason=LAPSED))
        await self.session.append(blocks, self.session.views.progress.turn_id)
        return True
