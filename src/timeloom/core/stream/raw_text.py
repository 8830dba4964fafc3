"""Reads the text of a raw channel: without the line breaks beside its tags, and with its own tags unescaped.

A text that contains channel tags is written with a `~` in each of them: `</~channel:content>`. Reading removes it.
"""

import re
from typing import Final


def escape_tags(text: str) -> str:
    """Return the text with a `~` in every channel tag, so that it can stand in a raw channel."""
    return _TAG.sub(r"\1~\2", text)


def unescape_tags(text: str) -> str:
    """Return the text that was passed to `escape_tags`."""
    return _ESCAPED.sub(r"\1\2", text) if "~" in text else text


class RawTextStream:
    """Receives the text of a raw channel in pieces; the joined result does not depend on the cuts.

    It equals `trim_channel_text` of the whole text, with its tags unescaped if `unescapes` is set.
    """

    __slots__ = ("_has_begun", "_held", "_is_in_tildes", "_unescapes")

    def __init__(self, *, unescapes: bool) -> None:
        self._unescapes = unescapes
        self._has_begun = False
        self._held: list[str] = []  # text that may be the last line break or the beginning of an escaped tag
        self._is_in_tildes = False

    def feed(self, text: str) -> str:
        """Return the text that is certain after the next piece."""
        self._held.append(text)
        # Any number of `~` may follow. Joining them for each piece would take quadratic time.
        if self._is_in_tildes and not text.strip("~"):
            return ""
        text = "".join(self._held)
        if not self._has_begun:
            if text in ("", "\r"):
                self._held = [text]
                return ""
            text = text.removeprefix("\r\n") if text.startswith("\r\n") else text.removeprefix("\n")
            self._has_begun = True
        uncertain = (_UNCERTAIN if self._unescapes else _LINE_BREAK).search(text)
        end = uncertain.start() if uncertain else len(text)
        self._held = [text[end:]]
        self._is_in_tildes = self._unescapes and text.endswith("~") and end < len(text)
        return unescape_tags(text[:end]) if self._unescapes else text[:end]

    def close(self) -> str:
        """Return the rest of the text at the close tag."""
        text, self._held = "".join(self._held), []
        return "" if text.endswith("\n") else text


_TAG: Final = re.compile(r"(</?+)(~*+)(?=channel:)", re.IGNORECASE | re.ASCII)
_ESCAPED: Final = re.compile(r"(</?+)~(~*+)(?=channel:)", re.IGNORECASE | re.ASCII)
_LINE_BREAK: Final = re.compile(r"(?:\r?\n|\r)\Z")
_BEGINNINGS: Final = "|".join(sorted(("channel"[:n] for n in range(1, 8)), reverse=True))
_UNCERTAIN: Final = re.compile(rf"(?:\r?\n|\r|</?+~*+(?:{_BEGINNINGS})?)\Z", re.IGNORECASE | re.ASCII)
