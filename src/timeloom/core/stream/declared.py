"""Channels that an agent declares beside the built-in ones, and their instances in a reply."""

import re
from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.stream.channels import (
    DECLARED,
    RAW_FIELDS,
    THOUGHT_TAGS,
    Channel,
    ChannelClosed,
    ChannelDelta,
    ChannelEvent,
    ChannelOpened,
    ChannelParser,
    OutsideText,
    ProtocolViolation,
    UndeclaredText,
    coalesce,
    declared_channels,
    trim_channel_text,
)
from timeloom.core.stream.raw_text import unescape_tags
from timeloom.core.stream.reply_regions import kind_of_channel

MAX_DECLARED: Final = 16
"""Most channels of an agent. Each takes a line of the system text and a part of every turn's header."""

MAX_PURPOSE_CHARS: Final = 500
"""Longest purpose; a longer text belongs into the instructions."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_WORD: Final = r"[A-Za-z0-9][A-Za-z0-9!#$&^_+.-]{0,63}"
_MIME: Final = re.compile(rf"{_WORD}/{_WORD}")
_WIDGET: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

_SHOWN_NAMES: Final = frozenset(
    ("answer", "timeline_text", "canvas", "internal", "external", "stdout", "stderr", "output", "tool", "progress")
)
"""Names under which clients and tools know other text."""

_RESERVED: Final = frozenset(
    (
        *(name for one in DECLARED for name in (one.name, *one.aliases)),
        *RAW_FIELDS,
        *(tag.lower() for tag in THOUGHT_TAGS),
        *_SHOWN_NAMES,
    )
)


class DeclaredChannel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A channel that an agent declares: its name, the type of its content, its purpose and its widget.

    `purpose` says when and what the model writes on it. `widget` names the widget that shows it; empty shows the text.
    """

    name: str
    mime: str
    purpose: str = ""
    widget: str = ""

    def __post_init__(self) -> None:
        _check(
            _NAME.fullmatch(self.name),
            f"a channel name has 1 to 32 characters of a-z, 0-9, _ and -, and begins with a letter; got {self.name!r}",
        )
        is_taken = self.name in _RESERVED or kind_of_channel(self.name) != "other"
        _check(not is_taken, f"{self.name!r} is the name of a built-in channel or too similar to one; choose another")
        _check(
            _MIME.fullmatch(self.mime), f"the channel {self.name} needs a type like text/plain, got {self.mime[:80]!r}"
        )
        length = len(self.purpose)
        _check(
            length <= MAX_PURPOSE_CHARS,
            f"the purpose of {self.name} has {length} characters; shorten it to {MAX_PURPOSE_CHARS}",
        )
        _check(
            not self.widget or _WIDGET.fullmatch(self.widget),
            f"the widget of {self.name} has a name of 1 to 64 letters, digits, _ and -, got {self.widget[:80]!r}",
        )

    @property
    def is_json(self) -> bool:
        """Whether its content is JSON."""
        kind = self.mime.lower()
        return kind == "application/json" or kind.endswith("+json")


NO_CHANNELS: Final[tuple[DeclaredChannel, ...]] = ()


class ChannelInstance(msgspec.Struct, frozen=True):
    """The text of one declared channel in a reply; `index` numbers the instances of the channel from 0."""

    name: str
    index: int
    text: str
    is_cut: bool = False
    """Whether the reply ended before the close tag."""


class LiftedReply(msgspec.Struct, frozen=True):
    """A reply without its declared channels, the instances of these channels, and what was wrong with their tags."""

    rest: str
    instances: tuple[ChannelInstance, ...] = ()
    violations: tuple[ProtocolViolation, ...] = ()


def check_declared(channels: Sequence[DeclaredChannel]) -> tuple[DeclaredChannel, ...]:
    """Return the channels; raise if there are too many, or two have one name."""
    _check(len(channels) <= MAX_DECLARED, f"an agent has at most {MAX_DECLARED} channels, got {len(channels)}")
    names = [one.name for one in channels]
    _check(len({*names}) == len(names), f"each channel is declared once, got {', '.join(names)}")
    return tuple(channels)


def parsed_channels(edition: int, declared: Sequence[DeclaredChannel] = NO_CHANNELS) -> tuple[Channel, ...]:
    """Return all channels that the model may use in that edition."""
    return (*declared_channels(edition), *(Channel(one.name, "raw") for one in declared))


def lift_channels(text: str, declared: Sequence[DeclaredChannel], edition: int) -> LiftedReply:
    """Take the declared channels out of a complete reply.

    The rest is read and repaired like a reply without them. If a reply has none, the rest is the reply itself.
    """
    if not any(f"<channel:{one.name}>" in text for one in declared):
        return LiftedReply(text)
    parser = ChannelParser(parsed_channels(edition, declared))
    events = coalesce([*parser.feed(text), *parser.close()])
    names = {one.name for one in declared}
    instances = _find_instances([event for event in events if event.channel in names])
    if not instances:
        return LiftedReply(text)
    rest = "".join(_write_event(event) for event in events if event.channel not in names)
    # Violations outside the declared channels are found again in the rest, unless a declared channel caused them.
    found = (
        event
        for at, event in enumerate(events)
        if isinstance(event, ProtocolViolation) and (event.channel in names or _was_interrupted(events[at + 1 :]))
    )
    return LiftedReply(rest, instances, tuple(found))


def _find_instances(events: Sequence[ChannelEvent]) -> tuple[ChannelInstance, ...]:
    texts: dict[tuple[str, int], str] = {}
    cut: set[tuple[str, int]] = set()
    for event in events:
        match event:
            case ChannelOpened():
                texts[event.channel, event.index] = ""
            case ChannelDelta(text=text):
                texts[event.channel, event.index] = text
            case ChannelClosed() if event.is_cut:
                cut.add((event.channel, event.index))
            case _:
                pass
    return tuple(
        ChannelInstance(name, index, unescape_tags(trim_channel_text(text)), (name, index) in cut)
        for (name, index), text in texts.items()
    )


def _write_event(event: ChannelEvent) -> str:
    """Return the text of the event in a reply, with the tags as they are taught."""
    match event:
        case ChannelOpened():
            return f"\n<channel:{event.channel}>"
        case ChannelClosed(by="end_of_stream") | ProtocolViolation():
            return ""
        case ChannelClosed():
            return f"</channel:{event.channel}>\n"
        case ChannelDelta() | OutsideText() | UndeclaredText():
            return event.text
        case _:
            assert_never(event)


def _was_interrupted(following: Sequence[ChannelEvent]) -> bool:
    """Whether the violation before these events says that an open tag ended a channel."""
    return bool(following) and isinstance(following[0], ChannelClosed) and following[0].by == "open_tag"


def _check(holds: object, message: str) -> None:
    if not holds:
        raise CodedError("channel_malformed", message)
