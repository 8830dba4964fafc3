"""Reads the complete fields of a JSON value that is still being written."""

from typing import Final

import msgspec

_CLOSINGS: Final = {"{": "}", "[": "]"}


class PartialJson:
    """Takes the pieces of a JSON object or list, and returns its complete fields or items after each piece.

    A field is complete once its value has ended: a string with its quotation mark, a number with the character after
    it. A field whose value is an object or list appears when that value has ended.
    """

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._open: list[str] = []
        self._in_string = False
        self._is_value = False
        self._start = -1
        self._complete = -1
        """The end of the last complete field."""
        self._has_ended = False
        self._value: object = None

    def feed(self, piece: str) -> object:
        """Add the piece and return the value with its complete fields; None before an object or list begins."""
        self._text += piece
        before = self._complete
        while self._at < len(self._text) and not self._has_ended:
            self._read(self._text[self._at])
        if self._complete != before:
            closing = "" if self._has_ended else _CLOSINGS[self._text[self._start]]
            try:
                self._value = msgspec.json.decode(self._text[self._start : self._complete] + closing)
            except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
                # Malformed text has no further complete fields; the answer is refused when it is whole.
                self._has_ended = True
        return self._value

    def _read(self, mark: str) -> None:
        at, self._at = self._at, self._at + 1
        if self._in_string:
            if mark == "\\":
                self._at += 1
            elif mark == '"':
                self._in_string = False
                self._end_value(at + 1)
        elif mark in _CLOSINGS:
            if self._start < 0:
                self._start, self._complete = at, at + 1
            self._open.append(mark)
            self._is_value = mark == "["
        elif self._open:
            self._read_inside(mark, at)

    def _read_inside(self, mark: str, at: int) -> None:
        if mark == '"':
            self._in_string = True
        elif mark == ":":
            self._is_value = True
        elif mark == ",":
            if len(self._open) == 1:
                self._complete = at
            self._is_value = self._open[-1] == "["
        elif mark in "}]":
            self._open.pop()
            self._is_value = True
            self._has_ended = not self._open
            self._end_value(at + 1)

    def _end_value(self, end: int) -> None:
        if self._has_ended or (len(self._open) == 1 and self._is_value):
            self._complete = end


def partial_json(text: str) -> object:
    """Return the object or list that the text begins, with its complete fields; None before it begins."""
    return PartialJson().feed(text)
