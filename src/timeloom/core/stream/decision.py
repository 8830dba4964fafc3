"""Parses the text of the decision channel into a typed decision."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.stream.json_fields import FieldEvent, FieldScanner
from timeloom.core.stream.raw_text import unescape_tags
from timeloom.core.stream.surrogates import replace_lone_escapes, replace_lone_surrogates

STREAMED_FIELDS: Final = ("final_answer", "notes", "tool_call.params.content")
"""String fields of a decision that can be shown while the model writes them."""

FIRST_COMPACT_EDITION: Final = 3
"""The edition from which on a call may stand alone, as `{"tool_id": "", "params": {}}`."""

MAX_DECISION_CHARS: Final = 4_000_000
"""Longest decision. A smaller limit refuses files that fit in one reply; a larger one lets one reply fill memory."""

NO_TEXTS: Final[Mapping[str, str]] = {}
"""No field that stands in a channel of its own."""

_T = TypeVar("_T")

SHAPE: Final = (
    '{"action": "call_tool | complete | exit", "notes": "", "tool_call": {"tool_id": "", "params": {}}, '
    '"final_answer": "", "suggested_followups": []}'
)
"""Form in which the model is asked to write a decision."""


class CallToolDecision(msgspec.Struct, frozen=True, tag_field="action", tag="call_tool"):
    """Decision to call this tool; `params` is the JSON object as the model wrote it."""

    tool_id: str
    params: str
    notes: str = ""
    ignored: tuple[str, ...] = ()


class CompleteDecision(msgspec.Struct, frozen=True, tag_field="action", tag="complete"):
    """Decision to end the turn with this answer."""

    final_answer: str
    suggested_followups: tuple[str, ...] = ()
    notes: str = ""
    ignored: tuple[str, ...] = ()


class ExitDecision(msgspec.Struct, frozen=True, tag_field="action", tag="exit"):
    """Decision to end the turn without completing the request; the answer may give the reason."""

    final_answer: str = ""
    suggested_followups: tuple[str, ...] = ()
    notes: str = ""
    ignored: tuple[str, ...] = ()


Decision = CallToolDecision | CompleteDecision | ExitDecision
"""The model's decision; `ignored` names the fields that have no meaning for its action."""


class DecisionError(CodedError):
    """Error for text that is not a decision; the message states the fault, its position and the expected form."""

    def __init__(self, wrong: str) -> None:
        super().__init__(
            "protocol_violation.decision_malformed",
            f"The decision is malformed: {wrong}. Expected one JSON object of this shape: {SHAPE}",
        )


def parse_decision(text: str, given: Mapping[str, str] = NO_TEXTS, *, compact: bool = False) -> Decision:
    """Parse a text that is one decision, apart from white space and a Markdown fence around it.

    `given` holds the fields of the decision that stand in channels of their own: `final_answer` and `notes`. With
    `compact`, the object may also be the call alone.
    """
    chars = len(text) + sum(map(len, given.values()))
    if chars > MAX_DECISION_CHARS:
        raise DecisionError(f"it has {chars} characters, more than {MAX_DECISION_CHARS}")
    text = replace_lone_surrogates(text)
    start, end = _object_span(text)
    _check_structure(text, start, end)
    fields = _decode_fields(text[start:end])
    if compact:
        fields = _expand_call(fields)
    return _build_decision({**fields, **_merge_texts(fields, given)} if given else fields)


def fill_params(decision: CallToolDecision, given: Mapping[str, str]) -> CallToolDecision:
    """Return the call with the parameters that stand in channels of their own; raise if one has two values."""
    if len(decision.params) + sum(map(len, given.values())) > MAX_DECISION_CHARS:
        raise DecisionError(f"with its channels it has more than {MAX_DECISION_CHARS} characters")
    params = _OBJECT.decode(decision.params)
    filled = params | _merge_texts(params, given, inside="tool_call.params.")
    return msgspec.structs.replace(decision, params=msgspec.json.encode(filled).decode())


