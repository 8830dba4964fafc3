"""Converts the streamed text of the small model into the form that its slot needs."""

from timeloom_local.reply import Slot, escape_json


class SlotText:
    """Converts the pieces for one slot; the slot is never left empty."""

    def __init__(self, slot: Slot) -> None:
        self._form = slot.form
        self._pending = ""
        self._has_text = False

    def feed(self, text: str) -> str:
        """Add a piece and return the text for the reply."""
        # Trailing space is held back, because the model may stop there.
        text = self._pending + text
        kept = text.rstrip()
        self._pending = text[len(kept) :]
        kept = kept if self._has_text else kept.lstrip()
        self._has_text = self._has_text or bool(kept)
        return escape_json(kept) if self._form == "string" else kept

    def close(self, *, is_complete: bool) -> str:
        """Return the end of the text; an ellipsis if it was cut at its limit or is empty."""
        if self._form == "string":
            return "" if is_complete and self._has_text else "…"
        return ""
