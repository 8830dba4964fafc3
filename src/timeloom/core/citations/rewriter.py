"""Replaces `[[S:1]]` tokens in streamed text with marks that name and link their sources.

The text is Markdown, or for HTML clients an HTML document. Tokens count only in visible text; all other text passes
through byte for byte. The output does not depend on how the input was cut into pieces.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, cast

from timeloom.core.citations.document import DocumentFinder
from timeloom.core.citations.formats import CitationFormat, CitedSource, format_citation
from timeloom.core.citations.markdown.finder import MarkdownFinder
from timeloom.core.citations.tokens import TOKEN, Citation, find_unfinished
from timeloom.core.codes import CodedError

MAX_UNKNOWN: Final = 1_000
"""Most unknown ids that are reported. A smaller limit could hide a mistake; a larger one lets hostile text fill the
report."""

NAMED_SIDS: Final = 10
"""Unknown ids that a notice names. A smaller number hides mistakes; a larger one makes notices long."""

MAX_UNREAD_CHARS: Final = 16_384
"""Most text without tokens that waits for parsing. A smaller limit parses more often; a larger one parses longer at
once."""


class SourceLike(Protocol):
    """The fields of a source row that a citation needs."""

    @property
    def sid(self) -> int: ...
    @property
    def title(self) -> str: ...
    @property
    def url(self) -> str: ...


class CitationRewriter:
    """Rewrites the citations of one text that arrives in pieces.

    A mapping of rows by id, such as a pool's, is used for lookups and not iterated.
    """

    def __init__(
        self,
        rows: Iterable[SourceLike | Mapping[str, object]] | Mapping[int, SourceLike],
        format: CitationFormat = "markdown",
    ) -> None:
        if isinstance(rows, Mapping):
            self._sources = cast(Mapping[int, SourceLike], rows)
        else:
            self._sources = {source.sid: source for source in map(_to_cited_source, rows)}
        self._format: CitationFormat = format
        self._finder = DocumentFinder() if format == "html" else MarkdownFinder()
        self._citations: deque[Citation] = deque()
        self._unread: list[str] = []
        """Text already returned; the finder needs it only when a token arrives."""
        self._unread_chars = 0
        self._pieces: list[str] = []
        self._offset = 0
        self._blocked_at = -1
        self._before = ""
        self._used: dict[int, None] = {}
        self._unknown: dict[int, None] = {}

    @property
    def sources_used(self) -> tuple[int, ...]:
        """Known source ids cited so far, in the order of first use."""
        return tuple(self._used)

    @property
    def unknown(self) -> tuple[int, ...]:
        """Cited source ids without a row, in the order of first use."""
        return tuple(self._unknown)

    def feed(self, text: str) -> str:
        """Return the text that can be shown now; text that may still become a citation is held back."""
        if not self._pieces and "[" not in text:
            return self._pass_unread(text)
        self._feed_unread()
        self._pieces.append(text)
        self._citations += self._finder.feed(text)
        if self._finder.settled <= self._blocked_at:
            return ""
        return self._drain(final=False)

    def close(self) -> str:
        """Return the rest of the text."""
        if not self._pieces:
            return ""
        self._citations += self._finder.close()
        return self._drain(final=True)

    def _pass_unread(self, text: str) -> str:
        """Return text in which no token can begin, and queue it for the finder."""
        self._unread.append(text)
        self._unread_chars += len(text)
        self._offset += len(text)
        if self._unread_chars > MAX_UNREAD_CHARS:
            self._feed_unread()
        return self._pass_through(text)

    def _feed_unread(self) -> None:
        if self._unread:
            self._finder.feed("".join(self._unread))
            self._unread.clear()
            self._unread_chars = 0

    def _drain(self, *, final: bool) -> str:
        text = "".join(self._pieces)
        out: list[str] = []
        done = 0
        while self._citations:
            citation = self._citations.popleft()
            start, end = citation.start - self._offset, citation.end - self._offset
            out += self._pass_through(text[done:start]), self._rewrite(citation, text[start:end])
            done = end
        stop = len(text) if final else self._find_stop(text, done)
        out.append(self._pass_through(text[done:stop]))
        self._pieces = [text[stop:]] if stop < len(text) else []
        self._offset += stop
        return "".join(out)

    def _find_stop(self, text: str, done: int) -> int:
        """Return the position of the first token that is not yet known to be a citation or not."""
        token = TOKEN.search(text, max(done, self._finder.settled - self._offset))
        if token is None:
            self._blocked_at = -1
            return find_unfinished(text)
        self._blocked_at = self._offset + token.start()
        return token.start()

    def _pass_through(self, text: str) -> str:
        self._before = text[-1:] or self._before
        return text

    def _rewrite(self, citation: Citation, token: str) -> str:
        known = [_to_cited_source(self._sources[sid]) for sid in citation.sids if sid in self._sources]
        unknown = [sid for sid in citation.sids if sid not in self._sources]
        self._used.update(dict.fromkeys(source.sid for source in known))
        self._unknown.update(dict.fromkeys(unknown[: MAX_UNKNOWN - len(self._unknown)]))
        if not known:
            return self._pass_through(token)
        # A Markdown link inside an HTML block would be shown as it is written.
        form: CitationFormat = "html" if citation.in_html and self._format == "markdown" else self._format
        mark = format_citation(known, form, link=not citation.in_link)
        if form == "markdown" and self._before in ("!", "]"):
            # After `!` the link would become an image, and after `]` it would take over the bracketed text.
            mark = " " + mark
        self._before = ""
        return mark + (f"[[S:{','.join(map(str, unknown))}]]" if unknown else "")


def find_citations(markdown: str) -> list[Citation]:
    """Return the citations of a Markdown text in order, including those of unknown sources."""
    finder = MarkdownFinder()
    return finder.feed(markdown) + finder.close()


def find_unknown_sids(text: str, format: CitationFormat, known: Mapping[int, SourceLike]) -> tuple[int, ...]:
    """Return the source ids without a row that a text of this format cites, in the order of first use."""
    rewriter = CitationRewriter(known, format)
    rewriter.feed(text)
    rewriter.close()
    return rewriter.unknown


def describe_unknown_sids(document: str, sids: Sequence[int]) -> str:
    """Return the sentence that names these ids without a row to the model that cited them in a document."""
    more = f" and {len(sids) - NAMED_SIDS} more" if len(sids) > NAMED_SIDS else ""
    named = ", ".join(map(str, sids[:NAMED_SIDS])) + more
    return f"the {document} cites sources that are not in the pool: {named}; their marks were left as they are"


def find_cited_sids(markdown: str) -> tuple[int, ...]:
    """Return the source ids that a Markdown text cites, in the order of first use, including unknown ones."""
    return tuple(dict.fromkeys(sid for citation in find_citations(markdown) for sid in citation.sids))


def _to_cited_source(row: SourceLike | Mapping[str, object]) -> CitedSource:
    if not isinstance(row, Mapping):
        return CitedSource(row.sid, row.title, row.url)
    sid, title, url = row.get("sid"), row.get("title"), row.get("url")
    if not isinstance(sid, int) or isinstance(sid, bool):
        raise CodedError("source_malformed", f"a source row has a whole number as its 'sid', got {sid!r:.40}")
    return CitedSource(sid, title if isinstance(title, str) else "", url if isinstance(url, str) else "")
