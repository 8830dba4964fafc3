"""Parses a reply of native tool calling into the same parts as a reply in channels.

A tool call becomes the decision, text without a call the answer, and text beside a call its notes. Text is never read
as channels: a reply that begins with a channel tag and calls nothing is refused, so that no text can become a call.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

import msgspec

from timeloom.core.blocks.tool_traits import NO_CUSTOM_TRAITS, CustomTraits, resolve_traits
from timeloom.core.policy.convert_params import Fields
from timeloom.core.policy.read_reply import ParsedReply, ReplyIssue, find_programs
from timeloom.core.policy.repair_reply import RepairContext, RepairedReply, repair_calls
from timeloom.core.stream.channels import THINKING, THOUGHT_TAGS, ChannelDelta, ChannelParser, OutsideText, coalesce
from timeloom.core.stream.decision import (
    MAX_DECISION_CHARS,
    CallToolDecision,
    CompleteDecision,
    Decision,
    ExitDecision,
)
from timeloom.core.stream.json_fields import FieldScanner
from timeloom.core.stream.lenient_json import LenientJsonError, read_lenient_json
from timeloom.core.stream.native_reply import CALL_TOOL, CODE_PARAM, COMPLETE, NativeCall, NativeReply
from timeloom.core.stream.surrogates import replace_lone_escapes


def read_native_reply(
    reply: NativeReply, custom: CustomTraits = NO_CUSTOM_TRAITS, *, is_cut: bool = False
) -> ParsedReply:
    """Return the parts of a complete reply, without any repair; `is_cut` says that it reached its length limit."""
    return _Reader(custom, _read_strictly).read(reply, is_cut=is_cut)


def read_or_repair_native(
    reply: NativeReply, context: RepairContext, *, is_cut: bool = False
) -> tuple[ParsedReply, RepairedReply | None]:
    """Return the parts of a reply, and its repair if it needed one.

    The repaired reply is written in channels, as that of every reply, so that later readers need no repair rule.
    """
    parsed = read_native_reply(reply, context.custom, is_cut=is_cut)
    repairs: set[str] = set()
    candidate = parsed
    if any(issue.code == _MALFORMED for issue in parsed.faults):
        lenient = _Reader(context.custom, lambda text: _read_leniently(text, repairs, may_close=not is_cut))
        candidate = lenient.read(reply, is_cut=is_cut)
    # A program may still stand in a parameter with another name.
    if not candidate.decisions or {issue.code for issue in candidate.faults} - {_CODE_MISSING}:
        return parsed, None
    repaired = repair_calls(candidate, context, repairs)
    if repaired is None:
        return parsed, None
    return msgspec.structs.replace(repaired[0], thinking=parsed.thinking), repaired[1]


class _ArgumentsError(ValueError):
    """The arguments are not an object of the expected form; the message says what is wrong."""


class _Reader:
    """Reads the calls of one reply; `read_object` decodes the arguments of each."""

    def __init__(self, custom: CustomTraits, read_object: Callable[[str], Fields]) -> None:
        self._custom = custom
        self._read_object = read_object
        self._code: str | None = None
        self._summary = ""

    def read(self, reply: NativeReply, *, is_cut: bool) -> ParsedReply:
        """Return the parts of the reply."""
        thinking, text = _split_thought(reply.text)
        if not reply.calls:
            return _read_answer(thinking, text, is_cut=is_cut)
        if _CHANNEL_TAG.search(text):
            thought, text = _split_channels(text)
            thinking = "\n\n".join(part for part in (thinking, thought) if part)
        decisions: list[Decision] = []
        faults: list[ReplyIssue] = []
        for call in reply.calls:
            try:
                decisions.append(self._read_call(call, "" if decisions or faults else text.strip()))
            except _ArgumentsError as error:
                ending = " The reply ended before the arguments did." if is_cut and call is reply.calls[-1] else ""
                faults.append(ReplyIssue(_MALFORMED, _ARGUMENTS_TEXT.format(call.name[:80], error) + ending))
        if not faults and self._code is None and find_programs(decisions, self._custom):
            faults.append(ReplyIssue(_CODE_MISSING, _CODE_TEXT))
        return ParsedReply(
            thinking=thinking,
            decisions=tuple(decisions),
            code=self._code,
            summary=self._summary,
            faults=tuple(faults),
        )

    def _read_call(self, call: NativeCall, notes: str) -> Decision:
        fields = self._read_object(call.arguments)
        if call.tool_id:
            return self._make_call(call.tool_id, fields, notes)
        if call.name == COMPLETE:
            return self._make_answer(fields, notes)
        if call.name == CALL_TOOL:
            tool_id = _text(fields, "tool_id")
            if not tool_id.strip():
                raise _ArgumentsError("`tool_id` is missing; name the tool there")
            return self._make_call(tool_id, self._read_params(fields), notes)
        return self._make_call(call.name or "(no name)", fields, notes)

    def _read_params(self, fields: Fields) -> Fields:
        raw = bytes(fields.get("params", msgspec.Raw(b"{}")))
        if raw.startswith(b'"'):
            return self._read_object(msgspec.json.decode(raw, type=str))
        if not raw.startswith(b"{"):
            raise _ArgumentsError("`params` is not an object")
        return _OBJECT.decode(raw)

    def _make_call(self, tool_id: str, fields: Fields, notes: str) -> CallToolDecision:
        if CODE_PARAM in fields and resolve_traits(tool_id, self._custom.get(tool_id)).runs_code:
            code = _text(fields, CODE_PARAM)
            # A second program is refused with its round; the first one is enough to say so.
            self._code = code if self._code is None else self._code
            fields = {name: raw for name, raw in fields.items() if name != CODE_PARAM}
        return CallToolDecision(tool_id, msgspec.json.encode(fields).decode(), notes)

    def _make_answer(self, fields: Fields, notes: str) -> Decision:
        answer, outcome = _text(fields, "final_answer"), _text(fields, "outcome")
        followups = _texts(fields, "suggested_followups")
        self._summary = _text(fields, "summary").strip() or self._summary
        ignored = tuple(name for name in fields if name not in _ANSWER_FIELDS)
        if not answer.strip():
            # The text beside the call is the answer that the call lacks.
            answer, notes = notes, ""
        if outcome == "exit":
            return ExitDecision(answer, followups, notes, ignored)
        if not answer.strip():
            raise _ArgumentsError("`final_answer` is empty; write the answer there")
        return CompleteDecision(answer, followups, notes, ignored)


def _read_answer(thinking: str, text: str, *, is_cut: bool) -> ParsedReply:
    """Return the parts of a reply without calls: its text is the answer."""
    fault = ""
    if not text.strip():
        fault = "the reply is empty; call a function, or write the answer as text"
    elif _CHANNEL_TAG.match(text.lstrip()):
        fault = "the reply is written in channels; call a function instead, or write the answer as plain text"
    elif is_cut:
        fault = "the reply reached its length limit before the answer was complete; write a shorter one"
    if fault:
        issue = ReplyIssue("protocol_violation.decision_missing", fault)
        return ParsedReply(thinking=thinking, faults=(issue,), prose=text.strip())
    return ParsedReply(thinking=thinking, decisions=(CompleteDecision(text.strip()),))


def _split_thought(text: str) -> tuple[str, str]:
    """Return the thought in tags with which some services begin the text, and the text after it."""
    text = text.lstrip()
    if found := _THOUGHT.match(text):
        end = text.find(f"</{found[1]}>", found.end())
        if end >= 0:
            return text[found.end() : end].strip(), text[end + len(found[1]) + 3 :].lstrip()
    return "", text


def _split_channels(text: str) -> tuple[str, str]:
    """Return the thinking channel and the text outside all channels; nothing else in channels counts."""
    parser = ChannelParser()
    events = coalesce([*parser.feed(text), *parser.close()])
    thinking = [one.text.strip() for one in events if isinstance(one, ChannelDelta) and one.channel == THINKING]
    outside = [one.text.strip() for one in events if isinstance(one, OutsideText)]
    return "\n\n".join(thinking), "\n\n".join(outside)


def _read_strictly(text: str) -> Fields:
    text = text.strip() or "{}"
    if len(text) > MAX_DECISION_CHARS:
        raise _ArgumentsError(f"they have {len(text)} characters, more than {MAX_DECISION_CHARS}")
    scanner = FieldScanner(())
    scanner.feed(text)
    if scanner.problem is not None:
        raise _ArgumentsError(f"at character {scanner.problem.at + 1}, {scanner.problem.what}")
    if scanner.end is None:
        raise _ArgumentsError("the text ends before the object is closed")
    if scanner.end < len(text):
        raise _ArgumentsError(f"at character {scanner.end + 1}, more text follows the object")
    return _decode(text)


def _read_leniently(text: str, repairs: set[str], *, may_close: bool) -> Fields:
    """Return the object of a text with exactly one reading, and add the names of the repairs to `repairs`."""
    try:
        return _read_strictly(text)
    except _ArgumentsError as error:
        strict = error
    try:
        read = read_lenient_json(text, may_close=may_close, is_whole=may_close)
        rest = text[read.end :]
        if read.text.startswith('"') and not rest.strip():
            inner = _read_leniently(msgspec.json.decode(read.text, type=str), repairs, may_close=may_close)
            repairs.update(("params_as_text", *read.repairs))
            return inner
    except LenientJsonError:
        raise strict from None
    if not read.text.startswith("{") or not _EXTRA_BRACES.fullmatch(rest):
        raise strict
    repairs.update((*read.repairs, *(("extra_brace",) if rest.strip() else ())))
    return _decode(read.text)


def _decode(text: str) -> Fields:
    data = replace_lone_escapes(text).encode()
    try:
        msgspec.json.decode(data)  # decodes every value; the next line keeps them raw
        return _OBJECT.decode(data)
    except msgspec.DecodeError as error:  # the grammar is checked already, so this is a number out of range
        raise _ArgumentsError(str(error)) from None


def _text(fields: Mapping[str, msgspec.Raw], name: str) -> str:
    value = _value(fields, name)
    if value is not None and not isinstance(value, str):
        raise _ArgumentsError(f"`{name}` is not text")
    return value or ""


def _texts(fields: Mapping[str, msgspec.Raw], name: str) -> tuple[str, ...]:
    value = _value(fields, name)
    items = cast("Sequence[object]", value) if isinstance(value, list) else [value] if value is not None else []
    texts = [one for one in items if isinstance(one, str)]
    if len(texts) != len(items):
        raise _ArgumentsError(f"`{name}` is not a list of texts")
    return tuple(one for one in texts if one.strip())


def _value(fields: Mapping[str, msgspec.Raw], name: str) -> object:
    return msgspec.json.decode(fields[name]) if name in fields else None


_MALFORMED: Final = "protocol_violation.decision_malformed"
_CODE_MISSING: Final = "protocol_violation.code_missing"
_ARGUMENTS_TEXT: Final = "The arguments of {} are malformed: {}. Expected one JSON object that fits its schema."
_CODE_TEXT: Final = f"the call runs code and has no parameter `{CODE_PARAM}`; write the program there"
_ANSWER_FIELDS: Final = ("final_answer", "suggested_followups", "summary", "outcome")
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CHANNEL_TAG: Final = re.compile(r"<channel:[A-Za-z][A-Za-z0-9_]{0,63}>")
_THOUGHT: Final = re.compile(rf"<({'|'.join(THOUGHT_TAGS)})>")
_EXTRA_BRACES: Final = re.compile(r"[\s}\]]*")
