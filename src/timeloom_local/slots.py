"""Converts the streamed text of the small model into the form that its slot needs."""

import re
from typing import Final

import msgspec

from timeloom_local.reply import Slot, escape_json


class SlotText:
    """Converts the pieces for one slot; the slot is never left empty."""

    def __init__(self, slot: Slot) -> None:
        self._form = slot.form
        self._pending = ""
        self._count = 0
        self._has_text = False

    def feed(self, text: str) -> str:
        """Add a piece and return the text for the reply."""
        if self._form == "lines":
            *whole, self._pending = (self._pending + text).split("\n")
            return "".join(map(self._format_item, whole))
        # Trailing space is held back, because the model may stop there.
        text = self._pending + text
        kept = text.rstrip()
        self._pending = text[len(kept) :]
        kept = kept if self._has_text else kept.lstrip()
        self._has_text = self._has_text or bool(kept)
        return escape_json(kept) if self._form == "string" else kept

    def close(self, *, is_complete: bool) -> str:
        """Return the end of the text; an ellipsis if it was cut at its limit or is empty."""
        if self._form == "lines":
            last = self._format_item(self._pending) if is_complete or not self._count else ""
            return last or ("" if self._count else '"…"')
        if self._form == "string":
            return "" if is_complete and self._has_text else "…"
        return ""

    def _format_item(self, line: str) -> str:
        text = _NUMBER.sub("", line).strip()
        if not text:
            return ""
        self._count += 1
        return f"{', ' if self._count > 1 else ''}{msgspec.json.encode(text).decode()}"


_NUMBER: Final = re.compile(r"^\s*\d{1,3}[.)]\s*")
