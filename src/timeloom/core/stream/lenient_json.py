"""Reads JSON with the slips that models make, where the text has exactly one reading.

The result is strict JSON with the names of the repairs. Text with two possible readings is refused.
"""

import json
import re
from typing import Final

import msgspec

from timeloom.core.stream.json_fields import MAX_DEPTH

MECHANICAL_REPAIRS: Final = frozenset(
    {
        "control_character",
        "trailing_comma",
        "string_escape",
        "missing_brace",
        "extra_brace",
        "python_literal",
        "single_quotes",
        "unquoted_key",
        "invisible_character",
        "extra_comma",
    }
)
"""Repairs that change the spelling of JSON, never its content."""

INVISIBLE: Final = "\ufeff\u200b\u200c\u200d\u2060\xad"
"""Byte order mark and zero-width characters, which some models write between tokens."""


class LenientJsonError(ValueError):
    """The text is no JSON value with exactly one reading; `at` is the position of the problem."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at


class LenientJson(msgspec.Struct, frozen=True):
    """A repaired JSON value: its strict text, where it ends in the original, and the repairs."""

    text: str
    end: int
    repairs: tuple[str, ...] = ()


def read_lenient_json(text: str, start: int = 0, *, may_close: bool = True, is_whole: bool = False) -> LenientJson:
    """Read the value at `start`; raise `LenientJsonError` unless it has exactly one reading.

    `may_close` allows missing closing braces at the end of the text. It must be false for a text that may be cut.
    `is_whole` says that the author has ended the text, so that a number at its end is whole.
    """
    reader = _Reader(text, start, may_close, is_whole)
    reader.read_value(0)
    return LenientJson("".join(reader.out), reader.at, tuple(sorted(reader.repairs)))


class _Reader:
    """Copies one value from the text to `out`, repairing its spelling."""

    __slots__ = ("at", "is_whole", "may_close", "out", "repairs", "text")

    def __init__(self, text: str, at: int, may_close: bool, is_whole: bool) -> None:
        self.text = text
        self.at = at
        self.may_close = may_close
        self.is_whole = is_whole
        self.out: list[str] = []
        self.repairs: set[str] = set()

    def read_value(self, depth: int, key: str = "") -> None:
        self._skip_space()
        mark = self._peek()
        if mark in _CLOSINGS:
            self._read_container(mark, depth)
        elif mark in _STRING_ENDS:
            self._read_string(mark)
        else:
            self._read_scalar(key)

    def _read_container(self, mark: str, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise LenientJsonError(self.at, f"objects and lists are nested deeper than {MAX_DEPTH}")
        closing = _CLOSINGS[mark]
        is_object = closing == "}"
        self._emit("{" if is_object else "[")
        keys: dict[str, tuple[int, int]] = {}
        items, wants_item = 0, False
        while True:
            self._skip_commas()
            if self._closes(closing, wants_item=wants_item):
                break
            items += 1
            if is_object:
                self._read_member(keys, depth)
            else:
                self.read_value(depth + 1)
            wants_item = self._read_separator(closing, is_object=is_object)
        if mark == "(":
            self._check_tuple(items, had_comma=wants_item)

    def _check_tuple(self, items: int, *, had_comma: bool) -> None:
        """Refuse `("a")`, which Python reads as a text and a reader as a list of one."""
        self.repairs.add("python_literal")
        if items == 1 and not had_comma:
            raise LenientJsonError(self.at, "one value in parentheses has two readings")

    def _read_separator(self, closing: str, *, is_object: bool) -> bool:
        """Read the comma after an item; false if there is none."""
        starts_line = self._skip_space()
        if self._mark() == ",":
            self._emit(",")
            return True
        if self._mark() in (closing, "") or self._only_closings_follow():
            return False
        is_after_container = self.out[-1] in ("}", "]")
        if is_object and (starts_line or is_after_container) and _NEXT_KEY.match(self.text, self.at):
            self.repairs.add("missing_comma")
            self.out.append(",")
            return True
        raise LenientJsonError(self.at, f"expected `,` or `{closing}`, got {self._peek()!r}")

    def _closes(self, closing: str, *, wants_item: bool) -> bool:
        """Read the end of a container; false if another item follows."""
        mark = self._mark()
        if mark == closing:
            self._drop_comma(wants_item=wants_item)
            self._emit("]" if closing == ")" else closing)
            return True
        is_torn = bool(mark) and self._only_closings_follow()
        if mark and not is_torn:
            return False
        if (wants_item and not is_torn) or not self.may_close or not self._ends_whole():
            raise LenientJsonError(self.at, f"the text ends before `{closing}`")
        self._drop_comma(wants_item=wants_item)
        self.repairs.add("missing_brace")
        self.out.append("]" if closing == ")" else closing)
        return True

    def _only_closings_follow(self) -> bool:
        """Whether the rest of the text is a wrong sequence of closing marks, which has only one possible meaning."""
        if not self.may_close or not _ONLY_CLOSINGS.fullmatch(self.text, self.at):
            return False
        self.at = len(self.text)
        self.is_whole = True
        return True

    def _drop_comma(self, *, wants_item: bool) -> None:
        if wants_item and self.out[-1] == ",":
            self.out.pop()
            self.repairs.add("trailing_comma")

    def _skip_commas(self) -> None:
        """Skip commas where an item is expected; `[1,,2]` may lack an item, so only objects and openings have them."""
        self._skip_space()
        while self._mark() == "," and (self.out[-1] == "{" or _COMMA_AND_KEY.match(self.text, self.at)):
            self.at += 1
            self.repairs.add("extra_comma")
            self._skip_space()

    def _ends_whole(self) -> bool:
        """Whether the last token cannot be the beginning of a longer one, as a number can."""
        return self.is_whole or self.out[-1][-1] in '"}]el'

    def _read_member(self, keys: dict[str, tuple[int, int]], depth: int) -> None:
        at, start = self.at, len(self.out)
        mark = self._peek()
        if mark in _STRING_ENDS:
            key = self._read_string(mark)
        elif found := _NAME.match(self.text, at):
            key = found[0]
            self.at = found.end()
            self.out.append(f'"{key}"')
            self.repairs.add("unquoted_key")
        else:
            raise LenientJsonError(at, f"expected a key, got {mark!r}")
        self._skip_space()
        if self._mark() != ":":
            raise LenientJsonError(self.at, f"expected `:`, got {self._peek()!r}")
        self._emit(":")
        self.read_value(depth + 1, key)
        if key in keys:
            self._drop_repeated(key, keys[key], start, at)
        else:
            keys[key] = (start, len(self.out))

    def _drop_repeated(self, key: str, first: tuple[int, int], start: int, at: int) -> None:
        """Drop a member that repeats an earlier one; raise if its value differs."""
        if "".join(self.out[first[0] : first[1]]) != "".join(self.out[start:]):
            raise LenientJsonError(at, f"the key {key[:60]!r} stands twice in one object")
        del self.out[start - 1 :]
        self.repairs.add("repeated_key")

    def _read_string(self, quote: str) -> str:
        """Copy a string and return its content."""
        ends = _STRING_ENDS[quote]
        is_triple = self.text.startswith(quote * 3, self.at) and quote in ends
        if is_triple:
            ends = (quote * 3,)
        if quote == "'" and not is_triple:
            self.repairs.add("single_quotes")
        elif quote != '"' or is_triple:
            self.repairs.add("other_quotes")
        self.at += len(ends[0])
        pieces: list[str] = []
        while not self.text.startswith(ends, self.at):
            if found := _PLAIN_CHARACTERS.match(self.text, self.at):
                pieces.append(found[0])
                self.at = found.end()
            else:
                pieces.append(self._read_special(self._peek()))
        self.at += len(ends[0])
        raw = f'"{"".join(pieces)}"'
        if quote == "`" and "${" in raw:
            raise LenientJsonError(self.at, "a placeholder in a string has no value")
        self.out.append(raw)
        return json.loads(raw)

    def _read_special(self, mark: str) -> str:
        """Return the strict form of a character that a string of this kind may contain and a strict one may not."""
        if not mark:
            raise LenientJsonError(self.at, "the text ends inside a string")
        if mark == "\\":
            return self._read_escape()
        self.at += 1
        if mark == '"':  # inside other quotes
            return '\\"'
        if mark >= " " and not "\ud800" <= mark <= "\udfff":
            return mark
        if not "\0" < mark < " ":
            raise LenientJsonError(self.at - 1, f"a string cannot contain a raw {mark!r}")
        self.repairs.add("control_character")
        return json.dumps(mark)[1:-1]

    def _read_escape(self) -> str:
        if found := _STRICT_ESCAPE.match(self.text, self.at):
            self.at = found.end()
            return found[0]
        escaped = self.text[self.at + 1 : self.at + 2]
        if escaped not in _ESCAPED_MARKS or not escaped:
            raise LenientJsonError(self.at, f"the string has the malformed escape {self.text[self.at : self.at + 6]!r}")
        self.at += 2
        self.repairs.add("string_escape")
        return escaped

    def _read_scalar(self, key: str) -> None:
        found = _WORD.match(self.text, self.at)
        word = found[0] if found else ""
        written = word
        if not _SCALAR.fullmatch(word):
            if word.lower() in _LITERALS:
                self.repairs.add("python_literal")
                written = _LITERALS[word.lower()]
            elif _SIGNED_NUMBER.fullmatch(word):
                self.repairs.add("number_spelling")
                written = re.sub(r"^(-?)\.", r"\g<1>0.", word.removeprefix("+"))
            elif key in _NAMING_KEYS and _BARE_NAME.match(self.text, self.at):
                self.repairs.add("unquoted_value")
                written = f'"{word}"'
            else:
                raise LenientJsonError(self.at, f"expected a value, got {(word or self._peek())[:40]!r}")
        self.at += len(word)
        self.out.append(written)

    def _skip_space(self) -> bool:
        """Skip white space and comments; return whether a line ended in it."""
        start = self.at
        while found := _SPACE.match(self.text, self.at):
            if found[0].strip(" \t\r\n"):
                self.repairs.add("comment" if found["comment"] else "invisible_character")
            self.at = found.end()
        return "\n" in self.text[start : self.at]

    def _mark(self) -> str:
        """Return the next character, in its narrow form if it is punctuation."""
        mark = self._peek()
        return _WIDE_MARKS.get(mark, mark)

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _emit(self, mark: str) -> None:
        if self._peek() in _WIDE_MARKS:
            self.repairs.add("other_quotes")
        self.out.append(mark)
        self.at += 1


_WIDE_MARKS: Final = {"：": ":", "，": ",", "｝": "}", "］": "]"}
_CLOSINGS: Final = {"{": "}", "[": "]", "(": ")", "｛": "}", "［": "]"}
_STRING_ENDS: Final[dict[str, tuple[str, ...]]] = {
    '"': ('"',),
    "'": ("'",),
    "`": ("`",),
    **dict.fromkeys("“”„", ("”", "“")),
    **dict.fromkeys("‘’‚", ("’", "‘")),
}
"""The characters that begin a string, each with those that end it."""
_PLAIN_CHARACTERS: Final = re.compile(r"[^\x00-\x1f\\\"'`“”‘’\ud800-\udfff]+")
_STRICT_ESCAPE: Final = re.compile(r"\\(?:[\"\\/bfnrt]|u[0-9A-Fa-f]{4})")
_SPACE: Final = re.compile(
    rf"(?:[ \t\r\n\xa0\u3000{INVISIBLE}]|\\[nrt])+"
    r"|(?P<comment>(?://|#)[^\n\"'{}\[\]]*(?=\n|\Z)|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)"
)
"""White space between tokens, also as escapes, and comments. A comment in a line with quotes or braces may hide a
field, so it is refused."""
_NEXT_KEY: Final = re.compile(r"\"[A-Za-z_][A-Za-z0-9_]{0,63}\"\s{0,4}:")
_COMMA_AND_KEY: Final = re.compile(r",[\s,]{0,20}[\"'A-Za-z_][^\"',{}\[\]]{0,63}[\"']?\s{0,4}:")
_ONLY_CLOSINGS: Final = re.compile(r"[\s,;]{0,20}(?:[}\])][\s,;]{0,20}){1,64}")
_WORD: Final = re.compile(r"[-+.0-9A-Za-z_]+")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCALAR: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")
_SIGNED_NUMBER: Final = re.compile(r"\+?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|[-+]?\.[0-9]+")
_LITERALS: Final = {"true": "true", "false": "false", "null": "null", "none": "null", "undefined": "null"}
_NAMING_KEYS: Final = frozenset({"action", "tool_id", "name", "tool", "tool_name"})
_BARE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*(?=\s{0,20}[,}\n])")
_ESCAPED_MARKS: Final = "'_`"
"""Characters that need no escape and that models escape as in Python or Markdown. Others, such as `\\d`, may stand for
a backslash, so they have two readings."""
