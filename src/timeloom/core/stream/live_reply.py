"""Extracts the text that clients see of a reply while the model writes it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from timeloom.core.paths import MAX_PATH_CHARS
from timeloom.core.stream.channels import (
    DECISION,
    RAW_FIELDS,
    ChannelClosed,
    ChannelDelta,
    ChannelOpened,
    ChannelParser,
)
from timeloom.core.stream.decision import FIRST_COMPACT_EDITION, DecisionStream
from timeloom.core.stream.declared import NO_CHANNELS, DeclaredChannel, parsed_channels
from timeloom.core.stream.json_fields import STRING_CHARACTERS, FieldDelta, decode_characters
from timeloom.core.stream.raw_text import RawTextStream

SHOWN_CHANNELS: Final = ("thinking", "code")
"""Channels that clients see live."""

ANSWER: Final = "answer"
"""Channel on which clients see the answer."""

SHOWN_FIELDS: Final = {"final_answer": ANSWER, "notes": "timeline_text", "tool_call.params.content": "canvas"}
"""Fields of a decision that clients see live, each with the channel on which they see it."""

RAW_SHOWN: Final = {"final_answer": "final_answer", "notes": "notes", "content": "tool_call.params.content"}
"""Raw channels that clients see live, each with the field of the decision that it holds."""

FILE_FIELD: Final = "tool_call.params.path"
"""Field of a decision that names the file being written."""

CHANNEL_FIELD: Final = "tool_call.params.channel"
"""Field of a decision that names the channel of a file, if it precedes the text: the text of an `internal` file is not
shown, and that of a `timeline_text` file is shown on this channel."""

INTERNAL: Final = "internal"
IN_CHAT: Final = "timeline_text"


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

    __slots__ = (
        *("_decisions", "_declared", "_fields", "_followed", "_known", "_last", "_notes_lead", "_parser", "_raw"),
        *("_said", "_way"),
    )

    def __init__(
        self,
        edition: int = 1,
        fields: Mapping[str, str] = SHOWN_FIELDS,
        declared: Sequence[DeclaredChannel] = NO_CHANNELS,
    ) -> None:
        self._fields = fields  # fields of a decision that are shown, each with its channel
        self._followed = _followed_fields(fields, compact=edition >= FIRST_COMPACT_EDITION)
        self._declared = frozenset(one.name for one in declared)
        self._parser = ChannelParser(parsed_channels(edition, declared))
        self._last = -1  # index of the last decision that has begun
        self._notes_lead: bool | None = None  # whether notes stand before their decisions; None before the first notes
        self._raw: _RawText | None = None  # the open raw channel
        self._said: set[tuple[int, str]] = set()  # fields of which text was shown
        self._decisions: dict[int, DecisionStream] = {}
        self._known: dict[tuple[int, str], str] = {}  # path and channel of the files that the decisions write
        self._way: _FastPath | None = None

    def feed(self, text: str) -> list[LiveDelta]:
        """Return the visible text in the next piece of the reply."""
        fast_path = self._way
        if fast_path is None:
            return self._feed(text)
        if not fast_path.accepts(text):
            self._sync_parsers(fast_path)
            return self._feed(text)
        fast_path.last_piece = text
        fast_path.remaining_chars -= len(text)
        if not fast_path.channel:
            return []
        if fast_path.raw is not None:
            text = fast_path.raw.feed(text)
            if not text:
                return []
        elif fast_path.decision is not None:
            text = decode_characters(text)
        return [LiveDelta(fast_path.channel, fast_path.index, text, fast_path.file)]

    def _feed(self, text: str) -> list[LiveDelta]:
        shown: list[LiveDelta] = []
        for event in self._parser.feed(text):
            if isinstance(event, ChannelDelta):
                self._show(event, shown)
            elif isinstance(event, ChannelOpened):
                self._open(event)
            elif isinstance(event, ChannelClosed) and self._raw is not None:
                self._show_raw(self._raw, self._raw.stream.close(), shown)
                self._raw = None
        self._way = self._find_fast_path()
        return shown

    def _open(self, event: ChannelOpened) -> None:
        if event.channel == DECISION:
            self._last = event.index
        elif event.channel in RAW_FIELDS:
            index = self._owner(event.channel)
            field = RAW_SHOWN.get(event.channel, "")
            # A field that also stands in the decision, or in two channels, is shown once.
            channel = self._visible_channel(field, index) if (index, field) not in self._said else ""
            self._said.add((index, field))
            stream = RawTextStream(unescapes=event.channel != "content")
            self._raw = _RawText(channel, index, self._file_path(field, index), stream)
        elif event.channel in self._declared:
            self._raw = _RawText(event.channel, event.index, "", RawTextStream(unescapes=True))

    def _owner(self, name: str) -> int:
        """Return the index of the decision that a raw channel belongs to if the reply is well-formed."""
        if name == "notes" and self._notes_lead is None:
            self._notes_lead = self._last < 0
        return self._last + 1 if name == "notes" and self._notes_lead else max(self._last, 0)

    def _show_raw(self, raw: "_RawText", text: str, shown: list[LiveDelta]) -> None:
        if raw.channel and text:
            shown.append(LiveDelta(raw.channel, raw.index, text, raw.file))

    def _show(self, delta: ChannelDelta, shown: list[LiveDelta]) -> None:
        if delta.channel == DECISION:
            stream = self._decisions.get(delta.index)
            if stream is None:
                stream = self._decisions[delta.index] = DecisionStream(self._followed)
            for event in stream.feed(delta.text):
                if isinstance(event, FieldDelta):
                    self._show_field(delta.index, event, shown)
        elif self._raw is not None:
            self._show_raw(self._raw, self._raw.stream.feed(delta.text), shown)
        elif delta.channel in SHOWN_CHANNELS:
            shown.append(LiveDelta(delta.channel, delta.index, delta.text))

    def _show_field(self, index: int, field: FieldDelta, shown: list[LiveDelta]) -> None:
        path = self._followed[field.path]
        if path not in self._fields:
            known = self._known.get((index, path), "")
            # A longer text is not a path, and appending to it would copy it for each piece.
            if len(known) <= MAX_PATH_CHARS:
                self._known[index, path] = known + field.text
            return
        self._said.add((index, path))
        if channel := self._visible_channel(path, index):
            shown.append(LiveDelta(channel, index, field.text, self._file_path(path, index)))

    def _visible_channel(self, field: str, index: int) -> str:
        """Return the channel on which the field's text is shown; empty if it is not shown."""
        channel = self._fields.get(field, "")
        if channel != "canvas":
            return channel
        named = self._known.get((index, CHANNEL_FIELD))
        # Without its path, the text could not be told from the notes of the same decision.
        if named == IN_CHAT and self._file_path(field, index):
            return IN_CHAT
        return "" if named == INTERNAL else channel

    def _file_path(self, field: str, index: int) -> str:
        return self._known.get((index, FILE_FIELD), "") if self._fields.get(field) == "canvas" else ""

    def _find_fast_path(self) -> "_FastPath | None":
        """Return the fast path for text that only continues; None if all text must go through the parsers."""
        current = self._parser.current
        if current is None:
            return None
        name, index = current
        if self._raw is not None:
            return _FastPath(self._raw.channel, self._raw.index, self._raw.file, raw=self._raw.stream)
        if name != DECISION:
            return _FastPath(name if name in SHOWN_CHANNELS else "", index)
        decision = self._decisions.get(index)
        current_field = decision.current if decision is not None else None
        # A field that is not followed is shown nowhere.
        field = self._followed.get(current_field, "") if current_field is not None else None
        if decision is None or field is None or field in (FILE_FIELD, CHANNEL_FIELD):
            return None
        channel = self._visible_channel(field, index)
        return _FastPath(
            channel, index, self._file_path(field, index), decision, remaining_chars=decision.remaining_chars
        )

    def _sync_parsers(self, fast_path: "_FastPath") -> None:
        if fast_path.last_piece:
            self._parser.record_skipped(fast_path.last_piece)
        if fast_path.decision is not None:
            fast_path.decision.record_skipped(fast_path.decision.remaining_chars - fast_path.remaining_chars)


