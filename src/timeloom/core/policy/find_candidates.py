"""Finds the JSON objects of a reply that may be meant as its decision.

Thoughts, quotes and code hold no candidates. A candidate that cannot be read makes the reply ambiguous.
"""

import html
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

import msgspec

from timeloom.core.policy.vendor_calls import (
    AmbiguousReplyError,
    find_function_call,
    find_labelled_calls,
    make_call,
    read_tagged_parameters,
    split_name,
)
from timeloom.core.stream.lenient_json import INVISIBLE, LenientJson, LenientJsonError, read_lenient_json
from timeloom.core.stream.quoted_text import FENCE, FENCE_LINE, CodeSpans, is_quoted, is_spoken_about
from timeloom.core.stream.reply_regions import Region, split_regions

MAX_ATTEMPTS: Final = 40
"""Most places of one reply at which an object is read. More would make a reply of braces slow."""


class Candidate(msgspec.Struct, frozen=True):
    """A value that may be the decision: its original text, its strict JSON and the repairs that it needed."""

    written: str
    json: str
    repairs: frozenset[str]


def find_candidates(regions: list[Region], *, is_cut: bool, is_tool: Callable[[str], bool]) -> list[Candidate]:
    """Return the candidates of the regions; raise `AmbiguousReplyError` if one of them cannot be read.

    `is_cut` says that the reply reached its length limit, so that its end may be missing.
    """
    finder = _Finder(is_cut, is_tool)
    return [found for at in range(len(regions)) for found in finder.find(regions, at)]


