"""Reads JSON with the slips that models make, where the text has exactly one reading.

The result is strict JSON with the names of the repairs. Text with two possible readings is refused.
"""

import json
import re
from typing import Final

import msgspec

from timeloom.core.stream.json_fields import MAX_DEPTH, STRING_CHARACTERS

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
    }
)
"""Repairs that change the spelling of JSON, never its content."""

INVISIBLE: Final = "\ufeff\u200b\u200c\u200d\u2060"
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


def read_lenient_json(text: str, start: int = 0, *, may_close: bool = True) -> LenientJson:
    """Read the object or list at `start`; raise `LenientJsonError` unless it has exactly one reading.

    `may_close` allows missing closing braces at the end of the text. It must be false for a text that may be cut.
    """
    reader = _Reader(text, start, may_close)
    reader.read_value(0)
    return LenientJson("".join(reader.out), reader.at, tuple(sorted(reader.repairs)))


class _Reader:
    """Copies one value from the text to `out`, repairing its spelling."""

    __slots__ = ("at", "may_close", "out", "repairs", "text")

    def __init__(self, text: str, at: int, may_close: bool) -> None:
        self.text = text
        self.at = at
        self.may_close = may_close
        self.out: list[str] = []
        self.repairs: set[str] = set()

    def read_value(self, depth: int) -> None:
        self._skip_space()
        mark = self._peek()
        if mark in ("{", "["):
            self._read_container(mark, depth)
        elif mark in ('"', "'"):
            self._read_string(mark)
        else:
            self._read_scalar()

    def _read_container(self, mark: str, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise LenientJsonError(self.at, f"objects and lists are nested deeper than {MAX_DEPTH}")
        closing = "}" if mark == "{" else "]"
        self._copy(mark)
        keys: set[str] = set()
        wants_item = False
        while True:
            self._skip_space()
            if self._closes(closing, wants_item=wants_item):
                return
            if mark == "{":
                self._read_member(keys, depth)
            else:
                self.read_value(depth + 1)
            self._skip_space()
            wants_item = self._peek() == ","
            if wants_item:
                self._copy(",")
            elif self._peek() not in (closing, ""):
                raise LenientJsonError(self.at, f"expected `,` or `{closing}`, got {self._peek()!r}")

    def _closes(self, closing: str, *, wants_item: bool) -> bool:
        """Read the end of a container; false if another item follows."""
        mark = self._peek()
        if mark == closing:
            if wants_item:
                self.out.pop()
                self.repairs.add("trailing_comma")
            self._copy(closing)
            return True
        if mark or wants_item or not self.may_close or not self._ends_whole():
            if not mark:
                raise LenientJsonError(self.at, f"the text ends before `{closing}`")
            return False
        self.repairs.add("missing_brace")
        self.out.append(closing)
        return True

    def _ends_whole(self) -> bool:
        """Whether the last token cannot be the beginning of a longer one, as a number can."""
        return self.out[-1][-1] in '"}]el'

    def _read_member(self, keys: set[str], depth: int) -> None:
        at = self.at
        mark = self._peek()
        if mark in ('"', "'"):
            key = self._read_string(mark)
        elif found := _NAME.match(self.text, at):
            key = found[0]
            self.at = found.end()
            self.out.append(f'"{key}"')
            self.repairs.add("unquoted_key")
        else:
            raise LenientJsonError(at, f"expected a key, got {mark!r}")
        if key in keys:
            raise LenientJsonError(at, f"the key {key[:60]!r} stands twice in one object")
        keys.add(key)
        self._skip_space()
        if self._peek() != ":":
            raise LenientJsonError(self.at, f"expected `:`, got {self._peek()!r}")
        self._copy(":")
        self.read_value(depth + 1)

    def _read_string(self, quote: str) -> str:
        """Copy a string and return its content."""
        self.at += 1
        pieces: list[str] = []
        if quote == "'":
            self.repairs.add("single_quotes")
        while True:
            if found := STRING_CHARACTERS.match(self.text, self.at):
                run = found[0]
                if quote == "'" and "'" in run:
                    run = run[: run.index("'")]
                pieces.append(run)
                self.at += len(run)
            mark = self._peek()
            if mark == quote:
                self.at += 1
                break
            pieces.append(self._read_special(mark))
        raw = f'"{"".join(pieces)}"'
        self.out.append(raw)
        return json.loads(raw)

    def _read_special(self, mark: str) -> str:
        """Return the strict form of a character that no strict string contains."""
        if not mark:
            raise LenientJsonError(self.at, "the text ends inside a string")
        if mark == "\\":
            return self._read_escape()
        self.at += 1
        if mark == '"':  # inside single quotes
            return '\\"'
        if mark in "\n\r\t":
            self.repairs.add("control_character")
            return json.dumps(mark)[1:-1]
        raise LenientJsonError(self.at - 1, f"a string cannot contain a raw {mark!r}")

    def _read_escape(self) -> str:
        escaped = self.text[self.at + 1 : self.at + 2]
        if escaped not in _ESCAPED_MARKS or not escaped:
            raise LenientJsonError(self.at, f"the string has the malformed escape {self.text[self.at : self.at + 6]!r}")
        self.at += 2
        self.repairs.add("string_escape")
        return escaped

    def _read_scalar(self) -> None:
        found = _WORD.match(self.text, self.at)
        word = found[0] if found else ""
        if not _SCALAR.fullmatch(word):
            if word not in _PYTHON_LITERALS:
                raise LenientJsonError(self.at, f"expected a value, got {(word or self._peek())[:40]!r}")
            self.repairs.add("python_literal")
        self.at += len(word)
        self.out.append(_PYTHON_LITERALS.get(word, word))

    def _skip_space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        if found:
            self.at = found.end()
            if found[0].strip(" \t\r\n"):
                self.repairs.add("invisible_character")

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _copy(self, mark: str) -> None:
        self.out.append(mark)
        self.at += 1


_SPACE: Final = re.compile(rf"[ \t\r\n\xa0{INVISIBLE}]+")
_WORD: Final = re.compile(r"[-+.0-9A-Za-z_]+")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCALAR: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")
_PYTHON_LITERALS: Final = {"True": "true", "False": "false", "None": "null"}
_ESCAPED_MARKS: Final = "'_`"
"""Characters that need no escape and that models escape as in Python or Markdown. Others, such as `\\d`, may stand for
a backslash, so they have two readings."""
