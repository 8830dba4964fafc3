"""Keeps streamed text that is in no stored block yet, for readers that join in the middle of it."""

from collections import deque
from typing import Final

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    ChannelText,
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

MAX_KEPT_BYTES: Final = 1024 * 1024
"""Maximum bytes kept per conversation. Less cuts off the beginning of long texts for late readers; more takes memory
for every conversation that streams that much between two blocks."""

RUN_BYTES: Final = 65_536
"""Bytes dropped at once when the limit is exceeded."""

RUN_COST_BYTES: Final = 200
"""Bytes counted for each run in addition to its text."""

TOOL_OUTPUT: Final = ""
"""The kind of all channels that are not built in: those of tools, and those that an agent declares."""

DECLARED_PREFIX: Final = "declared:"
"""Begins the kind of one declared channel."""

REPLY_CHANNELS: Final = frozenset((*SHOWN_CHANNELS, *SHOWN_FIELDS.values()))
"""The channels of a reply."""

Key = tuple[TurnId, str, int, str]
PositionedDelta = tuple[ChatDelta, int]
"""A delta and the seq of the last entry published before it."""

_ALL_KINDS: Final = (*sorted(REPLY_CHANNELS), TOOL_OUTPUT)


def text_kind(delta: ChatDelta) -> str:
    """Return the kind of the text: its channel, `canvas` for the text of every file, or `TOOL_OUTPUT` for tools."""
    if delta.path:
        return "canvas"
    return delta.channel if delta.channel in REPLY_CHANNELS else TOOL_OUTPUT


def text_kinds(delta: ChatDelta) -> tuple[str, ...]:
    """Return the kind of the text, and a kind of its own for a channel that is not built in."""
    kind = text_kind(delta)
    return (kind, f"{DECLARED_PREFIX}{delta.channel}") if kind == TOOL_OUTPUT else (kind,)


def kinds_ended_by(block: AnyBlock) -> tuple[str, ...]:
    """Return the kinds of partial text that end with that block: it contains them, or no block ever will."""
    match block:
        case RoundStarted() | ModelCalled() | TurnEnded():
            return _ALL_KINDS
        case Thinking():
            return ("thinking",)
        case Notes():
            return ("timeline_text",)
        case ToolCode():
            return ("code",)
        case ChannelText(channel=name):
            return (f"{DECLARED_PREFIX}{name}",)
        case Completion():
            return ("answer",)
        case ToolCall(by=None):
            # A call made by a program does not end the program's own output.
            return (TOOL_OUTPUT,)
        case ResultContent() | ResultDigest() | ResultStatus():
            return ("canvas",)
        case _:
            return ()


def is_continuation(first: ChatDelta, delta: ChatDelta) -> bool:
    """Return whether both deltas belong to the same text."""
    return _key(first) == _key(delta)


class _TextRun(msgspec.Struct):
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

    def to_delta(self, *, cut: bool) -> PositionedDelta:
        text = self.text.decode("utf-8", "surrogatepass")
        return replace(self.first, text=text, cut=cut), self.after


class PartialText:
    """Collects every delta, with or without readers; the cost of adding one depends only on its size."""

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._runs: deque[_TextRun] = deque()
        self._cut: dict[Key, PositionedDelta] = {}
        """The texts whose beginning was dropped, and the position of that beginning."""
        self._bytes = 0

    def add(self, delta: ChatDelta, after: int) -> None:
        """Add the delta, which was published after that entry."""
        run = self._runs[-1] if self._runs else None
        if run is None or not is_continuation(run.first, delta) or len(run.text) >= RUN_BYTES:
            run = _TextRun(delta, after, bytearray())
            self._runs.append(run)
            self._bytes += RUN_COST_BYTES
        text = delta.text.encode("utf-8", "surrogatepass")
        run.text += text
        self._bytes += len(text)
        while self._bytes > self._max_bytes and self._runs:
            dropped = self._runs.popleft()
            self._bytes -= dropped.size_bytes
            self._cut[dropped.key] = replace(dropped.first, text="", cut=True), dropped.after

    def end(self, block: AnyBlock) -> None:
        """Drop the texts that end with that block."""
        if (self._runs or self._cut) and (kinds := frozenset(kinds_ended_by(block))):
            self._runs = deque(run for run in self._runs if kinds.isdisjoint(text_kinds(run.first)))
            self._cut = {key: one for key, one in self._cut.items() if kinds.isdisjoint(text_kinds(one[0]))}
            self._bytes = sum(run.size_bytes for run in self._runs)

    def clear(self) -> None:
        """Drop all texts; no block will contain them."""
        self._runs.clear()
        self._cut.clear()
        self._bytes = 0

    def snapshot(self) -> list[PositionedDelta]:
        """Return all texts in the order they were streamed; those without their beginning have `cut` set."""
        cut = dict(self._cut)
        runs = [run.to_delta(cut=cut.pop(run.key, None) is not None) for run in self._runs]
        return [*cut.values(), *runs]


def _key(delta: ChatDelta) -> Key:
    return delta.turn_id, delta.channel, delta.index, delta.path
