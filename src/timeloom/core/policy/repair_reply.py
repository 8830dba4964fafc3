"""Repairs a model's reply that has exactly one reading, so that a slip does not cost another request.

A repair never invents a call, a parameter or an effect. The repaired reply is a well-formed reply that the outcome of
the model call records. Readers after a restart read that text, so they depend on no repair rule.
"""

import html
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from timeloom.core.blocks.tool_traits import NO_CUSTOM_TRAITS, CustomTraits, resolve_traits
from timeloom.core.policy.convert_params import Fields, ToolForm, convert_params
from timeloom.core.policy.find_candidates import Candidate, find_candidates
from timeloom.core.policy.normalise_raw import normalise_raw_channels
from timeloom.core.policy.raw_fields import (
    ANSWER,
    BARE_ANSWER,
    UnusedChannelError,
    add_text,
    fill_decision,
    is_decision_like,
    is_shown_only,
    read_text,
    without_params,
)
from timeloom.core.policy.read_reply import ParsedReply, read_reply
from timeloom.core.policy.shape_decision import DecisionShaper, ToolNames, encode, skeleton
from timeloom.core.policy.vendor_calls import AmbiguousReplyError
from timeloom.core.render.foreign_text.fence import unfence
from timeloom.core.stream.channels import DECISION, trim_channel_text
from timeloom.core.stream.decision import (
    NO_TEXTS,
    CallToolDecision,
    CompleteDecision,
    Decision,
    DecisionError,
    parse_decision,
)
from timeloom.core.stream.lenient_json import MECHANICAL_REPAIRS, LenientJsonError, read_lenient_json
from timeloom.core.stream.quoted_text import FENCE_LINE
from timeloom.core.stream.reply_regions import RAW_KINDS, Region, split_regions


