"""Scans JSON incrementally and returns the decoded strings at chosen paths while they arrive."""

import json
import re
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from timeloom.core.stream.surrogates import SurrogateJoiner, replace_lone_surrogates

MAX_DEPTH: Final = 64
"""Deepest accepted nesting. A larger limit approaches decoders' recursion limits; a smaller one refuses real
parameters."""


class FieldDelta(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Next piece of text of the string at this path; decoded, never empty."""

    path: str
    text: str


class FieldEnd(msgspec.Struct, frozen=True, gc=False, tag=True):
    """End of the string at this path; also sent for an empty string."""

    path: str


FieldEvent = FieldDelta | FieldEnd


class JsonProblem(msgspec.Struct, frozen=True):
    """Error in the JSON text, or a refused construct, and its character position."""

    at: int
    what: str


class FieldScanner:
    """Reads one JSON object in pieces of any size and follows the strings at dotted paths of object keys.

    It checks the whole grammar and stops at the first problem or at the end of the object. A duplicate key in any
    object is a problem: on a followed path the second value would contradict text already returned, and acceptance must
    not depend on the paths. The scanner therefore stores the keys of all open objects.
    """

    __slots__ = (
        "_base",
        "_expect",
        "_held",
        "_next",
        "_out",
        "_over",
        "_scalar",
        "_scalars",
        "_sink",
        "_stack",
        "end",
        "problem",
    )

    def __init__(self, paths: Iterable[str]) -> None:
        self.end: int | None = None
        """Number of characters up to the end of the object; None before the end is reached."""
        self.problem: JsonProblem | None = None
        self._over = False
        self._base = 0  # number of characters before the current text
        self._held = ""  # the beginning of an escape
        self._expect: _Expect = "object"
        self._scalar: list[str] = []  # number or literal that the next piece may continue
        self._sink: str | list[str] | None = None  # target of the open string: a path, a key's pieces or None
        self._next: _PathNode | None = _build_path_tree(paths)  # node of the next value; None off every path
        self._stack: list[_OpenContainer] = []
        self._out: list[FieldEvent] = []
        self._scalars = SurrogateJoiner()

    def feed(self, text: str) -> list[FieldEvent]:
        """Return the events of the next piece of text; only an incomplete escape is held back."""
        if self._over:
            return []
        if self._scalars.half or not text.isascii():
            text = self._scalars.feed(text)
        text = self._held + text
        self._held = ""
        at = 0
        while at < len(text) and not self._over:
            at = self._read_string(text, at) if self._expect == "string" else self._read_structure(text, at)
        if self._over and self.problem is None:
            self.end = self._base + at
        self._base += len(text) - len(self._held)
        events, self._out = self._out, []
        return events

    @property
    def current(self) -> str | None:
        """Path of the open string value, empty if no path leads to it; None if no string value is open."""
        if self._over or self._held or self._scalars.half or self._expect != "string":
            return None
        return None if isinstance(self._sink, list) else self._sink or ""

    def record_skipped(self, chars: int) -> None:
        """Record that many characters of the current string, all matching `STRING_CHARACTERS`, bypassed `feed`."""
        self._base += chars

    def _read_string(self, text: str, at: int) -> int:
        """Read more of a string; return the position after the characters read."""
        end = _match_end(STRING_CHARACTERS, text, at)
        if end > at and self._sink is not None:
            self._emit_text(self._sink, text[at:end])
        if end == len(text):
            return end
        if text[end] == '"':
            self._end_string(end)
            return end + 1
        if _ESCAPE_BEGINNING.fullmatch(text, end):
            self._held = text[end:]
        elif text[end] == "\\":
            self._fail(end, f"the string has the malformed escape {text[end : end + 6]!r}")
        else:
            self._fail(end, f"a string cannot contain a raw {text[end]!r}; write it as an escape such as \\n")
        return len(text)

    def _emit_text(self, sink: str | list[str], raw: str) -> None:
        text = decode_characters(raw)
        if isinstance(sink, str):
            self._out.append(FieldDelta(sink, text))
        else:
            sink.append(text)

    def _end_string(self, at: int) -> None:
        sink, self._sink = self._sink, None
        if isinstance(sink, list):
            self._expect = "`:`"
            self._next = self._enter_key("".join(sink), at)
            return
        if sink is not None:
            self._out.append(FieldEnd(sink))
        self._end_value()

    def _enter_key(self, key: str, at: int) -> "_PathNode | None":
        level = self._stack[-1]
        if key in level.keys:
            self._fail(at, f"the key {key[:60]!r} stands twice in one object")
        level.keys.add(key)
        return level.node.children.get(key) if level.node else None

    def _read_structure(self, text: str, at: int) -> int:
        """Read one token between strings; return the position after it."""
        if self._scalar:
            end = _match_end(_WORD, text, at)
            self._scalar.append(text[at:end])
            if end < len(text):
                self._end_scalar(end)
            return end
        at = self._skip_plain(text, _match_end(_SPACE, text, at))
        if at == len(text) or self._over:
            return at
        mark = text[at]
        if mark not in _ALLOWED[self._expect]:
            self._fail(at, f"expected {self._expect}, got {mark!r}")
            return at
        match mark:
            case '"':
                self._begin_string()
            case "{" | "[":
                self._open_container(mark, at)
            case "}" | "]":
                self._stack.pop()
                self._end_value()
            case ",":
                self._expect = "a key" if self._stack[-1].is_object else "a value"
            case ":":
                self._expect = "a value"
            case _:
                self._scalar.append(mark)
        return at + 1

    def _skip_plain(self, text: str, at: int) -> int:
        """Skip scalar items and members off every path, many at once, since one by one is slow."""
        if not self._stack or self._stack[-1].node:
            return at
        is_object = self._stack[-1].is_object
        if self._expect not in (("a key", "a key or `}`") if is_object else ("a value", "a value or `]`")):
            return at
        end = _match_end(_MEMBERS if is_object else _ITEMS, text, at)
        if end > at:
            self._expect = "a key" if is_object else "a value"
        if end > at and is_object:
            self._record_keys(text, at, end)
        return end

    def _record_keys(self, text: str, at: int, end: int) -> None:
        """Record the keys of these members, all at once if there is no duplicate."""
        known = self._stack[-1].keys
        keys = list(map(decode_characters, _MEMBER.findall(text, at, end)))
        new = set(keys)
        if len(new) == len(keys) and known.isdisjoint(new):
            known |= new
            return
        for member in _MEMBER.finditer(text, at, end):
            if not self._over:
                self._enter_key(decode_characters(member[1]), member.end(1))

    def _end_scalar(self, at: int) -> None:
        scalar = "".join(self._scalar)
        self._scalar.clear()
        if not _SCALAR.fullmatch(scalar):
            self._fail(at - len(scalar), f"expected a value, got {scalar[:40]!r}")
        self._end_value()

    def _begin_string(self) -> None:
        if self._expect in ("a key", "a key or `}`"):
            self._sink = []
        else:
            self._sink = self._next.path if self._next else None
        self._expect = "string"

    def _open_container(self, mark: str, at: int) -> None:
        if len(self._stack) == MAX_DEPTH:
            self._fail(at, f"objects and lists are nested deeper than {MAX_DEPTH}")
        leads_on = self._next is not None and bool(self._next.children)
        self._stack.append(_OpenContainer(mark == "{", self._next if leads_on and mark == "{" else None))
        self._next = None
        self._expect = "a key or `}`" if mark == "{" else "a value or `]`"

    def _end_value(self) -> None:
        if not self._stack:
            self._over = True
        else:
            self._expect = "`,` or `}`" if self._stack[-1].is_object else "`,` or `]`"

    def _fail(self, at: int, what: str) -> None:
        self.problem = JsonProblem(self._base + at, what)
        self._over = True


_Expect = Literal[
    "object", "string", "a key", "a key or `}`", "`:`", "a value", "a value or `]`", "`,` or `}`", "`,` or `]`"
]

_ALLOWED: dict[_Expect, str] = {
    "object": "{",
    "a key": '"',
    "a key or `}`": '"}',
    "`:`": ":",
    "a value": '"{[-0123456789tfn',
    "a value or `]`": '"{[-0123456789tfn]',
    "`,` or `}`": ",}",
    "`,` or `]`": ",]",
}

_HEX = "[0-9A-Fa-f]"
_HIGH = "[Dd][89ABab]"
# The first half of a surrogate pair matches only together with its context, so that a pair is never decoded apart.
# Groups are atomic, not possessive: possessive groups match wrongly before Python 3.11.5.
STRING_CHARACTERS: Final = re.compile(
    rf"""(?>(?:[^"\\\x00-\x1f\ud800-\udfff]++"""
    rf"""|\\["\\/bfnrt]"""
    rf"""|\\u(?!{_HIGH}){_HEX}{{4}}"""
    rf"""|\\u{_HIGH}{_HEX}{{2}}(?=[^\\]|\\[^u]|\\u{_HEX}{{4}})"""
    r""")+)"""
)
"""Complete characters of a JSON string, including escapes."""

_ESCAPE_BEGINNING = re.compile(rf"\\(?:u(?:{_HEX}{{0,3}}|{_HIGH}{_HEX}{{2}}(?:\\(?:u{_HEX}{{0,3}})?)?))?")

_SPACE = re.compile(r"[ \t\r\n]+")
_WORD = re.compile(r"[-+.0-9A-Za-z]+")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")
_PLAIN = rf"""(?:{_SCALAR.pattern}|"(?:{STRING_CHARACTERS.pattern})?")"""
_ITEMS = re.compile(rf"(?>(?:{_PLAIN}[ \t\r\n]*+,[ \t\r\n]*+)+)")
_MEMBER = re.compile(rf""""((?:{STRING_CHARACTERS.pattern})?)"[ \t\r\n]*+:[ \t\r\n]*+{_PLAIN}[ \t\r\n]*+,[ \t\r\n]*+""")
_MEMBERS = re.compile(rf"(?>(?:{_MEMBER.pattern})+)")

_decode = json.JSONDecoder(strict=False).raw_decode


class _PathNode:
    """A position in the followed documents; the string at this position is followed if `path` is set."""

    __slots__ = ("children", "path")

    def __init__(self) -> None:
        self.children: dict[str, _PathNode] = {}
        self.path: str | None = None


class _OpenContainer:
    """An open object or list: its node if a path leads through it, and the keys so far."""

    __slots__ = ("is_object", "keys", "node")

    def __init__(self, is_object: bool, node: _PathNode | None) -> None:
        self.is_object = is_object
        self.node = node
        self.keys: set[str] = set()


def _build_path_tree(paths: Iterable[str]) -> _PathNode:
    root = _PathNode()
    for path in paths:
        node = root
        for key in path.split("."):
            node = node.children.setdefault(key, _PathNode())
        node.path = path
    return root


def decode_characters(raw: str) -> str:
    """Return the text of these string characters, which must not end with half of a surrogate pair."""
    return raw if "\\" not in raw else replace_lone_surrogates(_decode(f'"{raw}"')[0])


def _match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
