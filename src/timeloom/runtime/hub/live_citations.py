"""Replaces citation tokens in streamed text with marks that name their sources, across delta boundaries."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from timeloom.core.citations.formats import Format
from timeloom.core.citations.rewriter import CitationRewriter
from timeloom.core.sources import SourceRow
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.tools.mime import mime_of

READ: Final = frozenset({"answer", "timeline_text"})
"""The channels whose text is Markdown that people read."""

FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {"text/markdown": "markdown", "text/html": "html", "text/plain": "text"}
)
"""The file types in which citations are replaced; in all others the tokens stay."""


class Citing:
    """Forwards the deltas of consecutive replies with their citations replaced."""

    def __init__(self, rows: Callable[[], Mapping[int, SourceRow]], tell: Callable[[LiveDelta], None]) -> None:
        self._rows = rows
        self._tell = tell
        self._open: dict[tuple[str, int], CitationRewriter] = {}

    def hear(self, delta: LiveDelta) -> None:
        """Forward the part of the delta that can be shown now; text that may become a citation is held back."""
        where = (delta.channel, delta.index)
        rewriter = self._open.get(where)
        if rewriter is None:
            form = _format(delta)
            if form is None:
                self._tell(delta)
                return
            rewriter = self._open[where] = CitationRewriter(self._rows(), form)
        text = rewriter.feed(delta.text)
        if text is delta.text:
            self._tell(delta)
        else:
            self._say(where, text)

    def close(self) -> None:
        """Forward the held-back text at the end of a reply."""
        for where, rewriter in self._open.items():
            self._say(where, rewriter.close())
        self._open.clear()

    def _say(self, where: tuple[str, int], text: str) -> None:
        if text:
            self._tell(LiveDelta(*where, text))


def _format(delta: LiveDelta) -> Format | None:
    if delta.channel in READ:
        return "markdown"
    return FORMATS.get(mime_of(delta.file)) if delta.channel == "canvas" else None
