"""Reads the declared channels of a reply: their texts, bounded and checked, and the reply without them."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from timeloom.core.policy.read_reply import ReplyIssue
from timeloom.core.render.v2.fence import unfence_words
from timeloom.core.stream.declared import ChannelInstance, DeclaredChannel, lift_channels

MAX_CHANNEL_CHARS: Final = 200_000
"""Characters kept of one instance. A larger limit lets one reply fill every later prompt and page."""

MAX_INSTANCES: Final = 32
"""Instances kept of one reply. Each becomes a block with a sync of its own path, and a frame on the page."""


class WrittenChannel(msgspec.Struct, frozen=True):
    """The text that a reply wrote on a declared channel; `is_cut` if a part of it is missing."""

    channel: DeclaredChannel
    text: str
    is_cut: bool = False


class ReadChannels(msgspec.Struct, frozen=True):
    """A reply without its declared channels, what it wrote on them, and remarks for the model."""

    rest: str
    written: tuple[WrittenChannel, ...] = ()
    remarks: tuple[ReplyIssue, ...] = ()


def read_channels(text: str, declared: Sequence[DeclaredChannel], edition: int) -> ReadChannels:
    """Return the declared channels of a complete reply, and the reply without them."""
    lifted = lift_channels(text, declared, edition)
    channels = {one.name: one for one in declared}
    written = tuple(_bound(channels[one.name], one) for one in lifted.instances[:MAX_INSTANCES])
    violations = [ReplyIssue(one.code, one.message) for one in lifted.violations]
    return ReadChannels(lifted.rest, written, (*violations, *_find_issues(lifted.instances, written)))


def _bound(channel: DeclaredChannel, instance: ChannelInstance) -> WrittenChannel:
    # The model may have copied the escapes of its earlier channels from the prompt.
    text = unfence_words(instance.text)
    is_long = len(text) > MAX_CHANNEL_CHARS
    return WrittenChannel(channel, text[:MAX_CHANNEL_CHARS], instance.is_cut or is_long)


def _find_issues(instances: Sequence[ChannelInstance], written: Sequence[WrittenChannel]) -> Iterator[ReplyIssue]:
    if len(instances) > len(written):
        text = f"the reply has {len(instances)} instances of declared channels; only the first {MAX_INSTANCES} are kept"
        yield ReplyIssue("channel_too_long", text)
    for one in written:
        name = one.channel.name
        if len(one.text) == MAX_CHANNEL_CHARS and one.is_cut:
            text = f"only the first {MAX_CHANNEL_CHARS} characters of the channel {name} are kept; write less"
            yield ReplyIssue("channel_too_long", text)
        elif one.channel.is_json and (fault := _json_fault(one.text)):
            text = f"the channel {name} must hold one JSON value; its text was kept and is not JSON: {fault}"
            yield ReplyIssue("channel_not_json", text)


def _json_fault(text: str) -> str:
    """Return why the text is not JSON; empty if it is."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    return ""