class RepairContext(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a conversation, and whether a reply may call several of them."""

    by_name: Mapping[str, ToolForm] = {}
    """The tools by their ids and other names."""
    custom: CustomTraits = NO_CUSTOM_TRAITS
    allows_several: bool = False
    """Whether a round may have several actions."""
    edition: int = 1
    """The edition of what the model reads and writes."""

    def read(self, text: str) -> ParsedReply:
        """Return the parts of a complete reply."""
        return read_reply(text, self.custom, edition=self.edition, tools=self.by_name)


class RepairedReply(msgspec.Struct, frozen=True):
    """A repaired reply: its well-formed text, the names of the repairs, and the original text of the decision.

    `written` is empty if the reply had a well-formed decision, of which only the call was repaired.
    """

    text: str
    repairs: tuple[str, ...]
    written: str = ""
    thinking: str = ""
    program: str = ""
    """The program, if it did not stand in the code channel."""
    params: tuple[str, ...] = ()
    """The parameters whose raw channels had a slip in their tags or their order."""


def is_mechanical(repairs: Sequence[str]) -> bool:
    """Whether the repairs changed only the spelling of the decision's JSON."""
    return MECHANICAL_REPAIRS.issuperset(repairs)


def repair_reply(text: str, context: RepairContext, *, is_cut: bool = False) -> RepairedReply | None:
    """Return the repaired reply; None if the reply needs no repair or has no unique reading.

    `is_cut` says that the reply reached its length limit.
    """
    return _repair_parsed(context.read(text), text, context, is_cut=is_cut)


def _repair_parsed(parsed: ParsedReply, text: str, context: RepairContext, *, is_cut: bool) -> RepairedReply | None:
    repair = _Repair(context)
    try:
        if context.edition > 1 and (parsed.faults or parsed.remarks):
            text = repair.repair_channels(text, is_cut=is_cut)
            parsed = context.read(text)
        codes = {issue.code for issue in parsed.faults}
        if not codes.isdisjoint(_CHANNEL_FAULTS) or (parsed.decisions and _MALFORMED in codes):
            return None
        if parsed.decisions:
            return repair.repair_decisions(parsed, text, allows_several=context.allows_several)
        regions = split_regions(text, context.edition)
        if context.edition > 1:
            regions = repair.take_channels(regions)
        return repair.repair_candidates(find_candidates(regions, is_cut=is_cut, is_tool=repair.is_tool), regions)
    except (AmbiguousReplyError, DecisionError, UnusedChannelError, msgspec.DecodeError):
        # The strict reader's faults say what is wrong with the reply.
        return None


def read_or_repair(
    text: str, context: RepairContext, prompt: Callable[[], Sequence[str]], *, is_cut: bool = False
) -> tuple[ParsedReply, RepairedReply | None]:
    """Return the parts of a reply, and its repair if it needed one.

    A decision that stands in the prompt is not repaired: the model may only have quoted it.
    """
    parsed = context.read(text)
    repaired = _repair_parsed(parsed, text, context, is_cut=is_cut)
    is_checked = repaired and (repaired.written or repaired.program or repaired.params)
    if repaired is None or (is_checked and stands_in_prompt(repaired, prompt())):
        return parsed, None
    read = context.read(repaired.text)
    thinking = repaired.thinking or parsed.thinking
    return msgspec.structs.replace(read, thinking=thinking, repairs=repaired.repairs), repaired


def repair_calls(
    parsed: ParsedReply, context: RepairContext, repairs: Collection[str] = ()
) -> tuple[ParsedReply, RepairedReply] | None:
    """Return the reply with repaired calls, and its repair; None if it needs no repair or cannot be written.

    The reply was not written in channels; `repairs` names the repairs without which it could not be read.
    """
    repaired = _Repair(context, repairs).repair_decisions(parsed, "", allows_several=context.allows_several)
    if repaired is None:
        return None
    return msgspec.structs.replace(context.read(repaired.text), repairs=repaired.repairs), repaired


def stands_in_prompt(repaired: RepairedReply, prompt: Sequence[str]) -> bool:
    """Whether the decision's text stands in the prompt, so that the model may only have quoted it.

    The comparison ignores everything but letters and digits. It also undoes JSON escapes and HTML entities.
    """
    pieces = [piece for piece in (repaired.written, repaired.program, *repaired.params) if skeleton(piece)]
    wanted = {skeleton(form) for piece in pieces for form in _unescaped_forms(piece)}
    shown = (skeleton(form) for text in prompt for form in _unescaped_forms(unfence(text)))
    return any(piece in text for text in shown for piece in wanted)


class _Repair:
    """Repairs the decisions of one reply and collects the names of the repairs."""

    def __init__(self, context: RepairContext, repairs: Collection[str] = ()) -> None:
        self._tools = context.by_name
        self._names = ToolNames(context.by_name)
        self._context = context
        self._custom = context.custom
        self._repairs: set[str] = set(repairs)
        self._code: str | None = None
        self._program = ""
        self._params: tuple[str, ...] = ()
        self._given: dict[str, str] = {}

    def repair_channels(self, text: str, *, is_cut: bool) -> str:
        """Return the reply with exact tags around its raw channels."""
        normalised = normalise_raw_channels(text, self._context.edition, is_cut=is_cut)
        self._repairs |= normalised.repairs
        self._params = normalised.params
        return normalised.text

    def take_channels(self, regions: Sequence[Region]) -> list[Region]:
        """Collect the texts of the raw channels, and return the other regions."""
        before = ""
        for region in regions:
            if region.kind in RAW_KINDS:
                if is_shown_only(before):
                    raise AmbiguousReplyError("the prose speaks about a channel")
                name = RAW_KINDS[region.kind]
                add_text(self._given, name, read_text(name, region.text))
            before = region.text if region.kind == "outside" else ""
        return [region for region in regions if region.kind not in RAW_KINDS]

    def is_tool(self, name: str) -> bool:
        """Whether a tool has this name or one that is spelled alike."""
        return self._names.find(name) is not None

    def repair_decisions(self, parsed: ParsedReply, text: str, *, allows_several: bool) -> RepairedReply | None:
        """Repair the calls of a reply whose decisions are well-formed."""
        decisions = list(parsed.decisions)
        self._code = parsed.code
        if not allows_several and len(decisions) > 1 and all(one == decisions[0] for one in decisions):
            self._repairs.add("repeated_decision")
            decisions = decisions[:1]
        is_call = len(decisions) == 1 and isinstance(decisions[0], CallToolDecision)
        regions = split_regions(text, self._context.edition) if is_call else []
        fields = _decision_fields(regions)
        filled = dict(parsed.filled)
        repaired: list[Decision] = []
        for at, one in enumerate(decisions):
            given = filled.get(at, NO_TEXTS)
            moved = self._move_fields(_without_params(one, given), fields)
            repaired.append(self._fill(self._repair_decision(moved, regions, fields), given))
        return self._finish(repaired, parsed.summary)

    def repair_candidates(self, candidates: Sequence[Candidate], regions: Sequence[Region]) -> RepairedReply | None:
        """Repair a reply without a well-formed decision from its only candidate."""
        candidates = candidates or self._find_answer()
        if not candidates:
            return None
        self._code = _join_regions(regions, "code")
        decisions: list[Decision] = []
        for candidate in candidates:
            self._repairs |= candidate.repairs
            shaper = DecisionShaper(self._names, without_params(self._given))
            shaped = shaper.read(candidate.json)
            self._repairs |= shaper.repairs
            repaired = self._repair_decision(shaped, regions, _read_fields(candidate.json))
            decisions.append(self._fill(repaired, self._given))
        if not self._repairs:
            self._repairs.add("tags")
        if any(one != decisions[0] for one in decisions):
            return None
        if len(decisions) > 1:
            self._repairs.add("repeated_decision")
        summary = _join_regions(regions, "summary") or ""
        finished = self._finish(decisions[:1], summary, candidates[0].written)
        return finished and msgspec.structs.replace(finished, thinking=_join_regions(regions, "thinking") or "")

    def _find_answer(self) -> list[Candidate]:
        """Return the final answer of a raw channel as the decision, which may also stand in that channel as JSON."""
        answer = self._given.get(ANSWER, "")
        if not answer.strip():
            return []
        if is_decision_like(answer):
            if isinstance(parse_decision(answer), CallToolDecision):
                raise AmbiguousReplyError("a raw channel holds no call")
            del self._given[ANSWER]
            return [Candidate(answer, answer, frozenset({"answer_channel"}))]
        return [Candidate(answer, BARE_ANSWER, frozenset({"answer_channel"}))]

    def _fill(self, decision: Decision, given: Mapping[str, str]) -> Decision:
        return fill_decision(decision, given, self._tools) if given else decision

    def _finish(self, decisions: Sequence[Decision], summary: str, written: str = "") -> RepairedReply | None:
        if not self._repairs:
            return None
        text = _write_reply(decisions, self._code, summary)
        read = self._context.read(text)
        if read.faults or read.remarks or read.decisions != tuple(_without_ignored(one) for one in decisions):
            return None
        return RepairedReply(text, tuple(sorted(self._repairs)), written, program=self._program, params=self._params)

    def _move_fields(self, decision: Decision, fields: Fields) -> Decision:
        """Return a well-formed call with the parameters that stand beside it."""
        if not isinstance(decision, CallToolDecision) or "tool_call" not in fields:
            return decision
        shaper = DecisionShaper(self._names)
        moved = shaper.move_params(decision, fields)
        self._repairs |= shaper.repairs
        return moved

    def _repair_decision(self, decision: Decision, regions: Sequence[Region], fields: Fields) -> Decision:
        if not isinstance(decision, CallToolDecision):
            return decision
        tool_id = self._names.find(decision.tool_id) or decision.tool_id
        if tool_id != decision.tool_id:
            self._repairs.add("tool_spelling")
        params = _OBJECT.decode(decision.params)
        if resolve_traits(tool_id, self._custom.get(tool_id)).runs_code:
            params = self._move_code(params, self._names.properties(tool_id))
            self._find_program(regions, fields)
        if tool := self._tools.get(tool_id):
            params = convert_params(params, tool, self._repairs)
        if params == _OBJECT.decode(decision.params):
            return msgspec.structs.replace(decision, tool_id=tool_id)
        return msgspec.structs.replace(decision, tool_id=tool_id, params=encode(params))

    def _move_code(self, params: Fields, known: Mapping[str, object]) -> Fields:
        """Return the parameters without the program, which belongs to the code channel."""
        named = [name for name in params if name in _CODE_NAMES and name not in known]
        code = _read_program(params[named[0]]) if len(named) == 1 else ""
        if not code.strip():
            return params
        if self._code is None:
            self._code = code
        elif self._code.strip() != code.strip():
            raise AmbiguousReplyError("the program is given twice")
        self._repairs.add("code_in_params")
        return {name: value for name, value in params.items() if name != named[0]}

    def _find_program(self, regions: Sequence[Region], fields: Fields) -> None:
        """Find the program beside the decision: in a channel with a slip in its tags, in a field, or in a fence."""
        if self._code is not None:
            return
        places = (fields, _read_fields(bytes(fields["tool_call"]).decode()) if "tool_call" in fields else {})
        named = [_read_program(place["code"]) for place in places if "code" in place]
        tagged = [trim_channel_text(one.text) for one in regions if one.kind == "code"]
        fenced = [block for one in regions if one.kind in ("outside", "decision") for block in _find_programs(one.text)]
        for repair, programs in (("tags", tagged), ("code_in_params", named), ("fenced_code", fenced)):
            if len(programs) == 1 and programs[0].strip():
                self._code = self._program = programs[0]
                self._repairs.add(repair)
                return


def _without_params(decision: Decision, given: Mapping[str, str]) -> Decision:
    """Return the call without the parameters of its raw channels, as the decision's JSON has it."""
    if not given or not isinstance(decision, CallToolDecision):
        return decision
    params = {name: raw for name, raw in _OBJECT.decode(decision.params).items() if name not in given}
    return msgspec.structs.replace(decision, params=encode(params))


def _read_program(raw: msgspec.Raw) -> str:
    """Return a program that is given as text or as a list of lines, without a fence around it."""
    try:
        value = msgspec.json.decode(raw, type=str | list[str])
    except msgspec.ValidationError:
        return ""
    text = value if isinstance(value, str) else "\n".join(value)
    fenced = _find_programs(text) if text.lstrip().startswith("```") else []
    return fenced[0] if len(fenced) == 1 else text


def _find_programs(text: str) -> list[str]:
    """Return the fenced blocks of a text that may be a Python program."""
    programs: list[str] = []
    opened: re.Match[str] | None = None
    for fence in FENCE_LINE.finditer(text):
        if opened is None:
            opened = fence
            continue
        block = text[opened.end() + 1 : fence.start()]
        if opened[1].lower() in _LANGUAGES and not block.lstrip().startswith(("{", "[")):
            programs.append(block.rstrip("\r\n"))
        opened = None
    return programs


def _decision_fields(regions: Sequence[Region]) -> Fields:
    """Return the fields of the only decision's object; none if there is not exactly one."""
    texts = [one.text for one in regions if one.kind == "decision" and "{" in one.text]
    try:
        return _read_fields(read_lenient_json(texts[0], texts[0].index("{")).text) if len(texts) == 1 else {}
    except LenientJsonError:
        return {}


def _read_fields(text: str) -> Fields:
    """Return the fields of a JSON object; none for other values."""
    return _OBJECT.decode(text) if text.startswith("{") else {}


def _write_reply(decisions: Sequence[Decision], code: str | None, summary: str) -> str:
    parts = [f"<channel:{DECISION}>{_write_decision(one)}</channel:{DECISION}>" for one in decisions]
    if code is not None:
        parts.append(f"<channel:code>\n{code}\n</channel:code>")
    if summary:
        parts.append(f"<channel:summary>\n{summary}\n</channel:summary>")
    return "\n".join(parts)


def _write_decision(decision: Decision) -> str:
    if isinstance(decision, CallToolDecision):
        call = {"tool_id": decision.tool_id, "params": msgspec.Raw(decision.params.encode())}
        return encode({"action": "call_tool", "notes": decision.notes, "tool_call": call})
    return encode(
        {
            "action": "complete" if isinstance(decision, CompleteDecision) else "exit",
            "notes": decision.notes,
            "final_answer": decision.final_answer,
            "suggested_followups": decision.suggested_followups,
        }
    )


def _without_ignored(decision: Decision) -> Decision:
    return msgspec.structs.replace(decision, ignored=())


def _join_regions(regions: Sequence[Region], kind: str) -> str | None:
    texts = [trim_channel_text(one.text) for one in regions if one.kind == kind]
    return "\n\n".join(texts) if texts else None


def _unescaped_forms(text: str) -> tuple[str, ...]:
    plain = _ESCAPE.sub("", text)
    return text, plain, html.unescape(text)


_MALFORMED: Final = "protocol_violation.decision_malformed"
_CHANNEL_FAULTS: Final = frozenset({"protocol_violation.channel_unused", "protocol_violation.channel_unclosed"})
"""Faults of a raw channel that has no reading."""

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ESCAPE: Final = re.compile(r"\\+(?:[nrtbf]|u[0-9A-Fa-f]{4})?")
_CODE_NAMES: Final = ("code", "program", "script", "source", "source_code", "python_code")
_LANGUAGES: Final = ("", "python", "python3", "py")
