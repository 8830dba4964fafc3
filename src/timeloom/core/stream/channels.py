"""Parses a model's reply, received in pieces of any size, into typed events for each channel."""

import codecs
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, Literal, assert_never

import msgspec

from timeloom.core.stream.surrogates import SurrogateJoiner

DECISION: Final = "ReactDecisionOutV2"
"""The channel that carries one decision as one JSON object."""

OUTSIDE: Final = ""
"""`channel` of text outside every channel."""

MAX_NAME_CHARS: Final = 64
"""Longest name in a tag. A larger limit holds back more text that is not a tag; a smaller one makes long names plain
text."""


class Channel(msgspec.Struct, frozen=True):
    """A channel that the model may write. The next open tag ends prose; in json a close tag in a string is text."""

    name: str
    holds: Literal["prose", "raw", "json"]
    aliases: tuple[str, ...] = ()
    taught: str = ""
    """The name that messages use, if it is not the first one."""

    @property
    def taught_name(self) -> str:
        """The name under which the model is instructed to write it."""
        return self.taught or self.name


THINKING: Final = "thinking"
"""The channel that carries the model's thoughts."""

THOUGHT_TAGS: Final = (
    *("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "analysis"),
    *("antThinking", "seed:think", "inner_monologue", "internal_monologue"),
)
"""Names of the tags in which models write thoughts by habit: `<think>…</think>`."""

DECLARED: Final = (
    Channel(THINKING, "prose"),
    Channel(DECISION, "json", aliases=("action",)),
    Channel("code", "raw"),
    Channel("summary", "prose"),
)
"""The channels that the model is instructed to use."""

RAW_FIELDS: Final = ("final_answer", "content", "patch", "notes")
"""From edition 2 on, the channels that hold one field of a decision as raw text."""


def declared_channels(edition: int) -> tuple[Channel, ...]:
    """Return the channels that the model may use in that edition."""
    return DECLARED if edition < 2 else _DECLARED_WITH_FIELDS


_DECLARED_WITH_FIELDS: Final = (
    *(msgspec.structs.replace(one, taught="action") if one.name == DECISION else one for one in DECLARED),
    *(Channel(name, "raw") for name in RAW_FIELDS),
)


class ChannelOpened(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Start of a declared channel; `index` numbers the instances of one channel from 0."""

    text: ClassVar[str] = ""
    channel: str
    index: int


class ChannelDelta(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Next piece of text of a declared channel; never empty."""

    channel: str
    index: int
    text: str


class ChannelClosed(msgspec.Struct, frozen=True, gc=False, tag=True):
    """End of a declared channel: by its close tag, by the next channel's open tag, or by the end of the stream."""

    text: ClassVar[str] = ""
    channel: str
    index: int
    by: Literal["close_tag", "open_tag", "end_of_stream"]

    @property
    def is_cut(self) -> bool:
        """Whether the stream ended first, so that text may be missing."""
        return self.by == "end_of_stream"


class OutsideText(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Text outside every channel, never empty; `index` numbers the runs of such text."""

    channel: ClassVar[str] = OUTSIDE
    index: int
    text: str


class UndeclaredText(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Text of an undeclared channel, including its tags; `index` numbers the instances of that name."""

    channel: str
    index: int
    text: str


class ProtocolViolation(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A violation of the channel protocol at this point; the message states the fault and the expected form."""

    text: ClassVar[str] = ""
    channel: str
    index: int
    code: str
    message: str


ChannelEvent = ChannelOpened | ChannelDelta | ChannelClosed | OutsideText | UndeclaredText | ProtocolViolation
"""Union of all events. The texts of one channel and index, joined, are the complete text of that instance."""


class ChannelParser:
    """Converts a reply into events; how the reply was cut affects only the sizes of the text pieces."""

    __slots__ = (
        "_channel",
        "_close_tags",
        "_counts",
        "_declared",
        "_ended",
        "_held",
        "_index",
        "_last",
        "_may_withhold",
        "_name",
        "_open_tags",
        "_out",
        "_quotes",
        "_scalars",
        "_utf8",
        "_withheld",
    )

    def __init__(self, declared: Sequence[Channel] = DECLARED) -> None:
        self._declared = _index_by_name(declared)
        self._open_tags = tuple(f"<channel:{name}>" for name in self._declared)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._scalars = SurrogateJoiner()
        self._quotes = _JsonStringTracker()
        self._counts: dict[str, int] = {}
        self._out: list[ChannelEvent] = []
        self._held = ""  # a possible beginning of a tag
        self._withheld: list[str] = []  # text after an open tag inside thoughts, which may be thought as well
        self._may_withhold = True
        self._ended = False
        self._leave_channel()

    def feed(self, text: str) -> list[ChannelEvent]:
        """Return the events of the next piece of text.

        A possible beginning of a tag is held back. So is everything after an open tag inside unclosed thoughts, until
        their close tag or the end of the reply shows whether it was thought.
        """
        if self._ended:
            raise ValueError("a closed ChannelParser takes no more text; make a new one for each reply")
        if self._scalars.half or not text.isascii():
            text = self._scalars.feed(text)
        text = self._held + text
        if self._withheld:
            self._withhold(text)
        elif "<" in text:
            self._process_tags(text)
        else:
            self._write(text)
        return self._drain_events()

    def feed_bytes(self, data: bytes) -> list[ChannelEvent]:
        """Return the events of the next UTF-8 bytes, cut anywhere; invalid bytes become U+FFFD."""
        return self.feed(self._utf8.decode(data))

    def close(self) -> list[ChannelEvent]:
        """Return the last events: text that was held back, and the end of a channel that is still open."""
        if self._ended:
            return []
        events = self.feed(self._utf8.decode(b"", final=True))
        self._ended = True
        left = self._held + self._scalars.close()
        if self._withheld:
            # The thoughts were never closed, so the open tag after them counts.
            left = "".join(self._withheld) + left
            self._withheld, self._may_withhold = [], False
            self._process_tags(left)
            left = self._held
        self._write(left)
        if self._name != OUTSIDE:
            self._violation(_UNCLOSED, f"The reply ended inside the channel `{self._name}`. {self._close_rule()}")
            self._end_channel("end_of_stream")
        return events + self._drain_events()

    @property
    def current(self) -> tuple[str, int] | None:
        """Declared channel and index that more text continues; None if text is held back or no such channel is open."""
        if self._channel is None or self._held or self._scalars.half or self._withheld:
            return None
        return self._name, self._index

    def record_skipped(self, text: str) -> None:
        """Record text of the current channel that bypassed `feed`: text inside a JSON string, or text without tags."""
        self._last = text

    def _drain_events(self) -> list[ChannelEvent]:
        events, self._out = self._out, []
        return events

    def _process_tags(self, text: str) -> None:
        done = 0
        for tag in _TAG.finditer(text):
            if not self._is_effective(tag):
                continue
            at = tag.start()
            self._write(text[done:at])
            done = at
            if self._quotes.inside:
                continue
            if self._name == THINKING and not tag["slash"] and self._may_withhold:
                self._held = ""
                self._withhold(text[at:])
                return
            self._apply_tag(tag)
            done = tag.end()
        self._write_or_hold(text, done)

    def _withhold(self, text: str) -> None:
        """Collect text that may be thought, until the close tag of the thoughts."""
        self._held = ""
        # The tag may have begun in the piece before.
        before = self._withheld[-1] if self._withheld else ""
        self._withheld[-1:] = [before + text] if len(before) < _LONGEST_CLOSE_TAG else [before, text]
        recent = "".join(self._withheld[-2:])
        found = min((at for tag in self._close_tags if (at := recent.find(tag)) >= 0), default=-1)
        if found < 0:
            return
        thought = "".join(self._withheld[:-2]) + recent[:found]
        self._withheld = []
        self._write(thought)
        self._process_tags(recent[found:])

    def _is_effective(self, tag: re.Match[str]) -> bool:
        """Return whether the tag has a meaning here, apart from being inside a JSON string."""
        if self._name == OUTSIDE:
            return not tag["slash"] and (tag["name"] is not None or THINKING in self._declared)
        if tag["slash"]:
            return tag[0] in self._close_tags
        return tag["name"] in self._declared and self._may_be_interrupted(tag.string, tag.start())

    def _may_be_interrupted(self, text: str, at: int) -> bool:
        """Return whether this is the start of a line in a channel that the next open tag ends."""
        if self._channel is not None and self._channel.holds != "prose":
            return False
        return text[at - 1] == "\n" if at else self._last.endswith("\n")

    def _apply_tag(self, tag: re.Match[str]) -> None:
        if tag["slash"]:
            if self._channel is None:
                self._write(tag[0])
            self._end_channel("close_tag")
            return
        if self._name != OUTSIDE:
            came = f"`{tag[0]}` came before the channel `{self._name}` was closed"
            self._violation(_UNCLOSED, f"{came}. {self._close_rule()}")
            self._end_channel("open_tag")
        self._begin_channel(tag["name"] or THINKING, tag[0])

    def _begin_channel(self, name: str, tag: str) -> None:
        self._channel = self._declared.get(name)
        self._name = name if self._channel is None else self._channel.name
        self._index = self._next_index(self._name)
        self._last = ""
        if self._channel is None:
            self._close_tags = (f"</channel:{name}>",)
            self._violation(_UNDECLARED, f"There is no channel `{name}`. {self._channels_rule()}")
            self._write(tag)
        else:
            self._close_tags = tuple(f"</channel:{known}>" for known in (self._name, *self._channel.aliases))
            if not tag.startswith("<channel:"):
                self._close_tags += (f"</{tag[1:]}",)
            self._out.append(ChannelOpened(self._name, self._index))

    def _end_channel(self, by: Literal["close_tag", "open_tag", "end_of_stream"]) -> None:
        if self._channel is not None:
            self._out.append(ChannelClosed(self._name, self._index, by))
        self._leave_channel()

    def _leave_channel(self) -> None:
        self._channel: Channel | None = None  # also None in an undeclared channel, whose name is in _name
        self._name = OUTSIDE
        self._index = -1  # -1 until there is more than white space
        self._close_tags: tuple[str, ...] = ()
        self._last = ""  # last text of this channel; shows whether a line starts here
        self._quotes.reset()

    def _write_or_hold(self, text: str, done: int) -> None:
        at = text.rfind("<", done)
        if at >= 0 and self._may_become_tag(text, at):
            self._write(text[done:at])
            done = at
            if not self._quotes.inside:
                self._held = text[at:]
                return
        self._held = ""
        self._write(text[done:])

    def _may_become_tag(self, text: str, at: int) -> bool:
        """Return whether more text could complete the end of this text to a tag that has a meaning here."""
        if not _TAG_BEGINNING.fullmatch(text, at):
            return False
        if self._name == OUTSIDE:
            return not text.startswith("</", at)
        start = text[at:]
        tags = self._close_tags
        if self._may_be_interrupted(text, at):
            tags += self._open_tags
        return any(tag.startswith(start) for tag in tags)

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._name == OUTSIDE:
            self._write_outside(text)
            return
        self._last = text
        if self._channel is None:
            self._out.append(UndeclaredText(self._name, self._index, text))
            return
        if self._channel.holds == "json":
            self._quotes.track(text)
        self._out.append(ChannelDelta(self._name, self._index, text))

    def _write_outside(self, text: str) -> None:
        if self._index < 0:
            text = text.lstrip()
            if not text:
                return
            self._index = self._next_index(OUTSIDE)
            self._violation(_TEXT_OUTSIDE, f"There is text outside every channel. {self._channels_rule()}")
        self._out.append(OutsideText(self._index, text))

    def _next_index(self, name: str) -> int:
        index = self._counts.get(name, 0)
        self._counts[name] = index + 1
        return index

    def _violation(self, code: str, message: str) -> None:
        self._out.append(ProtocolViolation(self._name, self._index, code, message))

    def _close_rule(self) -> str:
        name = self._name if self._channel is None else self._channel.taught_name
        return f"End every channel with its own close tag, here `</channel:{name}>`, before anything else."

    def _channels_rule(self) -> str:
        names = dict.fromkeys(channel.taught_name for channel in self._declared.values())
        return f"Write everything inside one of the channels {', '.join(f'`<channel:{name}>`' for name in names)}."


def coalesce(events: Iterable[ChannelEvent]) -> list[ChannelEvent]:
    """Join neighbouring pieces of one text; the result is the same for every way of cutting one reply."""
    merged: list[ChannelEvent] = []
    for _, run in itertools.groupby(events, key=lambda event: (type(event), event.channel, event.index)):
        first, *rest = run
        match first:
            case ChannelDelta() | OutsideText() | UndeclaredText():
                text = "".join([first.text, *(event.text for event in rest)])
                merged.append(msgspec.structs.replace(first, text=text))
            case ChannelOpened() | ChannelClosed() | ProtocolViolation():
                merged += [first, *rest]
            case _:
                assert_never(first)
    return merged


def trim_channel_text(text: str) -> str:
    """Return a channel's text without the one line break after its open tag and the one before its close tag."""
    text = text.removeprefix("\r").removeprefix("\n") if text.startswith("\r\n") else text.removeprefix("\n")
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")


_UNCLOSED = "protocol_violation.channel_unclosed"
_TEXT_OUTSIDE = "protocol_violation.text_outside_channels"
_UNDECLARED = "protocol_violation.undeclared_channel"

_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{MAX_NAME_CHARS - 1}}}")
_TAG = re.compile(rf"<(?P<slash>/?)(?:channel:(?P<name>{_NAME.pattern})|{'|'.join(THOUGHT_TAGS)})>")
_WORD_BEGINNINGS = sorted(
    {word[:n] for word in ("channel", *THOUGHT_TAGS) for n in range(1, len(word) + 1)}, reverse=True
)
_TAG_BEGINNING = re.compile(rf"</?(?:channel:(?:{_NAME.pattern})?|{'|'.join(_WORD_BEGINNINGS)})?")
_LONGEST_CLOSE_TAG = len(f"</channel:{THINKING}>")


class _JsonStringTracker:
    """Tracks whether JSON text is inside a string; a quote after an odd number of backslashes does not count."""

    __slots__ = ("_escaping", "inside")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.inside = False
        self._escaping = False

    def track(self, text: str) -> None:
        """Process more text: two backslashes cancel each other, a single one cancels the quote after it."""
        if self._escaping:
            text = "\\" + text
        if "\\" in text:
            text = text.replace("\\\\", "")
            self._escaping = text.endswith("\\")
            text = text.replace('\\"', "")
        if text.count('"') % 2:
            self.inside = not self.inside


def _index_by_name(declared: Sequence[Channel]) -> dict[str, Channel]:
    channels: dict[str, Channel] = {}
    for channel in declared:
        for name in (channel.name, *channel.aliases):
            if not _NAME.fullmatch(name):
                raise ValueError(f"a channel name is a word of at most {MAX_NAME_CHARS} letters, got {name[:80]!r}")
            if name in channels:
                raise ValueError(f"each channel name is declared once, got {name!r} twice")
            channels[name] = channel
    return channels
