"""Keeps streamed text that is in no stored block yet, for readers that join in the middle of it."""

from collections import deque
from typing import Final

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ModelCalled,
    Notes,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    Thinking,
    ToolCall,
    ToolCode,
    TurnEnded,
)
from timeloom.core.ids import TurnId
from timeloom.core.stream.live_reply import SHOWN_CHANNELS, SHOWN_FIELDS
from timeloom.runtime.hub.events import ChatDelta

KEPT_BYTES: Final = 1024 * 1024
"""Maximum bytes kept per conversation. Less cuts off the beginning of long texts for late readers; more takes memory
for every conversation that streams that much between two blocks."""

RUN_BYTES: Final = 65_536
"""Bytes dropped at once when the limit is exceeded."""

RUN_COST_BYTES: Final = 200
"""Bytes counted for each run in addition to its text."""

OUTPUT: Final = ""
"""The kind of all channels of tools."""

SPOKEN: Final = frozenset((*SHOWN_CHANNELS, *SHOWN_FIELDS.values()))
"""The channels of a reply."""

Key = tuple[TurnId, str, int]
Placed = tuple[ChatDelta, int]
"""A delta and the seq of the last entry published before it."""

_ALL: Final = (*sorted(SPOKEN), OUTPUT)


def kind_of(channel: str) -> str:
    """Return the kind of the channel's text: the channel itself, or `TOOL_OUTPUT` for channels of tools."""
    return channel if channel in SPOKEN else OUTPUT


def ended_by(block: AnyBlock) -> tuple[str, ...]:
    """Return the kinds of partial text that end with that block: it contains them, or no block ever will."""
    match block:
        case RoundStarted() | ModelCalled() | TurnEnded():
            return _ALL
        case Thinking():
            return ("thinking",)
        case Notes():
            return ("timeline_text",)
        case ToolCode():
            return ("code",)
        case Completion():
            return ("answer",)
        case ToolCall(by=None):
            # A call made by a program does not end the program's own output.
            return (OUTPUT,)
        case ResultContent() | ResultDigest() | ResultStatus():
            return ("canvas",)
        case _:
            return ()


def goes_on(first: ChatDelta, delta: ChatDelta) -> bool:
    """Return whether both deltas belong to the same text."""
    return first.channel == delta.channel and first.index == delta.index and first.turn_id == delta.turn_id


class _Run(msgspec.Struct):
    """Consecutive text of one channel."""

    first: ChatDelta
    after: int
    text: bytearray

    @property
    def key(self) -> Key:
        return _key(self.first)

    @property
    def size_bytes(self) -> int:
        return len(self.text) + RUN_COST_BYTES

    def told(self, *, cut: bool) -> Placed:
        text = self.text.decode("utf-8", "surrogatepass")
        return replace(self.first, text=text, cut=cut), self.after


class OpenText:
    """Collects every delta, with or without readers; the cost of adding one depends only on its size."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._runs: deque[_Run] = deque()
        self._cut: dict[Key, Placed] = {}
        """The texts whose beginning was dropped, and the position of that beginning."""
        self._bytes = 0

    def add(self, delta: ChatDelta, after: int) -> None:
        """Add the delta, which was published after that entry."""
        run = self._runs[-1] if self._runs else None
        if run is None or not goes_on(run.first, delta) or len(run.text) >= RUN_BYTES:
            run = _Run(delta, after, bytearray())
            self._runs.append(run)
            self._bytes += RUN_COST_BYTES
        text = delta.text.encode("utf-8", "surrogatepass")
        run.text += text
        self._bytes += len(text)
        while self._bytes > self._most_bytes and self._runs:
            lost = self._runs.popleft()
            self._bytes -= lost.size_bytes
            self._cut[lost.key] = replace(lost.first, text="", cut=True), lost.after

    def end(self, block: AnyBlock) -> None:
        """Drop the texts that end with that block."""
        kinds = ended_by(block)
        if kinds and (self._runs or self._cut):
            self._runs = deque(run for run in self._runs if kind_of(run.first.channel) not in kinds)
            self._cut = {key: one for key, one in self._cut.items() if kind_of(one[0].channel) not in kinds}
            self._bytes = sum(run.size_bytes for run in self._runs)

    def clear(self) -> None:
        """Drop all texts; no block will contain them."""
        self._runs.clear()
        self._cut.clear()
        self._bytes = 0

    def told(self) -> list[Placed]:
        """Return all texts in the order they were streamed; those without their beginning have `cut` set."""
        cut = dict(self._cut)
        runs = [run.told(cut=cut.pop(run.key, None) is not None) for run in self._runs]
        return [*cut.values(), *runs]


def _key(delta: ChatDelta) -> Key:
    return delta.turn_id, delta.channel, delta.index
