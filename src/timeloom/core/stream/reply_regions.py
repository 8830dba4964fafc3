"""Splits a reply into regions by the tags that models write in place of the declared ones.

The split is generous to slips: other case or spaces in tags, `</channel>`, names such as `<channel:decision>`,
`<think>` for thinking, and the tool call tags of other formats. A region ends at its own close tag. Text that was
thought stays thought: an open tag inside thoughts begins a region only if no later close tag ends the thoughts.
"""

import re
from collections.abc import Container, Mapping
from typing import Final, Literal

import msgspec

from timeloom.core.stream.channels import DECLARED, RAW_FIELDS
from timeloom.core.stream.lenient_json import INVISIBLE
from timeloom.core.stream.quoted_text import CodeSpans, is_quoted

RegionKind = Literal[
    "outside", "thinking", "decision", "answer", "code", "summary", "call", "content", "patch", "notes", "other"
]
"""The kind of a region; `call` is a tool call in the format of another vendor, `answer` a final answer."""

RAW_KINDS: Final[Mapping[RegionKind, str]] = {
    "answer": "final_answer",
    "content": "content",
    "patch": "patch",
    "notes": "notes",
}
"""From edition 2 on, the kinds of regions that hold a field of a decision as raw text, with the names of the fields."""


class Region(msgspec.Struct, frozen=True):
    """A part of a reply without its tags; `name` is the tool that the tag of a `call` names."""

    kind: RegionKind
    text: str
    is_closed: bool = True
    name: str = ""
    is_exact: bool = True
    """Whether its tags are spelled as declared."""
    start: int = 0
    end: int = 0
    """Where its open tag begins and where its close tag ends."""


def split_regions(text: str, edition: int = 1) -> list[Region]:
    """Return the regions of a reply in order; text between tags is `outside`."""
    tags = [_read_tag(found, edition) for found in _TAG.finditer(text)]
    return _Splitter(text, tags, edition).split()


def kind_of_channel(name: str) -> RegionKind:
    """Return the kind of the channel that a tag with this name means; `other` for a name of no known channel."""
    plain = re.sub(r"[_.\-:]", "", name).lower()
    return "decision" if plain.startswith("reactdecision") else _KIND_BY_NAME.get(plain, "other")


Family = Literal["channel", "think", "call", "plain", "token"]


class _Tag(msgspec.Struct, frozen=True):
    start: int
    end: int
    is_close: bool
    family: Family
    kind: RegionKind
    name: str = ""
    is_exact: bool = False


