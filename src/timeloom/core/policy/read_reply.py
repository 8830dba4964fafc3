"""Parses a model's reply into thinking, decisions, code and a summary, with the problems found in it."""

from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.core.blocks.tool_traits import NO_CUSTOM_TRAITS, CustomTraits, resolve_traits
from timeloom.core.stream.channels import (
    DECISION,
    ChannelClosed,
    ChannelDelta,
    ChannelParser,
    ProtocolViolation,
    coalesce,
    trim_channel_text,
)
from timeloom.core.stream.decision import CallToolDecision, Decision, DecisionError, parse_decision


class ReplyIssue(msgspec.Struct, frozen=True):
    """A problem in a reply, reported to the model: a registered code and a sentence."""

    code: str
    text: str


class ParsedReply(msgspec.Struct, frozen=True):
    """The parts of a reply. A reply with `faults` cannot be executed; `remarks` are informational."""

    thinking: str = ""
    decisions: tuple[Decision, ...] = ()
    code: str | None = None
    summary: str = ""
    faults: tuple[ReplyIssue, ...] = ()
    remarks: tuple[ReplyIssue, ...] = ()


def read_reply(text: str, custom: CustomTraits = NO_CUSTOM_TRAITS) -> ParsedReply:
    """Return the parts of a complete reply.

    `custom` holds the traits of the conversation's tools that differ from the built-in ones.
    """
    parser = ChannelParser()
    events = coalesce([*parser.feed(text), *parser.close()])
    texts: dict[tuple[str, int], str] = {}
    for event in events:
        if isinstance(event, ChannelDelta):
            texts[event.channel, event.index] = event.text
    cut = {(event.channel, event.index) for event in events if isinstance(event, ChannelClosed) and event.is_cut}
    remarks = tuple(ReplyIssue(event.code, event.message) for event in events if isinstance(event, ProtocolViolation))
    decisions, faults = _parse_decisions(texts, cut)
    code = _join_channel(texts, "code")
    return ParsedReply(
        thinking=_join_channel(texts, "thinking") or "",
        decisions=decisions,
        code=code,
        summary=_join_channel(texts, "summary") or "",
        faults=(*faults, *(_check_code(decisions, code, custom) if not faults else ())),
        remarks=remarks,
    )


def find_programs(decisions: Sequence[Decision], custom: CustomTraits) -> list[CallToolDecision]:
    """Return the calls that run the program of the code channel."""
    calls = [one for one in decisions if isinstance(one, CallToolDecision)]
    return [call for call in calls if resolve_traits(call.tool_id, custom.get(call.tool_id)).runs_code]


def _parse_decisions(
    texts: dict[tuple[str, int], str], cut: set[tuple[str, int]]
) -> tuple[tuple[Decision, ...], tuple[ReplyIssue, ...]]:
    decisions: list[Decision] = []
    faults: list[ReplyIssue] = []
    written = [(key, text) for key, text in texts.items() if key[0] == DECISION]
    for key, text in written:
        try:
            decisions.append(parse_decision(text))
        except DecisionError as error:
            ending = " The reply ended before the decision did." if key in cut else ""
            faults.append(ReplyIssue(error.code, f"{error}{ending}"))
    if not written:
        faults.append(ReplyIssue("protocol_violation.decision_missing", _DECISION_MISSING))
    return tuple(decisions), tuple(faults)


_DECISION_MISSING: Final = (
    f"the reply has no decision; write one JSON object in the channel {DECISION}, between its two tags"
)


def _check_code(decisions: tuple[Decision, ...], code: str | None, custom: CustomTraits) -> tuple[ReplyIssue, ...]:
    runs = find_programs(decisions, custom)
    if runs and code is None:
        return (
            ReplyIssue(
                "protocol_violation.code_missing", "the call runs code, and there is no code channel; write one"
            ),
        )
    if code is not None and not runs:
        return (
            ReplyIssue(
                "protocol_violation.code_without_exec",
                "code stands in the code channel, and no call runs it; leave it out",
            ),
        )
    return ()


def _join_channel(texts: dict[tuple[str, int], str], channel: str) -> str | None:
    parts = [trim_channel_text(text) for (name, _), text in texts.items() if name == channel]
    return "\n\n".join(parts) if parts else None
