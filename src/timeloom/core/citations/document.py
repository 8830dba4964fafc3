"""Finds citations in documents for HTML clients: HTML if the text begins with `<`, otherwise Markdown."""

from timeloom.core.citations.html import HtmlFinder
from timeloom.core.citations.markdown.finder import MarkdownFinder
from timeloom.core.citations.tokens import Citation, CitationFinder


class DocumentFinder:
    """Finds citations by HTML or Markdown rules; the first character that is not white space decides."""

    def __init__(self) -> None:
        self._finder: CitationFinder | None = None
        self._blank: list[str] = []
        self._blank_chars = 0

    @property
    def settled(self) -> int:
        """Offset up to which all citations are known."""
        return self._finder.settled if self._finder else self._blank_chars

    def feed(self, text: str) -> list[Citation]:
        """Return the citations that this text completed."""
        if self._finder is None:
            self._blank.append(text)
            self._blank_chars += len(text)
            start = text.lstrip()
            if not start:
                return []
            self._finder = HtmlFinder() if start.startswith("<") else MarkdownFinder()
            text = "".join(self._blank)
        return self._finder.feed(text)

    def close(self) -> list[Citation]:
        """Return the citations that the end of the text completed."""
        return self._finder.close() if self._finder else []