class _Splitter:
    """Walks over the tags of a reply and collects its regions."""

    def __init__(self, text: str, tags: list[_Tag], edition: int) -> None:
        self._text = text
        self._tags = tags
        self._raw_kinds: Container[RegionKind] = RAW_KINDS if edition > 1 else ()
        self._last_close: dict[str, int] = {}
        self._last_exact_close: dict[str, int] = {}
        for tag in tags:
            if tag.is_close:
                self._last_close[tag.kind] = tag.start
                self._last_close[tag.name] = tag.start
                if tag.is_exact:
                    self._last_exact_close[tag.name] = tag.start
        self._regions: list[Region] = []
        self._open: _Tag | None = None
        self._start = 0

    def split(self) -> list[Region]:
        for tag in self._tags:
            if self._open is None:
                self._read_outside(tag)
            elif tag.is_close:
                if self._closes(self._open, tag):
                    self._finish(self._open, tag)
            elif self._is_interrupted(self._open, tag):
                self._finish(self._open, tag, is_closed=False)
                self._begin(tag)
        self._finish_last()
        return [region for region in self._regions if region.kind != "outside" or region.text.strip()]

    def _read_outside(self, tag: _Tag) -> None:
        if tag.is_close:
            if tag.kind == "thinking":
                # A close tag without its open tag: everything before it was thought.
                self._regions = [Region("thinking", self._text[: tag.start])]
                self._start = tag.end
            return
        if tag.family == "plain" and self._last_close.get(tag.name, -1) < tag.start:
            return  # an ordinary tag that nothing closes is text
        is_carried_out = tag.kind in ("decision", "answer", "call") or tag.kind in self._raw_kinds
        if is_carried_out and self._is_quoted(tag):
            tag = msgspec.structs.replace(tag, kind="other")
        self._add("outside", tag.start)
        self._begin(tag)

    def _is_quoted(self, tag: _Tag) -> bool:
        """Whether the tag stands in code or in a quote, so that its region is only shown."""
        outside = self._text[self._start : tag.start]
        return is_quoted(outside, len(outside)) or len(outside) in CodeSpans(outside, ("xml",))

    def _is_interrupted(self, opened: _Tag, tag: _Tag) -> bool:
        """Whether this open tag ends the open region, because its close tag was forgotten."""
        if opened.family == "token":
            return tag.family == "token"
        if tag.family != "channel" or not _starts_line(self._text, tag.start):
            return False
        if opened.kind == "thinking":
            return self._last_close.get("thinking", -1) < tag.start
        if opened.kind in self._raw_kinds:
            return False
        return opened.kind in ("decision", "answer", "summary", "call")

    def _closes(self, opened: _Tag, tag: _Tag) -> bool:
        if opened.kind == "thinking" and tag.kind == "thinking":
            return True
        if tag.family != opened.family:
            return False
        if opened.family == "channel":
            if opened.kind in self._raw_kinds and opened.is_exact and not tag.is_exact:
                # Another tag closes a raw channel only if its own close tag is missing.
                is_kind = tag.kind == opened.kind or not tag.name
                return is_kind and self._last_exact_close.get(opened.name, -1) < tag.start
            if not tag.name:
                # `</channel>` closes any channel whose close tag does not follow later.
                return self._last_close.get(opened.kind, -1) < tag.start
            return tag.kind == opened.kind and (tag.kind != "other" or tag.name == opened.name)
        return opened.family != "plain" or tag.name == opened.name

    def _begin(self, tag: _Tag) -> None:
        self._open, self._start = tag, tag.end

    def _finish(self, opened: _Tag, tag: _Tag, *, is_closed: bool = True) -> None:
        is_exact = opened.is_exact and tag.is_exact and is_closed
        self._add(opened.kind, tag.start, is_closed=is_closed, name=opened.name, is_exact=is_exact)
        end = tag.end if is_closed else tag.start
        self._regions[-1] = msgspec.structs.replace(self._regions[-1], start=opened.start, end=end)
        self._open, self._start = None, tag.end

    def _finish_last(self) -> None:
        opened = self._open
        if opened is None:
            self._add("outside", len(self._text))
        else:
            end = len(self._text)
            self._add(opened.kind, end, is_closed=False, name=opened.name, is_exact=opened.is_exact)
            self._regions[-1] = msgspec.structs.replace(self._regions[-1], start=opened.start, end=end)

    def _add(
        self, kind: RegionKind, end: int, *, is_closed: bool = True, name: str = "", is_exact: bool = True
    ) -> None:
        self._regions.append(Region(kind, self._text[self._start : end], is_closed, name, is_exact))


def _starts_line(text: str, at: int) -> bool:
    before = text[max(0, at - _MAX_INDENT) : at]
    return not before.rpartition("\n")[2].strip() and ("\n" in before or at <= _MAX_INDENT)


def _read_tag(found: re.Match[str], edition: int) -> _Tag:
    start, end = found.span()
    is_close = any(found[slash] for slash in ("slash", "slash2", "slash3"))
    if found["token"] or found["message"] is not None:
        return _read_token(found)
    if found["think"] or found["bracket"]:
        return _Tag(start, end, is_close, "think", "thinking")
    if found["call"] or found["function"]:
        return _Tag(start, end, is_close, "call", "call", found["function"] or "")
    if plain := found["plain"] or found["comment"]:
        is_end = is_close or plain == "-->"
        name = "<!--" if found["comment"] else plain.lower()
        return _Tag(start, end, is_end, "plain", kind_of_channel(name), name)
    name = found["channel"] or ""
    is_declared = name in _DECLARED_NAMES or (edition > 1 and name in RAW_FIELDS)
    is_exact = is_declared and found[0] == f"<{found['slash2']}channel:{name}>"
    kind = kind_of_channel(name)
    if kind == "other" and edition > 1:
        kind = _RAW_KIND_BY_NAME.get(name.lower(), kind)
    return _Tag(start, end, is_close, "channel", kind, name, is_exact)


