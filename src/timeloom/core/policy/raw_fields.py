"""Assigns raw channels to the actions of a reply whose fields they hold."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.policy.convert_params import ToolForm, read_properties
from timeloom.core.stream.channels import (
    DECISION,
    RAW_FIELDS,
    ChannelClosed,
    ChannelDelta,
    ChannelEvent,
    ChannelOpened,
    OutsideText,
    ProtocolViolation,
    UndeclaredText,
    trim_channel_text,
)
from timeloom.core.stream.decision import CallToolDecision, Decision, DecisionError, fill_params
from timeloom.core.stream.quoted_text import CodeSpans, is_quoted, is_spoken_about
from timeloom.core.stream.raw_text import unescape_tags

PARAM_FIELDS: Final = ("content", "patch")
"""The raw channels that hold a parameter of a call."""

ANSWER: Final = "final_answer"
NOTES: Final = "notes"
CODE: Final = "code"

BARE_ANSWER: Final = '{"action":"complete"}'
"""The decision of a reply that consists of the final answer alone."""


class RawField(msgspec.Struct, frozen=True):
    """The text of a raw channel, and the index of the decision before it; None if there is none."""

    name: str
    text: str
    after: int | None = None
    is_cut: bool = False
    is_quoted: bool = False
    """Whether the prose before it quotes it or speaks about it."""


class UnusedChannelError(CodedError):
    """Error for a raw channel that belongs to no action that takes its text."""

    def __init__(self, why: str) -> None:
        super().__init__("protocol_violation.channel_unused", why)


class CutChannelError(CodedError):
    """Error for a raw channel that the reply ended in, so that a part of its text may be missing."""

    def __init__(self, name: str) -> None:
        super().__init__(
            "protocol_violation.channel_unclosed",
            f"the reply ended inside the channel `{name}`, and its text may be incomplete; write the reply again and "
            f"end the channel with `</channel:{name}>`",
        )


def collect_fields(events: Sequence[ChannelEvent]) -> list[RawField]:
    """Return the raw channels of a reply in order, from its joined events."""
    fields: list[RawField] = []
    texts: dict[tuple[str, int], str] = {}
    last: int | None = None
    prose, quotes = "", False
    for event in events:
        match event:
            case OutsideText(text=prose):
                continue
            case ChannelOpened(channel=name, index=index) if name == DECISION:
                last = index
            case ChannelDelta(channel=name, index=index, text=text) if name in RAW_FIELDS:
                texts[name, index] = text
            case ChannelOpened(channel=name) if name in RAW_FIELDS:
                quotes = is_shown_only(prose)
            case ChannelClosed(channel=name, index=index) if name in RAW_FIELDS:
                text = read_text(name, texts.get((name, index), ""))
                fields.append(RawField(name, text, last, event.is_cut, quotes))
            case _:
                pass
        if not isinstance(event, ProtocolViolation):
            prose = ""
    return fields


def is_shown_only(prose: str) -> bool:
    """Whether the prose directly before a channel quotes it or speaks about it, so that it may be an example."""
    end = len(prose)
    return bool(prose) and (is_quoted(prose, end) or end in CodeSpans(prose, ("xml",)) or is_spoken_about(prose, ""))


def read_text(name: str, text: str) -> str:
    """Return the text of a raw channel.

    A parameter keeps its escapes, which are undone when the call runs, as those of parameters in JSON are.
    """
    trimmed = trim_channel_text(text)
    return trimmed if name in PARAM_FIELDS else unescape_tags(trimmed)


def assign_fields(fields: Sequence[RawField], actions: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return the texts by decision and field; raise if a channel belongs to no decision or has two texts.

    A channel belongs to the decision right before it. Notes may also stand before their decision.
    """
    leads = next((field.after is None for field in fields if field.name == NOTES), False)
    following = dict(itertools.pairwise([-1, *actions]))
    known = frozenset(actions)
    assigned: dict[int, dict[str, str]] = {}
    for field in fields:
        if field.is_cut:
            raise CutChannelError(field.name)
        if field.is_quoted:
            raise UnusedChannelError(f"the channel `{field.name}` stands in a quote; write it at the start of a line")
        owner = field.after
        if field.name == NOTES and leads:
            owner = following.get(-1 if owner is None else owner, owner)
        if owner is None or owner not in known:
            raise UnusedChannelError(f"the channel `{field.name}` has no decision before it; write it after its action")
        add_text(assigned.setdefault(owner, {}), field.name, field.text)
    return assigned


def add_text(texts: dict[str, str], name: str, text: str) -> None:
    """Add the text of a channel; raise if another channel of that name has another text."""
    known = texts.get(name, "")
    if known and text and known != text:
        raise DecisionError(f"the channel `{name}` stands twice with different texts; write it once")
    texts[name] = known or text


def is_bare_answer(events: Sequence[ChannelEvent], fields: Sequence[RawField]) -> bool:
    """Whether the reply is a final answer without a decision and without other text around it.

    An answer that is a decision itself is none.
    """
    answers = [field.text for field in fields if field.name == ANSWER]
    if not answers or any(isinstance(event, OutsideText | UndeclaredText) for event in events):
        return False
    if any(isinstance(event, ChannelOpened) and event.channel == DECISION for event in events):
        return False
    return not any(is_decision_like(text) for text in answers)


def is_decision_like(text: str) -> bool:
    """Whether the text of an answer begins as a decision does, so that it may stand in the wrong channel."""
    return _DECISION_LIKE.match(text) is not None


def only_params(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts that fill parameters of a call."""
    return {name: text for name, text in texts.items() if name in PARAM_FIELDS}


def without_params(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts that fill fields of a decision."""
    return {name: text for name, text in texts.items() if name not in PARAM_FIELDS}


def fill_decision(decision: Decision, texts: Mapping[str, str], tools: Mapping[str, ToolForm]) -> Decision:
    """Return the decision with the parameters of its channels; raise if its action does not take one of them."""
    params = only_params(texts)
    if not isinstance(decision, CallToolDecision):
        if params:
            raise UnusedChannelError(f"the channel `{next(iter(params))}` belongs to a call, and the action calls none")
        return decision
    if ANSWER in texts:
        raise UnusedChannelError(
            f"the channel `{ANSWER}` stands beside a call of {decision.tool_id}; answer with the action `complete`"
        )
    tool = tools.get(decision.tool_id)
    for name in params:
        # An unknown tool is refused when it is called.
        if tool is not None and not takes_text(tool, name):
            raise UnusedChannelError(f"{decision.tool_id} takes no text `{name}`; leave the channel `{name}` out")
    return fill_params(decision, params) if params else decision


def takes_text(tool: ToolForm, name: str) -> bool:
    """Whether the tool has a parameter of that name that may be a text."""
    schema = read_properties(tool.params_schema).get(name)
    if not isinstance(schema, dict):
        return schema is True
    fields = cast(dict[str, object], schema)
    options = [fields, *cast(list[dict[str, object]], fields.get("anyOf") or fields.get("oneOf") or [])]
    kinds = [one["type"] for one in options if "type" in one]
    return not kinds or any(kind == "string" or (isinstance(kind, list) and "string" in kind) for kind in kinds)


_DECISION_LIKE: Final = re.compile(
    r"\s*(?:```\w{0,16}\s*)?[\[{][\s\[{]*[\"'“]?(?:action|notes|tool_calls?|tool_id|final_answer)[\"'”]?\s*:",
    re.IGNORECASE,
)
