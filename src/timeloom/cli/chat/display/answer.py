"""An answer on its way: citations become numbers, and complete blocks of Markdown come out one by one."""

from collections.abc import Iterable

from timeloom.cli.chat.display.markdown_blocks import MarkdownBlock, MarkdownBlocks
from timeloom.cli.sanitize import harmless
from timeloom.core.citations.rewriter import CitationRewriter
from timeloom.core.payload import Text, ref_of
from timeloom.core.sources import SourceRow


class AnswerStream:
    """One answer, fed as it is written."""

    def __init__(self, rows: Iterable[SourceRow], *, links: bool) -> None:
        # Without links the mark is the number alone; the address stands in the list below the answer.
        known = [{"sid": row.sid, "title": row.title, "url": row.url if links else ""} for row in rows]
        self._citations = CitationRewriter(known)
        self._blocks = MarkdownBlocks()
        self._said: list[str] = []
        self.shown = 0
        """How many blocks have come out."""

    def feed(self, text: str) -> list[MarkdownBlock]:
        """The blocks that this text completed."""
        self._said.append(text)
        return self._out(self._blocks.feed(self._citations.feed(harmless(text.replace("\r", "")))))

    def close(self) -> list[MarkdownBlock]:
        """What is left."""
        return self._out(self._blocks.feed(self._citations.close()) + self._blocks.close())

    @property
    def live(self) -> MarkdownBlock | None:
        """The block that is being written."""
        return self._blocks.live

    def is_of(self, text: Text) -> bool:
        """Whether this is the answer that was stored, in place or by reference."""
        said = "".join(self._said)
        return said == text if isinstance(text, str) else ref_of(said.encode("utf-8", "replace")) == text

    def _out(self, blocks: list[MarkdownBlock]) -> list[MarkdownBlock]:
        self.shown += len(blocks)
        return blocks
