"""Reads tool calls in the formats of other vendors: parameters in tags, `name(a=1)`, `Action: …`, names before JSON.

Each reader returns the call as the JSON object `{"name": …, "arguments": …}`.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.core.stream.lenient_json import LenientJson, LenientJsonError, read_lenient_json
from timeloom.core.stream.quoted_text import FENCE_LINE


class AmbiguousReplyError(ValueError):
    """The reply may have more than one reading."""


class VendorCall(msgspec.Struct, frozen=True):
    """A call of another format: where it stands in its text, its strict JSON, and the repairs of the JSON."""

    start: int
    end: int
    json: str
    repairs: tuple[str, ...] = ()


def make_call(name: str, arguments: str) -> str:
    """Return the JSON of a call with these arguments, which are a JSON object."""
    return f'{{"name":{msgspec.json.encode(name).decode()},"arguments":{arguments}}}'


def split_name(text: str, name: str) -> tuple[str, str]:
    """Return the tool that a call names before its arguments, and the arguments.

    `name` is the tool that the tag of the call names already.
    """
    if inner := _FUNCTION.search(text):
        return inner[1], text[inner.end() :]
    if tagged := _NAME_TAG.search(text):
        return tagged[2], text[: tagged.start()] + text[tagged.end() :]
    begin = _ARGUMENTS_START.search(text)
    before = _SEPARATOR.sub(" ", FENCE_LINE.sub(" ", text[: begin.start() if begin else 0])).split()
    words = before[1:] if before[:1] == ["function"] else before
    if begin is None or name or len(words) != 1 or not _WHOLE_NAME.fullmatch(words[0]):
        return name, text
    return words[0], text[begin.start() :]


def read_tagged_parameters(text: str) -> str | None:
    """Return the parameters that are written as tags, as a JSON object; None if there are none."""
    arguments: dict[str, str] = {}
    if _ARGUMENT_KEY.search(text):
        pairs = _ARGUMENT_PAIR.findall(text)
        if len(pairs) != len(_ARGUMENT_KEY.findall(text)):
            raise AmbiguousReplyError("a parameter is not closed")
        found = [(name.strip(), value) for name, value in pairs]
    elif opened := _PARAMETERS_TAG.search(text):
        inner = text[opened.end() : text.rfind(f"</{opened[1]}>")]
        if _CHILD.sub("", inner).strip():
            raise AmbiguousReplyError("a parameter cannot be read")
        found = [(name, value) for name, value in _CHILD.findall(inner)]
    else:
        found = _find_parameters(text)
    for name, value in found:
        if name in arguments:
            raise AmbiguousReplyError("a parameter is given twice")
        arguments[name] = value.strip("\r\n")
    return msgspec.json.encode(arguments).decode() if arguments else None


def _find_parameters(text: str) -> list[tuple[str, str]]:
    """Return the parameters of `<parameter=name>value</parameter>` and `<parameter name="name">value</parameter>`."""
    found: list[tuple[str, str]] = []
    at = 0
    while tag := _PARAMETER.search(text, at):
        end = text.find(_PARAMETER_END, tag.end())
        if end < 0:
            raise AmbiguousReplyError("a parameter is not closed")
        found.append((tag[1], text[tag.end() : end]))
        at = end + len(_PARAMETER_END)
    return found


def find_function_call(text: str) -> VendorCall | None:
    """Return the call if the whole text is `name(a=1, b="x")`, also in brackets; None if it is not."""
    found = _CALL_START.match(text)
    if not found:
        return None
    at, members, repairs, names = found.end(), list[str](), set[str](), set[str]()
    while name := _KEYWORD.match(text, at):
        value = _read_value(text, name.end())
        if value is None or name[1] in names:
            return None
        names.add(name[1])
        members.append(f'"{name[1]}":{value.text}')
        repairs |= set(value.repairs)
        comma = _COMMA.match(text, value.end)
        at = comma.end() if comma else value.end
    end = _CALL_END.match(text, at)
    if not end or bool(found[1]) != bool(end[1]):
        return None
    return VendorCall(0, len(text), make_call(found[2], "{" + ",".join(members) + "}"), tuple(repairs))


def find_labelled_calls(text: str) -> Sequence[VendorCall]:
    """Return the calls of the form `Action: name` and `Action Input: {…}` on lines of their own."""
    found: list[VendorCall] = []
    for label in _LABELS.finditer(text):
        if len(found) == _MAX_LABELLED:
            raise AmbiguousReplyError("the reply has several actions")
        value = _read_value(text, label.end())
        if value is None:
            raise AmbiguousReplyError("the input of an action cannot be read")
        rest = _OBSERVATION.search(text, value.end)
        if rest and rest[1].strip():
            raise AmbiguousReplyError("the reply continues after its action with an invented result")
        found.append(VendorCall(label.start(), value.end, make_call(label[1], value.text), value.repairs))
    return found


def _read_value(text: str, at: int) -> LenientJson | None:
    try:
        return read_lenient_json(text, at, may_close=False)
    except LenientJsonError:
        return None


_TOOL_NAME: Final = r"[\"']?([A-Za-z_][A-Za-z0-9_.:-]{0,127})[\"']?"
_S: Final = r"[ \t]{0,4}"
_FUNCTION: Final = re.compile(
    rf"<(?:function|invoke){_S}(?:name{_S})?={_S}{_TOOL_NAME}{_S}(?:>|(?=\{{))", re.IGNORECASE
)
_NAME_TAG: Final = re.compile(r"<(tool_id|tool_name|function_name|name)>\s{0,20}([^<>\s]{1,128})\s{0,20}</\1>")
_ARGUMENTS_START: Final = re.compile(r"\{|<(?![|｜])")
_WHOLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_SEPARATOR: Final = re.compile(r"[<\[][|｜]?[A-Za-z_▁]{1,40}[|｜]?[>\]]")
_PARAMETER: Final = re.compile(rf"<parameter{_S}(?:name{_S})?={_S}{_TOOL_NAME}{_S}>", re.IGNORECASE)
_PARAMETER_END: Final = "</parameter>"
_PARAMETERS_TAG: Final = re.compile(r"<(parameters|params|arguments|args)>(?=\s{0,200}<)")
_CHILD: Final = re.compile(r"<([A-Za-z_]\w{0,63})>([^<]*)</\1>")
_ARGUMENT_KEY: Final = re.compile(r"<arg_key>")
_ARGUMENT_PAIR: Final = re.compile(r"<arg_key>([^<]{1,128})</arg_key>\s{0,20}<arg_value>([^<]*)</arg_value>")
_CALL_START: Final = re.compile(r"\s*+(\[?)\s*+([A-Za-z_][A-Za-z0-9_.]{0,127})\(\s*+")
_KEYWORD: Final = re.compile(r"\s*+([A-Za-z_]\w{0,63})\s*+=\s*+")
_COMMA: Final = re.compile(r"\s*,")
_CALL_END: Final = re.compile(r"\s*+\)\s*+(\]?)\s*+\Z")
_MAX_LABELLED: Final = 2
"""Most labelled calls that are read. The same call may stand twice; more would make a reply of labels slow."""
_LABEL: Final = r"^[ \t*_]{0,6}"
_LABELS: Final = re.compile(
    rf"{_LABEL}(?:action|tool|function|tool name)[ \t*_]{{0,4}}:[ \t*_`]{{0,6}}"
    r"([A-Za-z_][A-Za-z0-9_.:-]{0,127})`?[ \t\r]{0,20}\n"
    rf"{_LABEL}(?:(?:action|tool)[ _])?(?:input|arguments|args|params|parameters)[ \t*_]{{0,4}}:[ \t*_]{{0,6}}"
    r"(?=\s{0,20}[{`])(?:\s{0,20}`{3}(?:json)?\s{0,20})?",
    re.MULTILINE | re.IGNORECASE,
)
_OBSERVATION: Final = re.compile(rf"{_LABEL}observation[ \t*_]{{0,4}}:([^\n]*\n?[^\n]*)", re.MULTILINE | re.IGNORECASE)
