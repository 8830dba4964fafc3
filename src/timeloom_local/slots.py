"""Filling: what a model writes at a place, piece by piece, in the form that the place needs."""

import re
from typing import Final

import msgspec

from timeloom_local.reply import Slot, escaped


class Filling:
    """Takes the pieces that the model writes and gives what stands in the reply; something always does."""

    def __init__(self, slot: Slot) -> None:
        self._form = slot.form
        self._held = ""
        self._count = 0
        self._begun = False

    def feed(self, text: str) -> str:
        """What more of the text is in the reply."""
        if self._form == "lines":
            *whole, self._held = (self._held + text).split("\n")
            return "".join(map(self._item, whole))
        # Space at the end is held back: the model may stop there.
        text = self._held + text
        kept = text.rstrip()
        self._held = text[len(kept) :]
        kept = kept if self._begun else kept.lstrip()
        self._begun = self._begun or bool(kept)
        return escaped(kept) if self._form == "string" else kept

    def close(self, *, whole: bool) -> str:
        """What ends the text; a mark where it was stopped at its limit."""
        if self._form == "lines":
            last = self._item(self._held) if whole or not self._count else ""
            return last or ("" if self._count else '"…"')
        if self._form == "string":
            return "" if whole and self._begun else "…"
        return ""

    def _item(self, line: str) -> str:
        text = _NUMBER.sub("", line).strip()
        if not text:
            return ""
        self._count += 1
        return f"{', ' if self._count > 1 else ''}{msgspec.json.encode(text).decode()}"


_NUMBER: Final = re.compile(r"^\s*\d{1,3}[.)]\s*")