class DecisionStream:
    """Returns the string fields of a decision while it is written, equal to those that `parse_decision` finds later."""

    __slots__ = ("_left", "_opening", "_scanner")

    def __init__(self, fields: Iterable[str] = STREAMED_FIELDS) -> None:
        self._scanner = FieldScanner(fields)
        self._left = MAX_DECISION_CHARS  # characters that can still belong to the decision
        self._opening: str | None = ""  # text before the object, without white space; None once the object begins

    def feed(self, text: str) -> list[FieldEvent]:
        """Return the events of the next piece of text; none once the text cannot be a decision."""
        text = text[: self._left]
        self._left -= len(text)
        if self._opening is None:
            return self._scanner.feed(text)
        brace = text.find("{")
        before = text if brace < 0 else text[:brace]
        self._opening = (self._opening + _squeeze(before))[: _LONGEST_OPENING + 1]
        if brace < 0:
            return []
        if self._opening not in _OPENINGS:
            self._opening = "{"  # not a valid opening, so no object can begin
            return []
        self._opening = None
        return self._scanner.feed(text[brace:])

    @property
    def current(self) -> str | None:
        """Path of the open string value, empty if that field is not followed; None if no string is open."""
        return self._scanner.current

    @property
    def remaining_chars(self) -> int:
        """Number of characters that can still belong to the decision."""
        return self._left

    def record_skipped(self, chars: int) -> None:
        """Record that many characters of the current string bypassed `feed`."""
        self._left -= chars
        self._scanner.record_skipped(chars)


_OPENINGS: Final = ("", "```", "```json")
_LONGEST_OPENING: Final = max(map(len, _OPENINGS))


def _squeeze(text: str) -> str:
    return "".join(text.split()).lower()


def _object_span(text: str) -> tuple[int, int]:
    """Return where the object begins and where the last character that may belong to it ends."""
    start = text.find("{")
    opening = _squeeze(text[:start] if start >= 0 else text)
    if start < 0:
        raise DecisionError("it is empty" if not opening else f"there is no JSON object in it, it begins {text[:40]!r}")
    if opening not in _OPENINGS:
        raise DecisionError(f"text stands before the JSON object, it begins {text.lstrip()[:40]!r}")
    end = len(text.rstrip())
    if opening and text.endswith("```", start, end):
        end = len(text[: end - 3].rstrip())
    return start, end


def _check_structure(text: str, start: int, end: int) -> None:
    """Raise unless the text is one JSON object of limited depth without duplicate keys."""
    # Acceptance does not depend on the paths, and scanning without paths is fastest.
    scanner = FieldScanner(())
    scanner.feed(text[start:end])
    if scanner.problem is not None:
        raise DecisionError(f"{_describe_position(text, start + scanner.problem.at)}, {scanner.problem.what}")
    if scanner.end is None:
        raise DecisionError(f"{_describe_position(text, end)}, the text ends before the object is closed")
    if start + scanner.end < end:
        place = _describe_position(text, start + scanner.end)
        raise DecisionError(f"{place}, more text follows the object; one channel holds one decision")


def _describe_position(text: str, at: int) -> str:
    line_start = text.rfind("\n", 0, at) + 1
    return f"at line {text.count(chr(10), 0, at) + 1}, column {at - line_start + 1}"


def _decode_fields(document: str) -> Mapping[str, msgspec.Raw]:
    data = replace_lone_escapes(document).encode()
    try:
        msgspec.json.decode(data)  # decodes every value; the next line keeps them raw
        return _OBJECT.decode(data)
    except msgspec.DecodeError as error:  # the grammar is checked already, so this is a number out of range
        raise DecisionError(str(error)) from None


_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _expand_call(fields: Mapping[str, msgspec.Raw]) -> Mapping[str, msgspec.Raw]:
    """Return the decision of a call that stands alone; any other object unchanged."""
    if "tool_id" not in fields or not fields.keys().isdisjoint(("action", "tool_call")):
        return fields
    call = {name: fields[name] for name in ("tool_id", "params") if name in fields}
    others = {name: value for name, value in fields.items() if name not in call}
    return {**others, "action": _CALL_TOOL, "tool_call": msgspec.Raw(msgspec.json.encode(call))}


_CALL_TOOL: Final = msgspec.Raw(b'"call_tool"')


def _merge_texts(
    fields: Mapping[str, msgspec.Raw], given: Mapping[str, str], inside: str = ""
) -> dict[str, msgspec.Raw]:
    """Return the fields that stand in channels; one that the object also has must have the same text or none."""
    merged: dict[str, msgspec.Raw] = {}
    for name, text in given.items():
        written = _read_field(fields, name, _TEXT, inside) or ""
        if written.strip() and text.strip() and unescape_tags(written) != unescape_tags(text):
            raise DecisionError(
                f"`{inside}{name}` and the channel `{name}` have different texts; write the text in one of them"
            )
        if not written.strip():
            merged[name] = msgspec.Raw(msgspec.json.encode(text))
    return merged


