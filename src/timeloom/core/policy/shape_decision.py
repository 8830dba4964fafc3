"""Brings the JSON object of a candidate into the shape of a decision: other names, other nesting, other spellings.

Each change is recorded as a repair. An object that may stand for two decisions is refused.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec

from timeloom.core.policy.convert_params import Fields, ToolForm, read_properties, read_required
from timeloom.core.policy.vendor_calls import AmbiguousReplyError
from timeloom.core.stream.decision import NO_TEXTS, CallToolDecision, Decision, parse_decision
from timeloom.core.stream.lenient_json import LenientJsonError, read_lenient_json


def skeleton(text: str) -> str:
    """Return the letters and digits of a text, in lower case."""
    return _NOT_WORD.sub("", text).casefold()


def encode(value: object) -> str:
    """Return the value as JSON."""
    return msgspec.json.encode(value).decode()


class ToolNames:
    """Finds tools by names that are spelled alike."""

    def __init__(self, tools: Mapping[str, ToolForm]) -> None:
        self._tools = tools

    def find(self, name: str) -> str | None:
        """Return the id of the only tool with this name or a name that is spelled alike; None if there is none."""
        if name in self._tools:
            return name
        for wanted in (skeleton(name), skeleton(_NAMESPACE.sub("", name))):
            alike = {tool.tool_id for known, tool in self._tools.items() if skeleton(known) == wanted}
            if len(alike) == 1:
                return alike.pop()
        return None

    def properties(self, name: str) -> Mapping[str, object]:
        """Return the schemas of the parameters of the tool with this name, or of none."""
        tool = self._tools.get(self.find(name) or "")
        return read_properties(tool.params_schema) if tool else {}

    def required(self, name: str) -> frozenset[str]:
        """Return the names of the parameters that a call of the tool with this name must have."""
        tool = self._tools.get(self.find(name) or "")
        return read_required(tool.params_schema) if tool else frozenset()


class DecisionShaper:
    """Reads the decision of one candidate and collects the names of the repairs in `repairs`."""

    def __init__(self, names: ToolNames, given: Mapping[str, str] = NO_TEXTS) -> None:
        self._names = names
        self._given = given  # fields that stand in channels of their own
        self.repairs: set[str] = set()

    def read(self, text: str) -> Decision:
        """Return the decision that a JSON object or a list of one object stands for."""
        fields = self._unwrap(self._as_object(text))
        if not _DECISION_FIELDS.isdisjoint(self._rename_fields(fields)):
            shaped = self._shape_decision(fields)
            decision = parse_decision(encode(shaped), self._given)
            return self.move_params(decision, shaped) if isinstance(decision, CallToolDecision) else decision
        if len(fields) == 1 and skeleton(next(iter(fields))) in _ANSWER_ALONE:
            self.repairs.add("call_names")
            return parse_decision(
                encode({"action": "complete", "final_answer": next(iter(fields.values()))}), self._given
            )
        # An object without a decision's fields is a call only if it names a tool.
        self.repairs.add("flat_call")
        decision = parse_decision(encode({"action": _QUOTED_CALL, "tool_call": self._shape_call(fields)}), self._given)
        if not isinstance(decision, CallToolDecision) or self._names.find(decision.tool_id) is None:
            raise AmbiguousReplyError("the object names no tool")
        return decision

    def move_params(self, decision: CallToolDecision, fields: Fields) -> CallToolDecision:
        """Return a well-formed call with the parameters that stand beside it in the decision's fields."""
        call = _OBJECT.decode(fields["tool_call"])
        params = _OBJECT.decode(decision.params)
        properties = self._names.properties(decision.tool_id)
        if properties and (inner := _only_params(params)) and not params.keys() & properties.keys():
            self.repairs.add("flat_call")
            return msgspec.structs.replace(decision, params=encode(inner))
        if params:
            return decision
        outer = {name: raw for name, raw in fields.items() if name not in _DECISION_NAMES}
        for place in (call, outer):
            if beside := _only_params({name: raw for name, raw in place.items() if skeleton(name) in _PARAMS_NAMES}):
                self.repairs.add("flat_call")
                return msgspec.structs.replace(decision, params=encode(beside))
        # Beside the call, other fields of a decision may have the name of an optional parameter by chance.
        places = (call, outer) if self._names.required(decision.tool_id) else (call,)
        for place in places:
            if flat := {name: raw for name, raw in place.items() if name in properties and name not in _CALL_FIELDS}:
                self.repairs.add("flat_call")
                return msgspec.structs.replace(decision, params=encode(flat))
        return decision

    def _as_object(self, text: str) -> Fields:
        """Return the fields of an object, or of the only object in a list."""
        if text.startswith("["):
            items = _LIST.decode(text)
            if len(items) != 1:
                raise AmbiguousReplyError("a list of several objects")
            self.repairs.add("single_item_list")
            text = bytes(items[0]).decode()
        try:
            return _OBJECT.decode(text)
        except msgspec.ValidationError:
            raise AmbiguousReplyError("no object") from None

    def _unwrap(self, fields: Fields) -> Fields:
        """Return the decision inside `{"decision": {…}}`; thoughts may stand beside it."""
        wrappers = [name for name in fields if skeleton(name).removeprefix("channel") in _WRAPPERS]
        others = {skeleton(name).removeprefix("channel") for name in fields} - _WRAPPERS - _THOUGHT_NAMES
        if len(wrappers) != 1 or others or not bytes(fields[wrappers[0]]).startswith(b"{"):
            return fields
        wrapped = _OBJECT.decode(fields[wrappers[0]])
        if skeleton(wrappers[0]).endswith("action") and "action" not in wrapped:
            # The action itself may be given as an object.
            return fields
        self.repairs.add("call_names")
        return wrapped

    def _rename_fields(self, fields: Fields) -> Fields:
        """Rename the fields of a decision that are spelled in another way, in place."""
        for name in list(fields):
            known = _FIELD_BY_SKELETON.get(skeleton(name))
            if known and known != name:
                if known in fields:
                    raise AmbiguousReplyError(f"{known} is given twice")
                fields[known] = fields.pop(name)
                self.repairs.add("call_names")
        return fields

    def _shape_decision(self, fields: Fields) -> Fields:
        shaped = dict(fields)
        self._shape_action_name(shaped)
        if not _is_filled(shaped.get("tool_call")):
            self._collect_call(shaped)
        if _is_filled(shaped.get("tool_call")):
            shaped["tool_call"] = self._shape_call(self._as_call(shaped))
        else:
            shaped.pop("tool_call", None)
        self._shape_answer(shaped)
        if "final_answer" in self._given and not _is_filled(shaped.get("final_answer")):
            shaped["final_answer"] = msgspec.Raw(msgspec.json.encode(self._given["final_answer"]))
        shaped["action"] = self._shape_action(shaped)
        followups = shaped.get("suggested_followups")
        if followups is not None and bytes(followups).startswith(b'"'):
            self.repairs.add("string_for_list")
            shaped["suggested_followups"] = msgspec.Raw(b"[" + bytes(followups) + b"]")
        return shaped

    def _shape_action_name(self, fields: Fields) -> None:
        """Read `{"action": "weather.get", "action_input": {…}}`, where the action names the tool."""
        action = _read(fields.get("action"))
        if isinstance(action, list) and len(cast(list[object], action)) == 1:
            self.repairs.add("single_item_list")
            action = cast(list[object], action)[0]
            fields["action"] = msgspec.Raw(msgspec.json.encode(action))
        if not isinstance(action, str) or _to_action(action) in _ACTIONS or _is_filled(fields.get("tool_call")):
            return
        given = fields.get("action_input")
        if _to_action(action) in _ANSWERS and isinstance(_read(given), str) and "final_answer" not in fields:
            self.repairs.add("call_names")
            fields["final_answer"] = fields.pop("action_input")
        elif self._names.find(action) is not None and "tool_id" not in fields:
            self.repairs.add("flat_call")
            fields["tool_id"] = fields.pop("action")

    def _collect_call(self, fields: Fields) -> None:
        """Collect a call whose tool stands beside the action into `tool_call`."""
        tools = [name for name in fields if skeleton(name) in _TOOL_NAMES]
        if len(tools) != 1 or not isinstance(_read(fields[tools[0]]), str):
            return
        properties = self._names.properties(str(_read(fields[tools[0]])))
        call = {name: fields.pop(name) for name in list(fields) if self._belongs_to_call(name, properties)}
        fields["tool_call"] = msgspec.Raw(encode(call).encode())
        self.repairs.add("flat_call")

    def _belongs_to_call(self, name: str, properties: Mapping[str, object]) -> bool:
        if name in _DECISION_NAMES:
            return False
        return skeleton(name) in _TOOL_NAMES | _PARAMS_NAMES or name in properties

    def _as_call(self, fields: Fields) -> Fields:
        """Return the fields of `tool_call`, which may be JSON text or the name of the tool."""
        raw = fields["tool_call"]
        if not bytes(raw).startswith(b'"'):
            return self._as_object(bytes(raw).decode())
        text = msgspec.json.decode(raw, type=str).strip()
        if text.startswith(("{", "[")):
            return self._as_object(self._read_json_text(text))
        if self._names.find(text) is None:
            raise AmbiguousReplyError("the call is text")
        properties = self._names.properties(text)
        beside = {name: fields.pop(name) for name in list(fields) if self._belongs_to_call(name, properties)}
        if not beside:
            raise AmbiguousReplyError("the call has no parameters")
        self.repairs.add("flat_call")
        return {"tool_id": raw, **beside}

    def _shape_answer(self, fields: Fields) -> None:
        """Read an answer under another name, or as a list of one text, a number or an object with one text."""
        if not _is_filled(fields.get("final_answer")):
            texts = [name for name in fields if isinstance(_read(fields[name]), str)]
            named = [name for name in texts if skeleton(name) in _ANSWER_NAMES]
            is_asked = _to_action(str(_read(fields.get("action")) or "")) in (*_ANSWERS, "complete", "")
            if len(named) == 1 and is_asked and not _is_filled(fields.get("tool_call")):
                fields["final_answer"] = fields.pop(named[0])
                self.repairs.add("call_names")
        for name in ("final_answer", "notes"):
            if (value := _only_text(_read(fields.get(name)))) is not None:
                fields[name] = msgspec.Raw(msgspec.json.encode(value))
                self.repairs.add("answer_as_value")

    def _shape_action(self, fields: Mapping[str, msgspec.Raw]) -> msgspec.Raw:
        given = _read(fields.get("action"))
        if given is not None and not isinstance(given, str):
            raise AmbiguousReplyError("the action is no text")
        action = _to_action(given or "")
        if action in _ACTIONS:
            if action != given:
                self.repairs.add("action_spelling")
            return msgspec.Raw(msgspec.json.encode(action))
        calls, answers = _is_filled(fields.get("tool_call")), _is_filled(fields.get("final_answer"))
        if (action and action not in (*_CALLS, *_ANSWERS)) or calls == answers:
            raise AmbiguousReplyError("the action is not known")
        if action and (action in _CALLS) != calls:
            raise AmbiguousReplyError("the action contradicts the fields")
        self.repairs.add("action_missing")
        return msgspec.Raw(msgspec.json.encode("call_tool" if calls else "complete"))

    def _shape_call(self, fields: Fields) -> msgspec.Raw:
        call = dict(fields)
        for inner in ("function", "functionCall", "function_call"):
            if inner in call and bytes(call[inner]).startswith(b"{"):
                self.repairs.add("call_names")
                call |= _OBJECT.decode(call.pop(inner))
        if len(call) == 1 and self._names.find(only := next(iter(call))) and bytes(call[only]).startswith(b"{"):
            self.repairs.add("call_names")
            call = {"tool_id": msgspec.Raw(msgspec.json.encode(only)), "params": call[only]}
        self._rename_call(call)
        params = call.get("params")
        if params is not None and bytes(params)[:1] in (b'"', b"["):
            call["params"] = msgspec.Raw(self._read_params(bytes(params).decode()).encode())
        return msgspec.Raw(encode(call).encode())

    def _rename_call(self, call: Fields) -> None:
        name = self._pick(call, "tool_id", _TOOL_NAMES) or self._pick(call, "tool_id", ("id",))
        properties = self._names.properties(str(_read(call.get("tool_id"))) if name else "")
        given = [key for key in call if skeleton(key) in _PARAMS_NAMES and (key == "params" or key not in properties)]
        if len(given) > 1:
            raise AmbiguousReplyError("params is given twice")
        if given and given[0] != "params":
            call["params"] = call.pop(given[0])
            self.repairs.add("call_names")
        elif not given and (flat := {key: call.pop(key) for key in list(call) if key in properties}):
            call["params"] = msgspec.Raw(encode(flat).encode())
            self.repairs.add("flat_call")
        for key in list(call):
            if key not in ("tool_id", "params"):
                del call[key]

    def _pick(self, fields: Fields, name: str, others: Sequence[str] | frozenset[str]) -> bool:
        """Rename the only other name of a field; raise if the field is given twice."""
        given = [key for key in fields if key == name or skeleton(key) in others]
        if len(given) > 1:
            raise AmbiguousReplyError(f"{name} is given twice")
        if given and given[0] != name:
            fields[name] = fields.pop(given[0])
            self.repairs.add("call_names")
        return bool(given)

    def _read_params(self, raw: str) -> str:
        """Return parameters that are JSON text, or a list with one object."""
        if raw.startswith("["):
            if not _LIST.decode(raw):
                self.repairs.add("single_item_list")
                return "{}"
            return encode(self._as_object(raw))
        text = msgspec.json.decode(raw, type=str)
        self.repairs.add("params_as_text")
        return self._read_json_text(text) if text.strip() else "{}"

    def _read_json_text(self, text: str) -> str:
        try:
            read = read_lenient_json(text)
        except LenientJsonError:
            raise AmbiguousReplyError("the text holds no object") from None
        if text[read.end :].strip():
            raise AmbiguousReplyError("text follows the object")
        self.repairs |= {*read.repairs, "params_as_text"}
        return read.text


