"""Splits a streamed answer into Markdown blocks and replaces citation markers by source numbers."""

from collections.abc import Iterable

from timeloom.cli.chat.display.markdown_blocks import MarkdownBlock, MarkdownSplitter
from timeloom.cli.sanitize import sanitize
from timeloom.core.citations.rewriter import CitationRewriter
from timeloom.core.payload import Text, ref_of
from timeloom.core.sources import SourceRow


class AnswerStream:
    """One answer of the model, fed piece by piece."""

    def __init__(self, rows: Iterable[SourceRow], *, links: bool) -> None:
        # Without links a citation is only a number; the list below the answer shows the address.
        known = [{"sid": row.sid, "title": row.title, "url": row.url if links else ""} for row in rows]
        self._citations = CitationRewriter(known)
        self._blocks = MarkdownSplitter()
        self._received: list[str] = []
        self.block_count = 0
        """The number of blocks returned so far."""

    def feed(self, text: str) -> list[MarkdownBlock]:
        """Add text and return the blocks that it completed."""
        self._received.append(text)
        return self._count_blocks(self._blocks.feed(self._citations.feed(sanitize(text.replace("\r", "")))))

    def close(self) -> list[MarkdownBlock]:
        """End the answer and return the remaining blocks."""
        return self._count_blocks(self._blocks.feed(self._citations.close()) + self._blocks.close())

    @property
    def live(self) -> MarkdownBlock | None:
        """The incomplete block at the end of the text."""
        return self._blocks.live

    def is_same_as(self, text: Text) -> bool:
        """Return whether the streamed text equals the stored answer, inline or by reference."""
        received = "".join(self._received)
        return received == text if isinstance(text, str) else ref_of(received.encode("utf-8", "replace")) == text

    def _count_blocks(self, blocks: list[MarkdownBlock]) -> list[MarkdownBlock]:
        self.block_count += len(blocks)
        return blocks
