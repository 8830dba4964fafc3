"""Finds the JSON objects of a reply that may be meant as its decision.

Thoughts, quotes and code hold no candidates. A candidate that cannot be read makes the reply ambiguous.
"""

import re
from collections.abc import Iterator
from typing import Final, cast

import msgspec

from timeloom.core.stream.lenient_json import INVISIBLE, LenientJson, LenientJsonError, read_lenient_json
from timeloom.core.stream.reply_regions import Region

MAX_ATTEMPTS: Final = 40
"""Most places of one reply at which an object is read. More would make a reply of braces slow."""


class Candidate(msgspec.Struct, frozen=True):
    """A value that may be the decision: its original text, its strict JSON and the repairs that it needed."""

    written: str
    json: str
    repairs: frozenset[str]


class AmbiguousReplyError(ValueError):
    """The reply may have more than one reading."""


def find_candidates(regions: list[Region], *, is_cut: bool) -> list[Candidate]:
    """Return the candidates of the regions; raise `AmbiguousReplyError` if one of them cannot be read.

    `is_cut` says that the reply reached its length limit, so that its end may be missing.
    """
    finder = _Finder(is_cut)
    return [found for at, region in enumerate(regions) for found in finder.find(region, at == len(regions) - 1)]


class _Finder:
    """Reads objects in the regions of one reply, up to the limit of attempts."""

    def __init__(self, is_cut: bool) -> None:
        self._is_cut = is_cut
        self._attempts = 0

    def find(self, region: Region, is_last: bool) -> Iterator[Candidate]:
        may_close = region.is_closed or (is_last and not self._is_cut)
        match region.kind:
            case "decision":
                for found in self._find_objects(region.text, may_close, is_decision=True):
                    tags = frozenset[str]() if region.is_exact else frozenset({"tags"})
                    yield msgspec.structs.replace(found, repairs=found.repairs | tags)
            case "call":
                yield self._read_call(region, may_close)
            case "outside":
                yield from self._find_objects(region.text, is_last and not self._is_cut, is_decision=False)
            case _:
                pass

    def _find_objects(self, text: str, may_close: bool, *, is_decision: bool) -> Iterator[Candidate]:
        done, is_code = 0, _CodeSpans(text)
        for found in _OBJECT_START.finditer(text):
            at = found.start()
            if at < done or at in is_code:
                continue
            if not is_decision and _is_quoted(text, at):
                # An object inside the quoted one is quoted as well.
                done = text.find("\n", at) if "\n" in text[at:] else len(text)
                continue
            value = self._read(text, at, may_close)
            if value is None:
                if is_decision or _DECISION_KEY.match(text, at):
                    raise AmbiguousReplyError("an object that may be the decision cannot be read")
                continue
            done = value.end
            if is_decision or _is_decision_like(value.text):
                yield _make_candidate(text, at, value, is_decision=is_decision)

    def _read(self, text: str, at: int, may_close: bool) -> LenientJson | None:
        self._attempts += 1
        if self._attempts > MAX_ATTEMPTS:
            raise AmbiguousReplyError("the reply has too many objects")
        # A fenced object ends at its fence.
        fence = _FENCE_LINE.search(text, at)
        limit = fence.start() if fence else len(text)
        try:
            return read_lenient_json(text[:limit], at, may_close=may_close or bool(fence))
        except LenientJsonError:
            return None

    def _read_call(self, region: Region, may_close: bool) -> Candidate:
        """Return the call of another vendor's format as an object with `name` and `arguments`."""
        text, name = region.text, region.name
        if inner := _FUNCTION.search(text):
            name, text = inner[1], text[inner.end() :]
        if arguments := _read_parameters(text):
            value = msgspec.json.encode({"name": name, "arguments": arguments}).decode()
            return Candidate(region.text, value, frozenset({"vendor_format"}))
        found = list(self._find_objects(text, may_close, is_decision=True))
        if len(found) != 1:
            raise AmbiguousReplyError("a tool call has exactly one object")
        (only,) = found
        value = f'{{"name":{msgspec.json.encode(name).decode()},"arguments":{only.json}}}' if name else only.json
        return Candidate(region.text, value, only.repairs - {"surrounding_text"} | {"vendor_format"})