def _only_params(fields: Fields) -> Fields | None:
    """Return the parameters that the only field holds under a name for parameters; None if it does not."""
    if len(fields) != 1:
        return None
    ((name, raw),) = fields.items()
    return _OBJECT.decode(raw) if skeleton(name) in _PARAMS_NAMES and bytes(raw).startswith(b"{") else None


def _only_text(value: object) -> str | None:
    """Return the text of a list of one text, of a number, or of an object with one text; None for other values."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return encode(value)
    if isinstance(value, list) and len(cast(list[object], value)) == 1:
        only = cast(list[object], value)[0]
        return only if isinstance(only, str) else None
    if isinstance(value, dict) and len(cast(dict[str, object], value)) == 1:
        ((name, only),) = cast(dict[str, object], value).items()
        return only if isinstance(only, str) and skeleton(name) in _ANSWER_NAMES else None
    return None


def _is_filled(raw: msgspec.Raw | None) -> bool:
    value = _read(raw)
    if isinstance(value, dict):
        return any(cast(dict[str, object], value).values())
    return bool(value.strip()) if isinstance(value, str) else bool(value)


def _read(raw: msgspec.Raw | None) -> object:
    return None if raw is None else msgspec.json.decode(raw)


def _to_action(text: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text.strip(" \t\n.!`'\""))
    return re.sub(r"[\s-]+", "_", words.lower())


_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NOT_WORD: Final = re.compile(r"[\W_]+")
_NAMESPACE: Final = re.compile(r"^(?:functions?|tools?|default_api|api)[.:/]|:\d{1,3}$")
_QUOTED_CALL: Final = msgspec.Raw(b'"call_tool"')
_ACTIONS: Final = ("call_tool", "complete", "exit")
_CALLS: Final = (
    *("tool_call", "calltool", "tool", "tool_calls", "use_tool", "tool_use", "call", "function_call", "function"),
)
_ANSWERS: Final = (
    *("final_answer", "answer", "final", "finish", "finished", "done", "completed", "respond", "response", "reply"),
)
_DECISION_FIELDS: Final = frozenset({"action", "tool_call", "final_answer"})
_DECISION_NAMES: Final = frozenset({*_DECISION_FIELDS, "notes", "suggested_followups"})
_CALL_FIELDS: Final = frozenset({"tool_id", "params"})
_FIELD_BY_SKELETON: Final = {
    **{skeleton(name): name for name in _DECISION_NAMES},
    **dict.fromkeys(("toolcalls", "tooluses", "tooluse", "functioncall"), "tool_call"),
}
_TOOL_NAMES: Final = frozenset({"toolid", "name", "tool", "toolname", "function", "functionname", "recipientname"})
_PARAMS_NAMES: Final = frozenset(
    {"params", "arguments", "parameters", "args", "input", "inputs", "kwargs", "toolinput", "actioninput", "toolargs"}
)
_ANSWER_NAMES: Final = frozenset({"answer", "response", "reply", "finalresponse", "text", "content", "message"})
_ANSWER_ALONE: Final = frozenset({"answer", "response", "finalresponse"})
_WRAPPERS: Final = frozenset({"decision", "action", "reactdecision", "reactdecisionout", "reactdecisionoutv2"})
_THOUGHT_NAMES: Final = frozenset({"thinking", "thought", "thoughts", "reasoning", "summary"})
