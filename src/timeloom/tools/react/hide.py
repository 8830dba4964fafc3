"""The tool `react.hide`: replaces a large recent block in the prompt by a few words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from timeloom.core.blocks import Hidden
from timeloom.core.codes import CodedError
from timeloom.core.payload import BlobRef
from timeloom.core.policy.cache.points import CacheSettings, can_hide, editable_after
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.context.visible import Stub, VisibleView
from timeloom.ports.tool import Outcome, TimelineReader, ToolContext
from timeloom.tools.react.resolve import to_logical_path

MAX_REPLACEMENT_CHARS: Final = 500
"""Longest replacement text. A longer one would be a summary, which hides nothing."""

_BYTES_PER_TOKEN: Final = 4


class HideError(CodedError):
    """A block that cannot be hidden."""


class HideStatus(msgspec.Struct, frozen=True):
    """The hidden path, the number of its blocks and the replacement text."""

    path: str
    blocks_hidden: int
    replacement: str


@dataclass(frozen=True, slots=True)
class HideTool:
    """`react.hide` with the cache settings that decide which blocks may still change."""

    settings: CacheSettings = field(default_factory=CacheSettings)

    async def hide(self, context: ToolContext, path: str, replacement: str) -> Outcome:
        """Replace a long recent block by one line. Reading its path brings it back.

        path: the path of the block
        replacement: what it was and what matters of it
        """
        target = str(to_logical_path(path, context.turn_id, context.timeline.views))
        words = _check_replacement(replacement)
        seqs = _find_hideable(target, context.timeline.views.visible)
        if not seqs:
            raise HideError("hide_not_visible", f"nothing at {target} is in the prompt, so it cannot be hidden")
        if not await self._may_hide(seqs, context.timeline):
            raise HideError(
                "hide_before_cache",
                f"{target} lies before the pre-tail cache point or too far from the end; hide what came later",
            )
        status = HideStatus(target, len(seqs), words)
        return Outcome(blocks=(Hidden(target=target, replacement=words),), status=msgspec.json.encode(status).decode())

    async def _may_hide(self, seqs: Sequence[int], timeline: TimelineReader) -> bool:
        point = editable_after(timeline.views, self.settings)
        if seqs[0] <= point:
            return False
        visible = timeline.views.visible
        after = await timeline.entries(visible.seqs_from(seqs[0]))
        tokens = {entry.seq: _estimate_tokens(entry, visible.shown[entry.seq]) for entry in after}
        size = sum(tokens[seq] for seq in seqs)
        return can_hide(seqs[0], size, sum(tokens.values()), point, self.settings)


def _check_replacement(replacement: str) -> str:
    """Return the text on one line without a trailing full stop, so that it resembles no line of the prompt."""
    words = " ".join(replacement.split()).rstrip(".")
    if not words:
        raise CodedError("tool_params_invalid", "replacement is empty; say in a few words what is hidden")
    if len(words) > MAX_REPLACEMENT_CHARS:
        message = f"replacement has at most {MAX_REPLACEMENT_CHARS} characters, got {len(words)}"
        raise CodedError("tool_params_invalid", message)
    return words


def _find_hideable(path: str, visible: VisibleView) -> list[int]:
    """Return the entries that hiding this path removes from the prompt, in order."""
    if path in visible.summaries:
        by, place = visible.summaries[path]
        stand = visible.shown.get(place)
        return [place] if stand and stand.by == by else []
    seqs = [visible.at_alias[path]] if path in visible.at_alias else visible.at_path.get(path, [])
    return sorted(seq for seq in seqs if _can_be_hidden(seq, visible))


def _can_be_hidden(seq: int, visible: VisibleView) -> bool:
    if seq not in visible.shown:
        return False
    stand = visible.shown[seq]
    return stand is None or stand.kind == "hidden"


def _estimate_tokens(entry: Entry, stand: Stub | None) -> int:
    """Estimate the entry's tokens in a prompt: of its stub, its shown part, or else its text."""
    if stand:
        return estimate_tokens(stand.text)
    block = entry.block
    shown = getattr(block, "shown", None)
    text = (shown and shown.text) or getattr(block, "text", None) or getattr(block, "params", "")
    if isinstance(text, BlobRef):
        return text.size_bytes // _BYTES_PER_TOKEN
    return estimate_tokens(text)
