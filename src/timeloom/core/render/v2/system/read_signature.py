"""Parses the parameter lines that `signature` writes back into a JSON Schema."""

import re
from collections.abc import Iterable
from typing import Final, cast

import msgspec

from timeloom.core.render.foreign_text.fence import unescape
from timeloom.core.render.v2.system.signature import MAX_DEPTH, SIMPLE_NAME, TYPES

_Schema = dict[str, object]
_WORD: Final = re.compile(r"[a-zA-Z]++")
_LITERAL: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*"|-?[0-9][0-9.eE+-]*+|true|false|null')
_MAX_JSON_DEPTH: Final = 4 * MAX_DEPTH


class SignatureError(ValueError):
    """A line is no line of a signature."""


def read_signature(lines: Iterable[str]) -> _Schema:
    """Return the JSON Schema of parameters with these lines, each of which begins with `- `.

    Descriptions inside a parameter stand on lines of their own and are not read.
    """
    top: _Schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    for line in lines:
        scanner = _Scanner(line.removeprefix("- "))
        scanner.field(top, 0)
        if scanner.take(" # "):
            _last(top)["description"] = unescape(scanner.rest())
        elif scanner.rest():
            raise SignatureError(f"unexpected text at {scanner.rest()[:40]!r}")
    return top


def _last(owner: _Schema) -> _Schema:
    properties = cast(dict[str, _Schema], owner["properties"])
    return properties[next(reversed(properties))]


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def rest(self) -> str:
        return self._text[self._at :]

    def take(self, token: str) -> bool:
        """Move past the token if it comes next."""
        if not self._text.startswith(token, self._at):
            return False
        self._at += len(token)
        return True

    def field(self, owner: _Schema, depth: int) -> None:
        """Read one field and add it to its object."""
        if self.take("..."):
            owner["additionalProperties"] = self.type(depth + 1) if self.take(": ") else True
            return
        name = self._name()
        optional = self.take("?")
        self._need(": ")
        part = self.type(depth + 1)
        if self.take(" = "):
            part["default"] = self._json()
        cast(dict[str, _Schema], owner["properties"])[name] = part
        if not optional:
            cast(list[str], owner["required"]).append(name)

    def type(self, depth: int) -> _Schema:
        """Read a type with all of its alternatives."""
        if depth > 2 * MAX_DEPTH:
            raise SignatureError("the types are nested too deeply")
        parts = [self._alternative(depth)]
        while self.take("|"):
            parts.append(self._alternative(depth))
        if len(parts) == 1:
            return parts[0]
        if all(part.keys() == {"enum"} for part in parts):
            return {"enum": [value for part in parts for value in cast(list[object], part["enum"])]}
        return {"anyOf": parts}

    def _alternative(self, depth: int) -> _Schema:
        if self.take("("):
            part = self.type(depth + 1)
            self._need(")")
        elif self.take("{"):
            part = self._object(depth)
        elif (word := self._word()) == "any":
            part: _Schema = {}
        elif word in TYPES:
            part = {"type": word, **self._limits()}
        else:
            part = {"enum": [self._literal()]}
        while self.take("[]"):
            part = {"type": "array", "items": part, **self._limits()}
        return part

    def _object(self, depth: int) -> _Schema:
        part: _Schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
        while not self.take("}"):
            self.field(part, depth)
            self.take(", ")
        return part

    def _limits(self) -> _Schema:
        limits: _Schema = {}
        if not self.take("("):
            return limits
        while not self.take(")"):
            name = self._name()
            self._need(" ")
            limits[name] = self._json()
            self.take(", ")
        return limits

    def _word(self) -> str:
        """Read the name of a type; empty if none comes next."""
        found = _WORD.match(self._text, self._at)
        if found is None or found[0] not in ("any", *TYPES):
            return ""
        self._at = found.end()
        return found[0]

    def _name(self) -> str:
        found = SIMPLE_NAME.match(self._text, self._at)
        if found is None:
            return str(self._literal())
        self._at = found.end()
        return found[0]

    def _literal(self) -> object:
        found = _LITERAL.match(self._text, self._at)
        if found is None:
            raise SignatureError(f"a name, a type or a value was expected at {self.rest()[:40]!r}")
        self._at = found.end()
        return _decode(found[0])

    def _json(self) -> object:
        """Read one JSON value; its end is where its brackets are closed."""
        start, depth = self._at, 0
        while True:
            if self.take("[") or self.take("{"):
                depth += 1
            elif self.take("]") or self.take("}"):
                depth -= 1
            elif depth and (self.take(",") or self.take(":")):
                continue
            else:
                self._literal()
            if not depth:
                return _decode(self._text[start : self._at])
            if not 0 < depth <= _MAX_JSON_DEPTH:
                raise SignatureError(f"a value was expected at {self._text[start : start + 40]!r}")

    def _need(self, token: str) -> None:
        if not self.take(token):
            raise SignatureError(f"{token!r} was expected at {self.rest()[:40]!r}")


def _decode(text: str) -> object:
    try:
        return msgspec.json.decode(unescape(text))
    except msgspec.MsgspecError as error:
        raise SignatureError(f"a JSON value was expected, got {text[:40]!r}") from error
