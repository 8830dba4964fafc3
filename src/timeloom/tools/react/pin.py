"""The tool `react.pin`: keeps a block in the prompt while older entries are pruned and summarized."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import AnyBlock, Notice, Pinned
from timeloom.core.codes import CodedError
from timeloom.core.payload import BlobRef
from timeloom.core.policy.pins import free_pin_tokens, max_pinned_tokens
from timeloom.core.render.editions import renderer_for
from timeloom.core.render.entry_text import needed_payloads
from timeloom.core.timeline import Entry
from timeloom.core.view.context.visible import VisibleView
from timeloom.ports.tool import Outcome, TimelineReader, ToolContext
from timeloom.tools.react.resolve import to_logical_path

_ANY_TS: Final = "2026-01-01T00:00:00Z"
"""The time of entries that are only counted; results do not show theirs."""


class PinStatus(msgspec.Struct, frozen=True):
    """The path, whether it is pinned now, and the tokens of all pins."""

    path: str
    pinned: bool
    pinned_tokens: int


@dataclass(frozen=True, slots=True)
class PinTool:
    """`react.pin` for a model with that window."""

    window_tokens: int = 200_000

    async def pin(self, context: ToolContext, path: str, pinned: bool = True) -> Outcome:
        """Keeps a block in sight when older parts of the conversation are pruned or summarized.

        All pins together have at most a tenth of the window. Only what is in sight can be pinned.

        path: the logical path of what stays in sight
        pinned: false ends the pin
        """
        visible = context.timeline.views.visible
        target = str(to_logical_path(path, context.turn_id, context.timeline.views))
        block = await make_pin(context.timeline, target, self.window_tokens) if pinned else make_unpin(visible, target)
        others = sum(pin.tokens for at, pin in visible.pins.items() if at != block.target)
        status = PinStatus(block.target, block.pinned, others + block.tokens)
        return Outcome(blocks=(block,), status=msgspec.json.encode(status).decode())


async def make_pin(timeline: TimelineReader, path: str, window_tokens: int, author: str = "react") -> Pinned:
    """Return the block that pins what is visible at the path; raise if nothing is, or if there is no room for it."""
    visible = timeline.views.visible
    entries = await timeline.entries(visible.pinnable_at(path))
    if entries and all(entry.block.erased for entry in entries):
        raise CodedError("pin_not_visible", f"the content of {path[:200]} was erased, so there is nothing to pin")
    tokens = await _count_tokens(timeline, entries)
    if not tokens:
        message = f"nothing at {path[:200]} is in the prompt; read it again and pin the path of the result"
        raise CodedError("pin_not_visible", message)
    # A path without a number names the newest block of its family; the pin keeps this block.
    target = entries[0].path
    if tokens > (free := free_pin_tokens(visible, target, window_tokens)):
        raise CodedError("pins_full", _full_text(target, tokens, window_tokens, free))
    return Pinned(target=target, tokens=tokens, author=author)


def make_unpin(visible: VisibleView, path: str, author: str = "react") -> Pinned:
    """Return the block that ends the pin of the path; raise if there is none."""
    if target := visible.pin_path(path):
        return Pinned(target=target, pinned=False, author=author)
    raise CodedError("pin_unknown", f"nothing at {path[:200]} is pinned")


async def check_pins(context: ToolContext, blocks: Sequence[AnyBlock], window_tokens: int) -> tuple[AnyBlock, ...]:
    """Return the blocks of a call; each pin among them gets the tokens of what it keeps, whatever its tool stated.

    A pin also keeps blocks of the same call at its path. A notice replaces a pin for which there is no room.
    """
    if not any(isinstance(block, Pinned) for block in blocks):
        return tuple(blocks)
    timeline, turn_id = context.timeline, context.turn_id
    entries = [Entry(turn_id=turn_id, ts=_ANY_TS, block=block, seq=seq) for seq, block in enumerate(blocks, 1)]
    pins = {path: pin.tokens for path, pin in timeline.views.visible.pins.items()}
    notices: list[AnyBlock] = []
    checked: list[AnyBlock] = []
    for block in blocks:
        if not isinstance(block, Pinned):
            checked.append(block)
            continue
        kept = await timeline.entries(timeline.views.visible.pinnable_at(block.target)) if block.pinned else ()
        added = [entry for entry in entries if block.pinned and entry.path == block.target]
        tokens = await _count_tokens(timeline, [*kept, *added])
        others = sum(pinned for path, pinned in pins.items() if path != block.target)
        if tokens and tokens > (free := max_pinned_tokens(window_tokens) - others):
            text = _full_text(block.target, tokens, window_tokens, free)
            notices.append(Notice(code="pins_full", text=text, tool_call_id=context.tool_call_id))
        else:
            pins[block.target] = tokens
            checked.append(replace(block, tokens=tokens))
    return (*notices, *checked)


def _full_text(target: str, tokens: int, window_tokens: int, free: int) -> str:
    most = max_pinned_tokens(window_tokens)
    return f"{target} has {tokens} tokens; pins may have {most} together, and {max(0, free)} are free: unpin others"


async def _count_tokens(timeline: TimelineReader, entries: Sequence[Entry]) -> int:
    """Return the estimated tokens of the entries in a prompt."""
    renderer = renderer_for(timeline.views.turns.edition)
    payloads: dict[BlobRef, bytes] = {}
    total = 0
    for entry in entries:
        for ref in needed_payloads(entry):
            payloads[ref] = await timeline.payload(ref)
        total += renderer.entry_text(entry, timeline.views, payloads).tokens
    return total
