"""Repairs a model's reply that has exactly one reading, so that a slip does not cost another request.

A repair never invents a call, a parameter or an effect. The repaired reply is a well-formed reply that the outcome of
the model call records. Readers after a restart read that text, so they depend on no repair rule.
"""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final, cast

import msgspec

from timeloom.core.blocks.tool_traits import NO_CUSTOM_TRAITS, CustomTraits, resolve_traits
from timeloom.core.policy.find_candidates import AmbiguousReplyError, Candidate, find_candidates
from timeloom.core.policy.read_reply import ParsedReply, read_reply
from timeloom.core.render.foreign_text.fence import unfence
from timeloom.core.stream.channels import DECISION, trim_channel_text
from timeloom.core.stream.decision import CallToolDecision, CompleteDecision, Decision, DecisionError, parse_decision
from timeloom.core.stream.lenient_json import MECHANICAL_REPAIRS, LenientJsonError, read_lenient_json
from timeloom.core.stream.reply_regions import Region, split_regions


class ToolForm(msgspec.Struct, frozen=True):
    """What a repair knows about a tool: its id and the JSON Schema of its parameters."""

    tool_id: str
    params_schema: str = "{}"


class RepairContext(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a conversation, and whether a reply may call several of them."""

    by_name: Mapping[str, ToolForm] = {}
    """The tools by their ids and other names."""
    custom: CustomTraits = NO_CUSTOM_TRAITS
    allows_several: bool = False
    """Whether a round may have several actions."""


class RepairedReply(msgspec.Struct, frozen=True):
    """A repaired reply: its well-formed text, the names of the repairs, and the original text of the decision.

    `written` is empty if the reply had a well-formed decision, of which only the call was repaired.
    """

    text: str
    repairs: tuple[str, ...]
    written: str = ""
    thinking: str = ""


def is_mechanical(repairs: Sequence[str]) -> bool:
    """Whether the repairs changed only the spelling of the decision's JSON."""
    return MECHANICAL_REPAIRS.issuperset(repairs)


def repair_reply(text: str, context: RepairContext, *, is_cut: bool = False) -> RepairedReply | None:
    """Return the repaired reply; None if the reply needs no repair or has no unique reading.

    `is_cut` says that the reply reached its length limit.
    """
    return _repair_parsed(read_reply(text, context.custom), text, context, is_cut=is_cut)


def _repair_parsed(parsed: ParsedReply, text: str, context: RepairContext, *, is_cut: bool) -> RepairedReply | None:
    repair = _Repair(context)
    try:
        if parsed.decisions:
            is_mixed = any(issue.code == "protocol_violation.decision_malformed" for issue in parsed.faults)
            return None if is_mixed else repair.repair_decisions(parsed, allows_several=context.allows_several)
        regions = split_regions(text)
        return repair.repair_candidates(find_candidates(regions, is_cut=is_cut), regions)
    except (AmbiguousReplyError, DecisionError):
        return None


def read_or_repair(
    text: str, context: RepairContext, prompt: Callable[[], Sequence[str]], *, is_cut: bool = False
) -> tuple[ParsedReply, RepairedReply | None]:
    """Return the parts of a reply, and its repair if it needed one.

    A decision that stands in the prompt is not repaired: the model may only have quoted it.
    """
    parsed = read_reply(text, context.custom)
    repaired = _repair_parsed(parsed, text, context, is_cut=is_cut)
    if repaired is None or (repaired.written and stands_in_prompt(repaired, prompt())):
        return parsed, None
    read = read_reply(repaired.text, context.custom)
    thinking = repaired.thinking or parsed.thinking
    return msgspec.structs.replace(read, thinking=thinking, repairs=repaired.repairs), repaired


def stands_in_prompt(repaired: RepairedReply, prompt: Sequence[str]) -> bool:
    """Whether the decision's text stands in the prompt, so that the model may only have quoted it.

    The comparison ignores everything but letters and digits. It also undoes JSON escapes and HTML entities.
    """
    wanted = {_skeleton(form) for form in _unescaped_forms(repaired.written)}
    shown = (_skeleton(form) for text in prompt for form in _unescaped_forms(unfence(text)))
    return any(piece in text for text in shown for piece in wanted)


class _Repair:
    """Repairs the decisions of one reply and collects the names of the repairs."""

    def __init__(self, context: RepairContext) -> None:
        self._tools = context.by_name
        self._custom = context.custom
        self._repairs: set[str] = set()
        self._code: str | None = None

    def repair_decisions(self, parsed: ParsedReply, *, allows_several: bool) -> RepairedReply | None:
        """Repair the calls of a reply whose decisions are well-formed."""
        decisions = list(parsed.decisions)
        self._code = parsed.code
        if not allows_several and len(decisions) > 1 and all(one == decisions[0] for one in decisions):
            self._repairs.add("repeated_decision")
            decisions = decisions[:1]
        repaired = [self._repair_decision(one) for one in decisions]
        return self._finish(repaired, parsed.summary)

    def repair_candidates(self, candidates: Sequence[Candidate], regions: Sequence[Region]) -> RepairedReply | None:
        """Repair a reply without a well-formed decision from its only candidate."""
        if not candidates:
            return None
        self._code = _join_regions(regions, "code")
        decisions: list[Decision] = []
        for candidate in candidates:
            self._repairs |= candidate.repairs
            decisions.append(self._repair_decision(self._read_candidate(candidate.json)))
        if any(one != decisions[0] for one in decisions):
            return None
        if len(decisions) > 1:
            self._repairs.add("repeated_decision")
        summary = _join_regions(regions, "summary") or ""
        repaired = self._finish(decisions[:1], summary, candidates[0].written)
        return repaired and msgspec.structs.replace(repaired, thinking=_join_regions(regions, "thinking") or "")

    def _finish(self, decisions: Sequence[Decision], summary: str, written: str = "") -> RepairedReply | None:
        if not self._repairs:
            return None
        text = _write_reply(decisions, self._code, summary)
        read = read_reply(text, self._custom)
        if read.faults or read.remarks or read.decisions != tuple(_without_ignored(one) for one in decisions):
            return None
        return RepairedReply(text, tuple(sorted(self._repairs)), written)

    def _read_candidate(self, text: str) -> Decision:
        fields = self._as_object(text)
        if not _DECISION_FIELDS.isdisjoint(fields):
            shaped = self._shape_decision(fields)
            return parse_decision(_encode(shaped))
        # An object without a decision's fields is a call only if it names a tool.
        self._repairs.add("flat_call")
        decision = parse_decision(_encode({"action": _QUOTED_CALL, "tool_call": self._shape_call(fields)}))
        if not isinstance(decision, CallToolDecision) or self._find_tool(decision.tool_id) not in self._tools:
            raise AmbiguousReplyError("the object names no tool")
        return decision

    def _as_object(self, text: str) -> dict[str, msgspec.Raw]:
        """Return the fields of an object, or of the only object in a list."""
        if text.startswith("["):
            items = _LIST.decode(text)
            if len(items) != 1:
                raise AmbiguousReplyError("a list of several objects")
            self._repairs.add("single_item_list")
            text = bytes(items[0]).decode()
        try:
            return _OBJECT.decode(text)
        except msgspec.ValidationError:
            raise AmbiguousReplyError("no object") from None

    def _shape_decision(self, fields: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
        shaped = dict(fields)
        self._rename(shaped, "tool_call", ("tool_calls",))
        if "tool_call" not in shaped and "tool_id" in shaped:
            shaped["tool_call"] = msgspec.Raw(
                _encode({name: shaped.pop(name) for name in _CALL_NAMES if name in shaped}).encode()
            )
            self._repairs.add("flat_call")
        if _is_filled(shaped.get("tool_call")):
            shaped["tool_call"] = self._shape_call(self._as_object(bytes(shaped["tool_call"]).decode()))
        shaped["action"] = self._shape_action(shaped)
        followups = shaped.get("suggested_followups")
        if followups is not None and bytes(followups).startswith(b'"'):
            self._repairs.add("string_for_list")
            shaped["suggested_followups"] = msgspec.Raw(b"[" + bytes(followups) + b"]")
        return shaped

    def _shape_action(self, fields: Mapping[str, msgspec.Raw]) -> msgspec.Raw:
        given = msgspec.json.decode(fields["action"]) if "action" in fields else ""
        if not isinstance(given, str):
            raise AmbiguousReplyError("the action is no text")
        action = re.sub(r"[\s-]+", "_", given.strip().lower())
        if action in _ACTIONS:
            if action != given:
                self._repairs.add("action_spelling")
            return msgspec.Raw(msgspec.json.encode(action))
        calls, answers = _is_filled(fields.get("tool_call")), _is_filled(fields.get("final_answer"))
        if (action and action not in ("tool_call", "final_answer", "answer")) or calls == answers:
            raise AmbiguousReplyError("the action is not known")
        if action and (action == "tool_call") != calls:
            raise AmbiguousReplyError("the action contradicts the fields")
        self._repairs.add("action_missing")
        return msgspec.Raw(msgspec.json.encode("call_tool" if calls else "complete"))

    def _shape_call(self, fields: dict[str, msgspec.Raw]) -> msgspec.Raw:
        call = dict(fields)
        if "function" in call and bytes(call["function"]).startswith(b"{"):
            self._repairs.add("call_names")
            call |= _OBJECT.decode(call.pop("function"))
        for extra in ("type", "id"):
            call.pop(extra, None)
        self._rename(call, "tool_id", _TOOL_NAMES)
        self._rename(call, "params", _PARAMS_NAMES)
        params = call.get("params")
        if params is not None and bytes(params).startswith(b'"'):
            call["params"] = msgspec.Raw(self._read_params_text(msgspec.json.decode(params, type=str)).encode())
        return msgspec.Raw(_encode(call).encode())

    def _read_params_text(self, text: str) -> str:
        self._repairs.add("params_as_text")
        if not text.strip():
            return "{}"
        try:
            read = read_lenient_json(text)
        except LenientJsonError:
            raise AmbiguousReplyError("the parameters are no object") from None
        if text[read.end :].strip():
            raise AmbiguousReplyError("text follows the parameters")
        self._repairs |= set(read.repairs)
        return read.text

    def _rename(self, fields: dict[str, msgspec.Raw], name: str, others: Sequence[str]) -> None:
        """Rename the only other name of a field; raise if the field is given twice."""
        given = [other for other in others if other in fields]
        if not given:
            return
        if len(given) > 1 or name in fields:
            raise AmbiguousReplyError(f"{name} is given twice")
        fields[name] = fields.pop(given[0])
        self._repairs.add("call_names")

    def _repair_decision(self, decision: Decision) -> Decision:
        if not isinstance(decision, CallToolDecision):
            return decision
        tool_id = self._find_tool(decision.tool_id)
        params = _OBJECT.decode(decision.params)
        if resolve_traits(tool_id, self._custom.get(tool_id)).runs_code:
            params = self._move_code(params)
        if tool := self._tools.get(tool_id):
            params = self._convert_params(params, tool)
        if params == _OBJECT.decode(decision.params):
            return msgspec.structs.replace(decision, tool_id=tool_id)
        return msgspec.structs.replace(decision, tool_id=tool_id, params=_encode(params))

    def _find_tool(self, tool_id: str) -> str:
        """Return the id of the only tool that is spelled alike; the id itself if there is none."""
        if tool_id in self._tools:
            return tool_id
        wanted = _skeleton(tool_id)
        alike = {tool.tool_id for name, tool in self._tools.items() if _skeleton(name) == wanted}
        if len(alike) != 1:
            return tool_id
        self._repairs.add("tool_spelling")
        return alike.pop()

    def _move_code(self, params: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
        """Return the parameters without the program, which belongs to the code channel."""
        if "code" not in params or not bytes(params["code"]).startswith(b'"'):
            return params
        code = msgspec.json.decode(params["code"], type=str)
        if not code.strip():
            return params
        if self._code is None:
            self._code = code
        elif self._code.strip() != code.strip():
            raise AmbiguousReplyError("the program is given twice")
        self._repairs.add("code_in_params")
        return {name: value for name, value in params.items() if name != "code"}

    def _convert_params(self, params: dict[str, msgspec.Raw], tool: ToolForm) -> dict[str, msgspec.Raw]:
        properties = _read_properties(tool.params_schema)
        return {name: self._convert_value(raw, properties.get(name)) for name, raw in params.items()}

    def _convert_value(self, raw: msgspec.Raw, schema: object) -> msgspec.Raw:
        """Return a text as the number, boolean or list that the schema demands, if it is one."""
        wanted = _only_type(schema)
        if not wanted or not bytes(raw).startswith(b'"'):
            return raw
        text = msgspec.json.decode(raw, type=str)
        if wanted == "array":
            self._repairs.add("string_for_list")
            return msgspec.Raw(_read_text_list(text) or b"[" + bytes(raw) + b"]")
        word = text.strip()
        if _TYPED_WORDS[wanted].fullmatch(word):
            self._repairs.add("text_for_value")
            return msgspec.Raw(word.lower().encode())
        return raw


@cache
def _read_properties(schema: str) -> dict[str, object]:
    fields = cast(dict[str, object], msgspec.json.decode(schema))
    return cast(dict[str, object], fields.get("properties") or {})


def _read_text_list(text: str) -> bytes | None:
    """Return the list of strings that the text holds as JSON; None if it is plain text."""
    try:
        msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError:
        return None
    return text.encode()


def _only_type(schema: object) -> str:
    """Return `integer`, `number`, `boolean`, or `array` of strings if the schema allows nothing else but null."""
    if not isinstance(schema, dict):
        return ""
    fields = cast(dict[str, object], schema)
    options = [one for one in cast(list[object], fields.get("anyOf") or [fields]) if one != {"type": "null"}]
    if len(options) != 1 or not isinstance(options[0], dict):
        return ""
    only = cast(dict[str, object], options[0])
    kind = only.get("type")
    if kind == "array":
        return "array" if only.get("items") == {"type": "string"} else ""
    return kind if isinstance(kind, str) and kind in _TYPED_WORDS else ""


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
        return _encode({"action": "call_tool", "notes": decision.notes, "tool_call": call})
    return _encode(
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


def _is_filled(raw: msgspec.Raw | None) -> bool:
    if raw is None:
        return False
    value = msgspec.json.decode(raw)
    if isinstance(value, dict):
        return any(cast(dict[str, object], value).values())
    return bool(value.strip()) if isinstance(value, str) else bool(value)


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _skeleton(text: str) -> str:
    return _NOT_WORD.sub("", text).casefold()


def _unescaped_forms(text: str) -> tuple[str, ...]:
    plain = _ESCAPE.sub("", text)
    return text, plain, html.unescape(text)


_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_ACTIONS: Final = ("call_tool", "complete", "exit")
_QUOTED_CALL: Final = msgspec.Raw(b'"call_tool"')
_DECISION_FIELDS: Final = frozenset({"action", "tool_call", "tool_calls", "final_answer"})
_CALL_NAMES: Final = ("tool_id", "params", "arguments", "parameters", "args")
_TOOL_NAMES: Final = ("name", "tool", "tool_name", "function")
_PARAMS_NAMES: Final = ("arguments", "parameters", "args")
_NOT_WORD: Final = re.compile(r"[\W_]+")
_ESCAPE: Final = re.compile(r"\\+(?:[nrtbf]|u[0-9A-Fa-f]{4})?")
_TYPED_WORDS: Final = {
    "integer": re.compile(r"-?(?:0|[1-9][0-9]{0,17})"),
    "number": re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][-+]?[0-9]{1,2})?"),
    "boolean": re.compile(r"true|false", re.IGNORECASE),
    "array": re.compile(r""),
}
