"""Live text: what clients see of a reply while it is being written."""

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from timeloom.core.paths import MAX_PATH_CHARS
from timeloom.core.stream.channels import DECISION, ChannelParser, Delta
from timeloom.core.stream.decision import DecisionStream
from timeloom.core.stream.json_fields import CHARACTERS, FieldDelta, decoded

SHOWN_CHANNELS: Final = ("thinking", "code")
"""The channels that clients see while they are written."""

SHOWN_FIELDS: Final = {"final_answer": "answer", "notes": "timeline_text", "tool_call.params.content": "canvas"}
"""The fields of a decision that clients see while they are written, and the channel they see them on."""

FILE_FIELD: Final = "tool_call.params.path"
"""The field of a decision that says which file is written."""

CHANNEL_FIELD: Final = "tool_call.params.channel"
"""The field of a decision that says where a file is shown; where it says `internal` before the text, that is not."""

INTERNAL: Final = "internal"


class LiveDelta(msgspec.Struct, frozen=True, gc=False):
    """Text on its way: provisional until the round's blocks are stored."""

    channel: str
    index: int
    text: str
    file: str = ""
    """Of a file that is being written, its path, where that was said before."""


class LiveReply:
    """Takes a reply in pieces and gives what of it is shown; the whole does not depend on how it was cut.

    Nearly every piece only goes on with the text before it. Such a piece takes a short way: the parsers are told later
    what passed them by.
    """

    __slots__ = ("_decisions", "_known", "_parser", "_way")

    def __init__(self) -> None:
        self._parser = ChannelParser()
        self._decisions: dict[int, DecisionStream] = {}
        self._known: dict[tuple[int, str], str] = {}  # what the decisions say of the files they write
        self._way: _Way | None = None

    def feed(self, text: str) -> list[LiveDelta]:
        """What the next piece of the reply adds."""
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
            # A longer one is no path, and would be copied at each of its pieces.
            if len(known) <= MAX_PATH_CHARS:
                self._known[index, field.path] = known + field.text
        elif channel := self._channel(field.path, index):
            shown.append(LiveDelta(channel, index, field.text, self._file(channel, index)))

    def _channel(self, field: str, index: int) -> str:
        """Where the text of the field is shown; empty where it is not."""
        channel = SHOWN_FIELDS.get(field, "")
        is_kept = channel == "canvas" and self._known.get((index, CHANNEL_FIELD)) == INTERNAL
        return "" if is_kept else channel

    def _file(self, channel: str, index: int) -> str:
        return self._known.get((index, FILE_FIELD), "") if channel == "canvas" else ""

    def _short_way(self) -> "_Way | None":
        """The way of text that only goes on, None where all text must go through the parsers."""
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
    """Where text goes that only goes on, and what went there."""

    channel: str
    """Where it is shown; empty where it is not."""
    index: int
    file: str = ""
    decision: DecisionStream | None = None
    room: int = 2**62
    """How many characters may still pass."""
    last: str = ""
    """The piece that passed last."""

    def takes(self, text: str) -> bool:
        """Whether the text only goes on."""
        if self.decision is not None:
            return len(text) <= self.room and CHARACTERS.fullmatch(text) is not None
        return text != "" and not _BEGINNING.search(text)


_BEGINNING: Final = re.compile(r"[\ud800-\udfff]|</?(?:c|\Z)")
"""What may become a tag of a channel with more text, and what is half of a character."""