def _followed_fields(fields: Mapping[str, str], *, compact: bool) -> dict[str, str]:
    """Return the fields to follow in a decision, each with its name in a decision that has an action."""
    names = (*fields, FILE_FIELD, CHANNEL_FIELD)
    alone = {name.removeprefix(_CALL): name for name in names if compact and name.startswith(_CALL)}
    return {name: name for name in names} | alone


_CALL: Final = "tool_call."


@dataclass(slots=True)
class _RawText:
    """An open raw channel: where its text is shown, and its text."""

    channel: str
    """Channel on which the text is shown; empty if it is not shown."""
    index: int
    file: str
    stream: RawTextStream


@dataclass(slots=True)
class _FastPath:
    """Destination of text that only continues, and the text that has bypassed the parsers."""

    channel: str
    """Channel on which the text is shown; empty if it is not shown."""
    index: int
    file: str = ""
    decision: DecisionStream | None = None
    raw: RawTextStream | None = None
    remaining_chars: int = 2**62
    """Number of characters that may still bypass the parsers."""
    last_piece: str = ""
    """Most recent piece that bypassed the parsers."""

    def accepts(self, text: str) -> bool:
        """Return whether the text only continues the text before it."""
        if self.decision is not None:
            return len(text) <= self.remaining_chars and STRING_CHARACTERS.fullmatch(text) is not None
        return text != "" and not _TAG_OR_SURROGATE.search(text)


_TAG_OR_SURROGATE: Final = re.compile(r"[\ud800-\udfff]|</?(?:c|\Z)|</[airst]")
"""Matches a possible beginning of a channel tag, and half of a surrogate pair."""