class _Finder:
    """Reads objects in the regions of one reply, up to the limit of attempts."""

    def __init__(self, is_cut: bool, is_tool: Callable[[str], bool]) -> None:
        self._is_cut = is_cut
        self._is_tool = is_tool
        self._attempts = 0

    def find(self, regions: Sequence[Region], at: int) -> Iterator[Candidate]:
        region, is_last = regions[at], at == len(regions) - 1
        may_close = region.is_closed or (is_last and not self._is_cut)
        match region.kind:
            case "decision":
                yield from self._find_in_channel(region, may_close)
            case "answer":
                yield self._read_answer(region, may_close)
            case "call":
                if not is_spoken_about(*_text_around(regions, at)):
                    yield self._read_call(region, may_close)
            case "outside":
                yield from self._find_outside(region.text, is_last and not self._is_cut, len(regions))
            case _:
                pass

    def _find_in_channel(self, region: Region, may_close: bool) -> Iterator[Candidate]:
        """Return the candidates of a decision's channel; it may hold thoughts or a call in another format."""
        tags = frozenset[str]() if region.is_exact else frozenset({"tags"})
        text, unwrapped = _unwrap(region.text if region.is_closed else _CUT_TAG.sub("", region.text))
        inner = split_regions(text)
        if any(one.kind in ("call", "thinking") for one in inner) and not text.lstrip().startswith(("{", "[")):
            parts = [msgspec.structs.replace(one, kind=_INNER_KINDS.get(one.kind, one.kind)) for one in inner]
        else:
            parts = [Region("decision", text, region.is_closed)]
        for part in parts:
            if part.kind == "call":
                yield self._read_call(part, may_close)
            elif part.kind == "decision":
                for found in self._find_objects(part.text, may_close, is_decision=True, is_whole=region.is_closed):
                    yield msgspec.structs.replace(found, repairs=found.repairs | tags | unwrapped)

    def _read_answer(self, region: Region, may_close: bool) -> Candidate:
        """Return the decision of a channel for the final answer, which may be plain text."""
        text = region.text.strip()
        if text.startswith(("{", "[", "```")):
            found = list(self._find_in_channel(region, may_close))
            if len(found) == 1:
                return found[0]
        elif text and may_close and not _PROTOCOL_TEXT.search(text):
            value = msgspec.json.encode({"action": "complete", "final_answer": text}).decode()
            return Candidate(region.text, value, frozenset({"answer_channel"}))
        raise AmbiguousReplyError("the final answer cannot be read")

    def _find_outside(self, text: str, may_close: bool, regions: int) -> Iterator[Candidate]:
        if "{&quot;" in text:
            text = html.unescape(text)
        call = find_function_call(text) if regions == 1 else None
        if call and self._is_tool(_name_of(call.json)):
            yield Candidate(text, call.json, frozenset({*call.repairs, "vendor_format"}))
            return
        is_code = CodeSpans(text)
        labelled = [one for one in find_labelled_calls(text) if one.start not in is_code]
        for one in labelled:
            written = text[one.start : one.end]
            if not is_spoken_about(text[: one.start], text[one.end :]):
                yield Candidate(written, one.json, frozenset({*one.repairs, "vendor_format"}))
        if not labelled:
            yield from self._find_objects(text, may_close, is_decision=False)

    def _find_objects(
        self, text: str, may_close: bool, *, is_decision: bool, is_whole: bool = False
    ) -> Iterator[Candidate]:
        done, is_code = 0, CodeSpans(text)
        for found in _OBJECT_START.finditer(text):
            at = found.start()
            if at < done or at in is_code:
                continue
            if not is_decision and is_quoted(text, at):
                # An object inside the quoted one is quoted as well.
                done = text.find("\n", at) if "\n" in text[at:] else len(text)
                continue
            value = self._read(text, at, may_close, is_whole)
            if value is None:
                if is_decision or _DECISION_KEY.match(text, at):
                    raise AmbiguousReplyError("an object that may be the decision cannot be read")
                continue
            done = value.end
            if (is_decision or self._is_decision_like(value.text)) and not is_spoken_about(text[:at], text[done:]):
                yield _make_candidate(text, at, value, is_decision=is_decision)

    def _read(self, text: str, at: int, may_close: bool, is_whole: bool = False) -> LenientJson | None:
        self._attempts += 1
        if self._attempts > MAX_ATTEMPTS:
            raise AmbiguousReplyError("the reply has too many objects")
        # A fenced object ends at its fence, unless the fence stands in one of its strings.
        fence = FENCE_LINE.search(text, at)
        try:
            return read_lenient_json(text, at, may_close=may_close, is_whole=is_whole)
        except LenientJsonError:
            if not fence:
                return None
        try:
            return read_lenient_json(text[: fence.start()], at, may_close=True, is_whole=True)
        except LenientJsonError:
            return None

    def _read_call(self, region: Region, may_close: bool) -> Candidate:
        """Return the call of another vendor's format as an object with `name` and `arguments`."""
        name, text = split_name(region.text, region.name)
        written = region.text if _WORD.search(region.text) else f"function={region.name}"
        if name and (arguments := read_tagged_parameters(text)):
            return Candidate(written, make_call(name, arguments), frozenset({"vendor_format"}))
        if call := find_function_call(text):
            return Candidate(written, call.json, frozenset({*call.repairs, "vendor_format"}))
        found = list(self._find_objects(text, may_close, is_decision=True, is_whole=region.is_closed))
        if len(found) != 1:
            raise AmbiguousReplyError("a tool call has exactly one object")
        (only,) = found
        value = make_call(name, only.json) if name else only.json
        return Candidate(written, value, only.repairs - {"surrounding_text"} | {"vendor_format"})

    def _is_decision_like(self, text: str) -> bool:
        value = msgspec.json.decode(text)
        if isinstance(value, list) and len(cast(list[object], value)) == 1:
            value = cast(list[object], value)[0]
        if not isinstance(value, dict):
            return False
        names = cast(dict[str, object], value)
        keys = frozenset(re.sub(r"[\W_]+", "", key).lower() for key in names)
        is_call = not keys.isdisjoint(_NAME_KEYS) and not keys.isdisjoint(_PARAMS_KEYS)
        if is_call or not keys.isdisjoint(_DECISION_KEYS) or any(_WRAPPER_KEY.match(key) for key in keys):
            return True
        return len(names) == 1 and all(isinstance(names[key], dict) and self._is_tool(key) for key in names)


