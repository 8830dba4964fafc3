"""Extracts the text that clients see of a reply while the model writes it."""

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from timeloom.core.paths import MAX_PATH_CHARS
from timeloom.core.stream.channels import DECISION, ChannelParser, Delta
from timeloom.core.stream.decision import DecisionStream
from timeloom.core.stream.json_fields import CHARACTERS, FieldDelta, decoded

SHOWN_CHANNELS: Final = ("thinking", "code")
"""Channels that clients see live."""

SHOWN_FIELDS: Final = {"final_answer": "answer", "notes": "timeline_text", "tool_call.params.content": "canvas"}
"""Fields of a decision that clients see live, each with the channel on which they see it."""

FILE_FIELD: Final = "tool_call.params.path"
"""Field of a decision that names the file being written."""

CHANNEL_FIELD: Final = "tool_call.params.channel"
"""Field of a decision that names the channel of a file; if it precedes the text and is `internal`, the text is not
shown."""

INTERNAL: Final = "internal"


class LiveDelta(msgspec.Struct, frozen=True, gc=False):
    """Live text, provisional until the round's blocks are stored."""

    channel: str
    index: int
    text: str
    file: str = ""
    """Path of the file being written, if the path precedes the text."""


class LiveReply:
    """Receives a reply in pieces and returns the visible text; the joined result does not depend on the cuts.

    Nearly every piece only continues the text before it. Such a piece bypasses the parsers, which are synchronised
    later.
    """

    __slots__ = ("_decisions", "_known", "_parser", "_way")

    def __init__(self) -> None:
        self._parser = ChannelParser()
        self._decisions: dict[int, DecisionStream] = {}
        self._known: dict[tuple[int, str], str] = {}  # path and channel of the files that the decisions write
        self._way: _Way | None = None

    def feed(self, text: str) -> list[LiveDelta]:
        """Return the visible text in the next piece of the reply."""
        way = self._way
        if way is None:
            return self._feed(text)
        if not way.takes(text):
            self._settle(way)
            return self._feed(text)
        way.last = text
        way.room -= len(text)
        if not way.channel:
            return []
        return [LiveDelta(way.channel, way.index, text if way.decision is None else decoded(text), way.file)]

    def _feed(self, text: str) -> list[LiveDelta]:
        shown: list[LiveDelta] = []
        for event in self._parser.feed(text):
            if isinstance(event, Delta):
                self._show(event, shown)
        self._way = self._short_way()
        return shown

    def _show(self, delta: Delta, shown: list[LiveDelta]) -> None:
        if delta.channel == DECISION:
            stream = self._decisions.get(delta.index)
            if stream is None:
                stream = self._decisions[delta.index] = DecisionStream((*SHOWN_FIELDS, FILE_FIELD, CHANNEL_FIELD))
            for event in stream.feed(delta.text):
                if isinstance(event, FieldDelta):
                    self._show_field(delta.index, event, shown)
        elif delta.channel in SHOWN_CHANNELS:
            shown.append(LiveDelta(delta.channel, delta.index, delta.text))

    def _show_field(self, index: int, field: FieldDelta, shown: list[LiveDelta]) -> None:
        if field.path not in SHOWN_FIELDS:
            known = self._known.get((index, field.path), "")
            # A longer text is not a path, and appending to it would copy it for each piece.
            if len(known) <= MAX_PATH_CHARS:
                self._known[index, field.path] = known + field.text
        elif channel := self._channel(field.path, index):
            shown.append(LiveDelta(channel, index, field.text, self._file(channel, index)))

    def _channel(self, field: str, index: int) -> str:
        """Return the channel on which the field's text is shown; empty if it is not shown."""
        channel = SHOWN_FIELDS.get(field, "")
        is_kept = channel == "canvas" and self._known.get((index, CHANNEL_FIELD)) == INTERNAL
        return "" if is_kept else channel

    def _file(self, channel: str, index: int) -> str:
        return self._known.get((index, FILE_FIELD), "") if channel == "canvas" else ""

    def _short_way(self) -> "_Way | None":
        """Return the fast path for text that only continues; None if all text must go through the parsers."""
        current = self._parser.current
        if current is None:
            return None
        name, index = current
        if name != DECISION:
            return _Way(name if name in SHOWN_CHANNELS else "", index)
        decision = self._decisions.get(index)
        field = decision.current if decision is not None else None
        if decision is None or field is None or field in (FILE_FIELD, CHANNEL_FIELD):
            return None
        channel = self._channel(field, index)
        return _Way(channel, index, self._file(channel, index), decision, decision.room)

    def _settle(self, way: "_Way") -> None:
        if way.last:
            self._parser.pass_by(way.last)
        if way.decision is not None:
            way.decision.pass_by(way.decision.room - way.room)


@dataclass(slots=True)
class _Way:
    """Destination of text that only continues, and the text that has bypassed the parsers."""

    channel: str
    """Channel on which the text is shown; empty if it is not shown."""
    index: int
    file: str = ""
    decision: DecisionStream | None = None
    room: int = 2**62
    """Number of characters that may still bypass the parsers."""
    last: str = ""
    """Most recent piece that bypassed the parsers."""

    def takes(self, text: str) -> bool:
        """Return whether the text only continues the text before it."""
        if self.decision is not None:
            return len(text) <= self.room and CHARACTERS.fullmatch(text) is not None
        return text != "" and not _BEGINNING.search(text)


_BEGINNING: Final = re.compile(r"[\ud800-\udfff]|</?(?:c|\Z)")
"""Matches a possible beginning of a channel tag, and half of a surrogate pair."""
