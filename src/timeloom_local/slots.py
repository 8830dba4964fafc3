"""Converts the streamed text of the small model into the form that its slot needs."""

import re
from typing import Final

import msgspec

from timeloom_local.reply import Slot, escaped


class Filling:
    """Converts the pieces for one slot; the slot is never left empty."""

    def __init__(self, slot: Slot) -> None:
        self._form = slot.form
        self._held = ""
        self._count = 0
        self._begun = False

    def feed(self, text: str) -> str:
        """Add a piece and return the text for the reply."""
        if self._form == "lines":
            *whole, self._held = (self._held + text).split("\n")
            return "".join(map(self._item, whole))
        # Trailing space is held back, because the model may stop there.
        text = self._held + text
        kept = text.rstrip()
        self._held = text[len(kept) :]
        kept = kept if self._begun else kept.lstrip()
        self._begun = self._begun or bool(kept)
        return escaped(kept) if self._form == "string" else kept

    def close(self, *, whole: bool) -> str:
        """Return the end of the text; an ellipsis if it was cut at its limit or is empty."""
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