def _text_around(regions: Sequence[Region], at: int) -> tuple[str, str]:
    """Return the text outside all regions directly before and after a region."""
    before, after = regions[at - 1 : at] if at else (), regions[at + 1 : at + 2]
    texts = ["".join(one.text for one in side if one.kind == "outside") for side in (before, after)]
    return texts[0], texts[1]


def _unwrap(text: str) -> tuple[str, frozenset[str]]:
    """Return the text of a decision without an escaping or a wrapping that covers all of it."""
    stripped = text.strip()
    if _ENTITY_OBJECT.match(stripped):
        return html.unescape(text), frozenset({"escaped_json"})
    quoted = f'"{stripped}"' if _ESCAPED_OBJECT.match(stripped) else stripped
    if quoted.startswith('"{'):
        try:
            return json.loads(quoted), frozenset({"escaped_json"})
        except ValueError:
            return text, frozenset()
    if _OPEN_KEY.match(stripped):
        return "{" + text, frozenset({"missing_brace"})
    body = stripped
    while found := FENCE_LINE.match(body):
        body = body[found.end() :].strip()
        body, last = body.rpartition("\n")[::2] if "\n" in body else (body, "")
        body = body if FENCE_LINE.fullmatch(last) else f"{body}\n{last}".strip()
    if body != stripped and body.startswith(("{", "[")):
        return body, frozenset({"surrounding_text"})
    return text, frozenset()


def _make_candidate(text: str, at: int, value: LenientJson, *, is_decision: bool) -> Candidate:
    repairs = set(value.repairs)
    rest = text[value.end :]
    around = _WRAPPING.sub("", text[:at] + rest)
    extra = _EXTRA_BRACES.match(rest)
    before = _WRAPPING.sub("", text[:at])
    if extra and is_decision and not _WRAPPING.sub("", rest[extra.end() :]):
        repairs.add("extra_brace")
        around = "" if before == "{" else before
    if any(mark in INVISIBLE for mark in text[:at] + rest):
        repairs.add("invisible_character")
    if around:
        repairs.add("surrounding_text")
    if not is_decision:
        repairs.add("bare_decision")
    return Candidate(text[at : value.end], value.text, frozenset(repairs))


def _name_of(call: str) -> str:
    return msgspec.json.decode(call)["name"]


_INNER_KINDS: Final = {"outside": "decision"}
_OBJECT_START: Final = re.compile(r"\[\s*\{|[{｛](?!\s*\{)")
_WORD: Final = re.compile(r"\w")
_WRAPPING: Final = re.compile(rf"[\s{INVISIBLE}]+|{FENCE}(?:json[5c]?)?[ \t]{{0,4}}$", re.MULTILINE | re.IGNORECASE)
_EXTRA_BRACES: Final = re.compile(r"\s*[}\]](?:\s*[}\]])*")
_CUT_TAG: Final = re.compile(r"</?[A-Za-z:_]{0,64}\Z")
_ENTITY_OBJECT: Final = re.compile(r"\{\s*&(?:quot|#34|#x22);", re.IGNORECASE)
_ESCAPED_OBJECT: Final = re.compile(r"\{(?:\\[nrt]|\s)*\\\"")
_OPEN_KEY: Final = re.compile(r"\"(?:action|notes|tool_call|final_answer)\"\s*:")
_PROTOCOL_TEXT: Final = re.compile(r"<\s*/?\s*(?:channel|tool_call|function|invoke|parameter)\b", re.IGNORECASE)
_DECISION_KEYS: Final = frozenset(
    ("action", "toolcall", "toolcalls", "toolid", "finalanswer", "decision", "function", "functioncall", "tooluses")
)
_NAME_KEYS: Final = frozenset(("name", "tool", "toolname", "function", "functionname", "recipientname"))
_WRAPPER_KEY: Final = re.compile(r"(?:channel)?reactdecision|channelaction$")
_PARAMS_KEYS: Final = frozenset(
    ("arguments", "params", "parameters", "args", "input", "kwargs", "toolinput", "actioninput")
)
_DECISION_KEY: Final = re.compile(
    r"(?:\[\s*)?\{\s*[\"'“]?(?:notes|action|tool_calls?|tool_id|final_answer|name|tool|tool_name|function)\b"
)