def _read_token(found: re.Match[str]) -> _Tag:
    """Return the tag of a special token that a chat template should have removed."""
    start, end = found.span()
    if found["message"] is not None:
        name = found["recipient"] or ""
        kind = "call" if name else kind_of_channel(found["message"])
        return _Tag(start, end, False, "token", kind, name)
    token = re.sub(r"[^a-z]", "", found["token"].lower())
    if token.endswith("thought"):
        return _Tag(start, end, token.startswith("end"), "think", "thinking")
    is_close = token in _CLOSING_TOKENS or "/" in found["token"]
    return _Tag(start, end, is_close, "token", "call")


_MAX_INDENT: Final = 40
"""Most characters before a tag that are searched for the start of its line, so that one long line stays cheap."""

_DECLARED_NAMES: Final = frozenset(name for channel in DECLARED for name in (channel.name, *channel.aliases))


_KIND_BY_NAME: Final[dict[str, RegionKind]] = {
    **dict.fromkeys(("thinking", "think", "thought", "thoughts", "reasoning", "analysis"), "thinking"),
    **dict.fromkeys(("decision", "action", "toolcall", "toolcalls", "tooluse", "functioncall"), "decision"),
    **dict.fromkeys(("final", "finalanswer", "answer"), "answer"),
    **dict.fromkeys(("code", "python"), "code"),
    "summary": "summary",
}

_RAW_KIND_BY_NAME: Final[dict[str, RegionKind]] = {"content": "content", "patch": "patch", "notes": "notes"}

_CLOSING_TOKENS: Final = ("toolcallend", "endaction", "eomid", "call", "end", "return")

_S: Final = rf"[ \t{INVISIBLE}]{{0,4}}"
_TAG: Final = re.compile(
    rf"<{_S}(?P<slash>/?){_S}(?:"
    r"(?P<think>(?:seed:)?think|thinking|thoughts?|reasoning|reflection|scratchpad|analysis|antthinking"
    r"|in(?:ner|ternal)_monologue)"
    r"|(?P<call>tool_?calls?|tool_use|function_?calls?|(?:function|invoke)(?=[ \t]{0,4}>))"
    rf"|(?:function|invoke){_S}(?:name{_S})?={_S}[\"']?(?P<function>[A-Za-z_][A-Za-z0-9_.:-]{{0,127}})[\"']?"
    r"|(?P<plain>reactdecision\w{0,16}|decision|summary|code|python|examples?|quote|blockquote|draft|pre|details"
    r"|tool_responses?|tool_results?|observation)"
    rf"){_S}(?:>|(?=\{{))"
    r"|<\|channel\|>(?P<message>[A-Za-z_][A-Za-z0-9_.-]{0,63})(?:[ \t]{0,4}to=(?P<recipient>[A-Za-z0-9_.]{1,127}))?"
    r"[^<>\n]{0,40}(?:<\|constrain\|>\w{0,16})?[ \t]{0,4}<\|message\|>"
    rf"|[<\[‹]{{1,2}}\|?{_S}(?P<slash2>/?){_S}channel"
    rf"(?:{_S}(?:[:=.-]|name{_S}=){_S}[\"']?(?P<channel>[A-Za-z_][A-Za-z0-9_.-]{{0,63}})[\"']?)?{_S}\|?[>\]›]{{1,2}}"
    r"|(?P<token>\[TOOL_CALLS\]|[<◁][|｜](?:/?tool[_▁]call(?:[_▁](?:begin|end))?|python_tag|eom_id|call|end|return"
    r"|(?:START|END)_ACTION|(?:begin|end)_of_thought)[|｜][>▷])"
    r"|\[(?P<slash3>/?)(?P<bracket>THINK)\]|(?P<comment><!--|-->)",
    re.IGNORECASE,
)
