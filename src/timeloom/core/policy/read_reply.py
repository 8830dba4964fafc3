"""Parses a model's reply into thinking, decisions, code and a summary, with the problems found in it."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from timeloom.core.blocks.tool_traits import NO_CUSTOM_TRAITS, CustomTraits, resolve_traits
from timeloom.core.codes import CodedError
from timeloom.core.policy.convert_params import NO_TOOLS, ToolForm
from timeloom.core.policy.raw_fields import (
    BARE_ANSWER,
    CODE,
    CutChannelError,
    RawField,
    assign_fields,
    collect_fields,
    fill_decision,
    is_bare_answer,
    only_params,
    without_params,
)
from timeloom.core.stream.channels import (
    DECISION,
    THOUGHT_TAGS,
    ChannelClosed,
    ChannelDelta,
    ChannelEvent,
    ChannelParser,
    OutsideText,
    ProtocolViolation,
    coalesce,
    declared_channels,
    trim_channel_text,
)
from timeloom.core.stream.decision import (
    FIRST_COMPACT_EDITION,
    NO_TEXTS,
    CallToolDecision,
    Decision,
    parse_decision,
)


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
    repairs: tuple[str, ...] = ()
    """Names of the repairs without which the reply could not be read."""
    prose: str = ""
    """Text outside all channels."""
    filled: tuple[tuple[int, Mapping[str, str]], ...] = ()
    """The parameters that stand in raw channels, by the position of their decision."""


def read_reply(
    text: str,
    custom: CustomTraits = NO_CUSTOM_TRAITS,
    *,
    edition: int = 1,
    tools: Mapping[str, ToolForm] = NO_TOOLS,
) -> ParsedReply:
    """Return the parts of a complete reply.

    `custom` holds the traits of the conversation's tools that differ from the built-in ones. From edition 2 on, raw
    channels fill fields of the decisions; `tools` shows which tools take them.
    """
    parser = ChannelParser(declared_channels(edition))
    text = _rename_thought_tokens(text)
    events = coalesce([*parser.feed(text), *parser.close()])
    thought, events = _split_thoughts(events)
    texts: dict[tuple[str, int], str] = {}
    for event in events:
        if isinstance(event, ChannelDelta):
            texts[event.channel, event.index] = event.text
    cut = {(event.channel, event.index) for event in events if isinstance(event, ChannelClosed) and event.is_cut}
    remarks = tuple(ReplyIssue(event.code, event.message) for event in events if isinstance(event, ProtocolViolation))
    fields = collect_fields(events)
    if is_bare_answer(events, fields):
        texts[DECISION, 0] = BARE_ANSWER
        fields = [msgspec.structs.replace(field, after=0) for field in fields]
    if edition > 1 and any(channel == CODE for channel, _ in cut):
        error = CutChannelError(CODE)
        read = _Decisions(faults=(ReplyIssue(error.code, str(error)),))
    elif any(channel == DECISION for channel, _ in texts):
        read = _parse_decisions(texts, cut, _RawChannels(fields, tools), compact=edition >= FIRST_COMPACT_EDITION)
    else:
        read = _Decisions(faults=(_decision_missing(edition),))
    code = _join_channel(texts, CODE)
    thinking = _join_channel(texts, "thinking") or ""
    return ParsedReply(
        thinking="\n\n".join(part for part in (thought, thinking) if part),
        decisions=read.decisions,
        code=code,
        summary=_join_channel(texts, "summary") or "",
        faults=read.faults or _check_code(read.decisions, code, custom),
        remarks=remarks,
        prose="\n\n".join(event.text.strip() for event in events if isinstance(event, OutsideText)),
        filled=read.filled,
    )


def _rename_thought_tokens(text: str) -> str:
    """Return a reply that begins with the thought tokens of another format with `<think>` in their place."""
    for opening, closing in _THOUGHT_TOKENS:
        if text.lstrip().startswith(opening):
            return text.replace(opening, "<think>", 1).replace(closing, "</think>", 1)
    return text


_THOUGHT_TOKENS: Final = (
    ("[THINK]", "[/THINK]"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
)


def plain_answer(reply: ParsedReply) -> str:
    """Return the text of a reply that is plainly an answer to the user, without any channel; else an empty string."""
    codes = {issue.code for issue in reply.faults}
    strays = {issue.code for issue in reply.remarks} - {"protocol_violation.text_outside_channels"}
    if codes != {"protocol_violation.decision_missing"} or strays or reply.code is not None:
        return ""
    return "" if _PROTOCOL_TEXT.search(reply.prose) else reply.prose


_PROTOCOL_TEXT: Final = re.compile(
    r"<\s*/?\s*(?:channel|tool_call|function|invoke|parameter)\b|[\"'](?:action|tool_calls?|tool_id|final_answer)[\"']\s*:",
    re.IGNORECASE,
)


def find_programs(decisions: Sequence[Decision], custom: CustomTraits) -> list[CallToolDecision]:
    """Return the calls that run the program of the code channel."""
    calls = [one for one in decisions if isinstance(one, CallToolDecision)]
    return [call for call in calls if resolve_traits(call.tool_id, custom.get(call.tool_id)).runs_code]


def _split_thoughts(events: list[ChannelEvent]) -> tuple[str, list[ChannelEvent]]:
    """Return the thoughts before a close tag without an open tag, and the events after it.

    Some models begin their replies inside thoughts. Everything before the close tag was thought, also a decision.
    """
    for at in range(len(events) - 1, -1, -1):
        event = events[at]
        if isinstance(event, OutsideText) and (closed := list(_THOUGHTS_END.finditer(event.text))):
            before = [one.text for one in events[:at]] + [event.text[: closed[-1].start()]]
            rest = event.text[closed[-1].end() :].lstrip()
            # The remark about the text outside goes with it.
            after = events[at + 1 :]
            return "".join(before).strip(), [OutsideText(0, rest), *after] if rest else after
    return "", events


_THOUGHTS_END: Final = re.compile(rf"</(?:{'|'.join(THOUGHT_TAGS)})>")


class _RawChannels(NamedTuple):
    fields: Sequence[RawField]
    tools: Mapping[str, ToolForm]


class _Decisions(NamedTuple):
    decisions: tuple[Decision, ...] = ()
    faults: tuple[ReplyIssue, ...] = ()
    filled: tuple[tuple[int, Mapping[str, str]], ...] = ()


def _parse_decisions(
    texts: dict[tuple[str, int], str], cut: set[tuple[str, int]], raw: _RawChannels, *, compact: bool
) -> _Decisions:
    written = [(key, text) for key, text in texts.items() if key[0] == DECISION]
    decisions: list[Decision] = []
    faults: list[ReplyIssue] = []
    filled: list[tuple[int, Mapping[str, str]]] = []
    try:
        given = assign_fields(raw.fields, [index for (_, index), _ in written])
    except CodedError as error:
        return _Decisions(faults=(ReplyIssue(error.code, str(error)),))
    for key, text in written:
        given_here = given.get(key[1], NO_TEXTS)
        try:
            parsed = parse_decision(text, without_params(given_here), compact=compact)
            decision = fill_decision(parsed, given_here, raw.tools)
        except CodedError as error:
            ending = " The reply ended before the decision did." if key in cut else ""
            faults.append(ReplyIssue(error.code, f"{error}{ending}"))
        else:
            if params := only_params(given_here):
                filled.append((len(decisions), params))
            decisions.append(decision)
    return _Decisions(tuple(decisions), tuple(faults), tuple(filled))


def _decision_missing(edition: int) -> ReplyIssue:
    name = next(one.taught_name for one in declared_channels(edition) if one.name == DECISION)
    text = f"the reply has no decision; write one JSON object in the channel {name}, between its two tags"
    return ReplyIssue("protocol_violation.decision_missing", text)


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