def _build_decision(fields: Mapping[str, msgspec.Raw]) -> Decision:
    notes = _read_text(fields, "notes")
    action = _read_text(fields, "action")
    match action:
        case "call_tool":
            call = _read_tool_call(fields)
            ignored = [
                *_unknown_names(fields, _FIELDS),
                *_nonempty_names(fields, "final_answer", "suggested_followups"),
            ]
            ignored += [f"tool_call.{name}" for name in _unknown_names(call, ("tool_id", "params"))]
            return CallToolDecision(_read_tool_id(call), _read_params(call), notes, tuple(ignored))
        case "complete" | "exit":
            answer = _read_text(fields, "final_answer")
            followups = _read_followups(fields)
            ignored = (*_unknown_names(fields, _FIELDS), *_nonempty_names(fields, "tool_call"))
            if action == "exit":
                return ExitDecision(answer, followups, notes, ignored)
            if not answer.strip():
                raise DecisionError("the action is `complete` and `final_answer` is empty; write the answer there")
            return CompleteDecision(answer, followups, notes, ignored)
        case _:
            got = f"got {action[:40]!r}" if action else "it is missing or empty"
            raise DecisionError(f"`action` must be `call_tool`, `complete` or `exit`, {got}")


_FIELDS: Final = ("action", "notes", "tool_call", "final_answer", "suggested_followups")
_MAX_IGNORED: Final = 20

_TEXT: msgspec.json.Decoder[str | None] = msgspec.json.Decoder(str | None)
_TEXTS: msgspec.json.Decoder[tuple[str, ...] | None] = msgspec.json.Decoder(tuple[str, ...] | None)
_MAYBE_OBJECT: msgspec.json.Decoder[dict[str, msgspec.Raw] | None] = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)


def _read_text(fields: Mapping[str, msgspec.Raw], name: str) -> str:
    return _read_field(fields, name, _TEXT) or ""


def _read_followups(fields: Mapping[str, msgspec.Raw]) -> tuple[str, ...]:
    return tuple(text for text in _read_field(fields, "suggested_followups", _TEXTS) or () if text.strip())


def _read_tool_call(fields: Mapping[str, msgspec.Raw]) -> Mapping[str, msgspec.Raw]:
    call = _read_field(fields, "tool_call", _MAYBE_OBJECT)
    if not call:
        raise DecisionError("the action is `call_tool` and `tool_call` is missing or empty")
    return call


def _read_tool_id(call: Mapping[str, msgspec.Raw]) -> str:
    tool_id = _read_field(call, "tool_id", _TEXT, inside="tool_call.")
    if not tool_id or not tool_id.strip():
        raise DecisionError("the action is `call_tool` and `tool_call.tool_id` is missing or empty")
    return tool_id


def _read_params(call: Mapping[str, msgspec.Raw]) -> str:
    if _read_field(call, "params", _MAYBE_OBJECT, inside="tool_call.") is None:
        return "{}"
    return bytes(call["params"]).decode()


def _read_field(
    fields: Mapping[str, msgspec.Raw], name: str, decoder: msgspec.json.Decoder[_T], inside: str = ""
) -> _T | None:
    """Return the value of a field; None if it is missing or null."""
    if name not in fields:
        return None
    try:
        return decoder.decode(fields[name])
    except msgspec.ValidationError as error:
        raise DecisionError(f"the field `{inside}{name}` has the wrong type: {error}") from None


def _unknown_names(fields: Mapping[str, msgspec.Raw], known: Iterable[str]) -> list[str]:
    return [name[:60] for name in fields if name not in known][:_MAX_IGNORED]


def _nonempty_names(fields: Mapping[str, msgspec.Raw], *names: str) -> list[str]:
    """Return the names whose fields are not empty; empty values only repeat the template."""
    return [name for name in names if name in fields and _is_nonempty(fields[name])]


def _is_nonempty(raw: msgspec.Raw) -> bool:
    if bytes(raw).startswith(b"{"):
        return any(msgspec.json.decode(value) for value in _OBJECT.decode(raw).values())
    return bool(msgspec.json.decode(raw))
