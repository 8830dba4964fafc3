"""Decides which results of edition 3 only repeat a text that the call above them shows."""

from typing import Final

from timeloom.core.blocks import Shown
from timeloom.core.render.v2.entries.call_text import MAX_PARAM_CHARS
from timeloom.core.tokens import estimate_tokens

READ_MARK: Final = "[READ] "
"""The beginning of a preview that consists of one line of the runtime."""

SAME_TEXT: Final = f"{READ_MARK}the same text as in the call"
"""The recorded preview of a result that the call shows already; prompts show nothing in its place."""

FIRST_EDITION_WITHOUT_REPEATS: Final = 3


def shown_as_written(text: str, edition: int) -> Shown | None:
    """Return the preview of a file whose text the call shows whole; None if the file itself is shown."""
    lines = text.count("\n") + (not text.endswith("\n"))
    return _stub(text, edition, f"{READ_MARK}{lines} line{'' if lines == 1 else 's'}, as written")


def shown_in_call(text: str, edition: int) -> Shown | None:
    """Return the preview of a result that is a text of the call; None if the call does not show it whole."""
    return _stub(text, edition, SAME_TEXT)


def _stub(text: str, edition: int, preview: str) -> Shown | None:
    is_repeated = edition >= FIRST_EDITION_WITHOUT_REPEATS and 0 < len(text) <= MAX_PARAM_CHARS
    return Shown("stub", estimate_tokens(text), preview) if is_repeated else None
