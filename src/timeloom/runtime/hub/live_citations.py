"""Replaces citation tokens in streamed text with marks that name their sources, across delta boundaries."""

from collections.abc import Callable, Mapping
from typing import Final

from timeloom.core.citations.formats import FORMAT_OF_MIME, CitationFormat
from timeloom.core.citations.rewriter import CitationRewriter
from timeloom.core.sources import SourceRow
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.tools.mime import guess_mime

MARKDOWN_CHANNELS: Final = frozenset({"answer", "timeline_text"})
"""The channels whose text is Markdown that people read."""


class LiveCitationRewriter:
    """Forwards the deltas of consecutive replies with their citations replaced."""

    def __init__(self, rows: Callable[[], Mapping[int, SourceRow]], forward: Callable[[LiveDelta], None]) -> None:
        self._rows = rows
        self._forward = forward
        self._open: dict[tuple[str, int, str], CitationRewriter] = {}

    def feed(self, delta: LiveDelta) -> None:
        """Forward the part of the delta that can be shown now; text that may become a citation is held back."""
        key = (delta.channel, delta.index, delta.file)
        rewriter = self._open.get(key)
        if rewriter is None:
            form = _format(delta)
            if form is None:
                self._forward(delta)
                return
            rewriter = self._open[key] = CitationRewriter(self._rows(), form)
        text = rewriter.feed(delta.text)
        if text is delta.text:
            self._forward(delta)
        else:
            self._forward_text(key, text)

    def close(self) -> None:
        """Forward the held-back text at the end of a reply."""
        for key, rewriter in self._open.items():
            self._forward_text(key, rewriter.close())
        self._open.clear()

    def _forward_text(self, key: tuple[str, int, str], text: str) -> None:
        if text:
            channel, index, file = key
            self._forward(LiveDelta(channel, index, text, file))


def _format(delta: LiveDelta) -> CitationFormat | None:
    if delta.file:
        return FORMAT_OF_MIME.get(guess_mime(delta.file))
    return "markdown" if delta.channel in MARKDOWN_CHANNELS else None
