"""Splits a reply into regions by the tags that models write in place of the declared ones.

The split is generous to slips: other case or spaces in tags, `</channel>`, names such as `<channel:decision>`,
`<think>` for thinking, and the tool call tags of other formats. A region ends at its own close tag. Text that was
thought stays thought: an open tag inside thoughts begins a region only if no later close tag ends the thoughts.
"""

import re
from typing import Final, Literal

import msgspec

from timeloom.core.stream.channels import DECLARED

RegionKind = Literal["outside", "thinking", "decision", "code", "summary", "call", "other"]
"""The kind of a region; `call` is a tool call in the format of another vendor."""


class Region(msgspec.Struct, frozen=True):
    """A part of a reply without its tags; `name` is the tool that the tag of a `call` names."""

    kind: RegionKind
    text: str
    is_closed: bool = True
    name: str = ""
    is_exact: bool = True
    """Whether its tags are spelled as declared."""


def split_regions(text: str) -> list[Region]:
    """Return the regions of a reply in order; text between tags is `outside`."""
    tags = [_read_tag(found) for found in _TAG.finditer(text)]
    return _Splitter(text, tags).split()


class _Tag(msgspec.Struct, frozen=True):
    start: int
    end: int
    is_close: bool
    family: Literal["channel", "think", "call"]
    kind: RegionKind
    name: str = ""
    is_exact: bool = False


class _Splitter:
    """Walks over the tags of a reply and collects its regions."""

    def __init__(self, text: str, tags: list[_Tag]) -> None:
        self._text = text
        self._tags = tags
        self._last_thinking_close = max(
            (tag.start for tag in tags if tag.is_close and tag.kind == "thinking"), default=-1
        )
        self._regions: list[Region] = []
        self._open: _Tag | None = None
        self._start = 0

    def split(self) -> list[Region]:
        for tag in self._tags:
            if self._open is None:
                self._read_outside(tag)
            elif tag.is_close:
                if _closes(self._open, tag):
                    self._finish(self._open, tag)
            elif self._is_interrupted(self._open, tag):
                self._finish(self._open, tag, is_closed=False)
                self._begin(tag)
        self._finish_last()
        return [region for region in self._regions if region.kind != "outside" or region.text.strip()]

    def _read_outside(self, tag: _Tag) -> None:
        if not tag.is_close:
            self._add("outside", tag.start)
            self._begin(tag)
        elif tag.kind == "thinking":
            # A close tag without its open tag: everything before it was thought.
            self._regions = [Region("thinking", self._text[: tag.start])]
            self._start = tag.end

    def _is_interrupted(self, opened: _Tag, tag: _Tag) -> bool:
        """Whether this open tag ends the open region, because its close tag was forgotten."""
        if tag.family != "channel" or not _starts_line(self._text, tag.start):
            return False
        if opened.kind == "thinking":
            return self._last_thinking_close < tag.start
        return opened.kind in ("decision", "summary", "call")

    def _begin(self, tag: _Tag) -> None:
        self._open, self._start = tag, tag.end

    def _finish(self, opened: _Tag, tag: _Tag, *, is_closed: bool = True) -> None:
        is_exact = opened.is_exact and tag.is_exact and is_closed
        self._add(opened.kind, tag.start, is_closed=is_closed, name=opened.name, is_exact=is_exact)
        self._open, self._start = None, tag.end

    def _finish_last(self) -> None:
        opened = self._open
        if opened is None:
            self._add("outside", len(self._text))
        else:
            self._add(opened.kind, len(self._text), is_closed=False, name=opened.name, is_exact=opened.is_exact)

    def _add(
        self, kind: RegionKind, end: int, *, is_closed: bool = True, name: str = "", is_exact: bool = True
    ) -> None:
        self._regions.append(Region(kind, self._text[self._start : end], is_closed, name, is_exact))


def _closes(opened: _Tag, tag: _Tag) -> bool:
    if opened.kind == "thinking" and tag.kind == "thinking":
        return True
    if tag.family != opened.family:
        return False
    if opened.family == "channel":
        # `</channel>` closes any channel.
        return not tag.name or (tag.kind == opened.kind and (tag.kind != "other" or tag.name == opened.name))
    return True


def _starts_line(text: str, at: int) -> bool:
    before = text[max(0, at - _MAX_INDENT) : at]
    return not before.rpartition("\n")[2].strip() and ("\n" in before or at <= _MAX_INDENT)


def _read_tag(found: re.Match[str]) -> _Tag:
    start, end = found.span()
    is_close = bool(found["slash"])
    if found["think"]:
        return _Tag(start, end, is_close, "think", "thinking")
    if found["call"] or found["function"] is not None:
        return _Tag(start, end, is_close, "call", "call", found["function"] or "")
    name = found["channel"] or ""
    kind = _KIND_BY_NAME.get(re.sub(r"[_.\-]", "", name).lower(), "other")
    is_exact = name in _DECLARED_NAMES and found[0] == f"<{found['slash']}channel:{name}>"
    return _Tag(start, end, is_close, "channel", kind, name, is_exact)


_MAX_INDENT: Final = 40
"""Most characters before a tag that are searched for the start of its line, so that one long line stays cheap."""

_DECLARED_NAMES: Final = frozenset(name for channel in DECLARED for name in (channel.name, *channel.aliases))


_KIND_BY_NAME: Final[dict[str, RegionKind]] = {
    "thinking": "thinking",
    "think": "thinking",
    "thought": "thinking",
    "thoughts": "thinking",
    "reasoning": "thinking",
    "analysis": "thinking",
    "reactdecisionoutv2": "decision",
    "reactdecisionout": "decision",
    "reactdecision": "decision",
    "decision": "decision",
    "action": "decision",
    "code": "code",
    "python": "code",
    "summary": "summary",
}

_TAG: Final = re.compile(
    r"<[ \t]{0,4}(?P<slash>/?)[ \t]{0,4}(?:"
    r"(?P<think>think|thinking|thoughts?|reasoning|reflection|scratchpad)"
    r"|(?P<call>tool_calls?|function_calls?|function(?=[ \t]{0,4}>))"
    r"|function[ \t]{0,4}=[ \t]{0,4}[\"']?(?P<function>[A-Za-z_][A-Za-z0-9_.:-]{0,127})[\"']?"
    r"|channel(?:[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?P<channel>[A-Za-z_][A-Za-z0-9_.-]{0,63})[\"']?)?"
    r")[ \t]{0,4}>",
    re.IGNORECASE,
)