def _read_parameters(text: str) -> dict[str, str]:
    """Return the parameters that are written as tags: `<parameter=name>value</parameter>`."""
    arguments: dict[str, str] = {}
    at = 0
    while found := _PARAMETER.search(text, at):
        end = text.find(_PARAMETER_END, found.end())
        if end < 0 or found[1] in arguments:
            raise AmbiguousReplyError("a parameter is given twice or not closed")
        arguments[found[1]] = text[found.end() : end].strip("\n")
        at = end + len(_PARAMETER_END)
    return arguments


def _make_candidate(text: str, at: int, value: LenientJson, *, is_decision: bool) -> Candidate:
    repairs = set(value.repairs)
    rest = text[value.end :]
    around = _WRAPPING.sub("", text[:at] + rest)
    extra = _EXTRA_BRACES.match(rest)
    if extra and is_decision and not _WRAPPING.sub("", rest[extra.end() :]):
        repairs.add("extra_brace")
        around = _WRAPPING.sub("", text[:at])
    if any(mark in INVISIBLE for mark in text[:at] + rest):
        repairs.add("invisible_character")
    if around:
        repairs.add("surrounding_text")
    if not is_decision:
        repairs.add("bare_decision")
    return Candidate(text[at : value.end], value.text, frozenset(repairs))


def _is_decision_like(text: str) -> bool:
    value = msgspec.json.decode(text)
    if isinstance(value, list) and len(cast(list[object], value)) == 1:
        value = cast(list[object], value)[0]
    if not isinstance(value, dict):
        return False
    keys = frozenset(cast(dict[str, object], value))
    is_call = not keys.isdisjoint(_NAME_KEYS) and not keys.isdisjoint(_PARAMS_KEYS)
    return is_call or "function" in keys or not keys.isdisjoint(_DECISION_KEYS)


def _is_quoted(text: str, at: int) -> bool:
    """Whether the place lies in a quoted line, in backticks, or directly after a quotation mark."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line.lstrip().startswith((">", "|")) or line.count("`") % 2 == 1 or line.rstrip()[-1:] in tuple("\"'“‘«")


class _CodeSpans:
    """The fenced blocks of a text that are not JSON; places are asked for in ascending order."""

    def __init__(self, text: str) -> None:
        self._fences = _FENCE_LINE.finditer(text)
        self._next = next(self._fences, None)
        self._language: str | None = None

    def __contains__(self, at: int) -> bool:
        while self._next is not None and self._next.start() < at:
            self._language = self._next[1].lower() if self._language is None else None
            self._next = next(self._fences, None)
        return self._language not in (None, "", "json", "json5", "jsonc")


_FENCE: Final = r"^[ \t]{0,4}(?:`{3,}|~{3,})[ \t]{0,4}"
_TOOL_NAME: Final = r"[\"']?([A-Za-z_][A-Za-z0-9_.:-]{0,127})[\"']?"
_OBJECT_START: Final = re.compile(r"\[\s*\{|\{")
_FENCE_LINE: Final = re.compile(rf"{_FENCE}([A-Za-z0-9_+-]*)[ \t]{{0,4}}$", re.MULTILINE)
_WRAPPING: Final = re.compile(rf"[\s{INVISIBLE}]+|{_FENCE}(?:json[5c]?)?[ \t]{{0,4}}$", re.MULTILINE | re.IGNORECASE)
_EXTRA_BRACES: Final = re.compile(r"\s*[}\]](?:\s*[}\]])*")
_FUNCTION: Final = re.compile(rf"<function[ \t]{{0,4}}=[ \t]{{0,4}}{_TOOL_NAME}[ \t]{{0,4}}>", re.IGNORECASE)
_PARAMETER: Final = re.compile(rf"<parameter[ \t]{{0,4}}=[ \t]{{0,4}}{_TOOL_NAME}[ \t]{{0,4}}>", re.IGNORECASE)
_PARAMETER_END: Final = "</parameter>"
_DECISION_KEYS: Final = ("action", "tool_call", "tool_calls", "tool_id", "final_answer")
_NAME_KEYS: Final = ("name", "tool", "tool_name", "function")
_PARAMS_KEYS: Final = ("arguments", "params", "parameters", "args")
_DECISION_KEY: Final = re.compile(rf"(?:\[\s*)?\{{\s*[\"']?(?:notes|{'|'.join((*_DECISION_KEYS, *_NAME_KEYS))})\b")
