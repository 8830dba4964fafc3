"""Replaces the citations of a document by links to its list of sources."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from timeloom.core.citations.html import HtmlFinder
from timeloom.core.citations.markdown.finder import MarkdownFinder
from timeloom.core.citations.tokens import TOKEN, Citation
from timeloom.core.sources import SourceRow, SourcesPool

MarkupFormat = Literal["markdown", "html"]


class CitedText(msgspec.Struct, frozen=True):
    """A text whose citations are links to `#source-<sid>`, with the rows that it cites and the ids without a row."""

    text: str
    rows: tuple[SourceRow, ...]
    unknown: tuple[int, ...]


def link_citations(text: str, format: MarkupFormat, pool: SourcesPool) -> CitedText:
    """Return the text with links; each row comes once, in the order of first use. Unknown marks stay as they are."""
    if not TOKEN.search(text):
        return CitedText(text, (), ())
    finder = HtmlFinder() if format == "html" else MarkdownFinder()
    pieces: list[str] = []
    rows: dict[int, SourceRow] = {}
    unknown: dict[int, None] = {}
    done = 0
    for citation in [*finder.feed(text), *finder.close()]:
        known = [row for sid in citation.sids if (row := pool.get(sid))]
        unknown |= dict.fromkeys(sid for sid in citation.sids if pool.get(sid) is None)
        if not known:
            continue
        pieces += text[done : citation.start], _mark(citation, known, format, text[citation.start - 1 : citation.start])
        rows |= {row.sid: row for row in known}
        done = citation.end
    return CitedText("".join((*pieces, text[done:])), tuple(rows.values()), tuple(unknown))


def _mark(citation: Citation, rows: Sequence[SourceRow], format: MarkupFormat, before: str) -> str:
    if format == "html" or citation.in_html:
        return "".join(
            f"[{row.sid}]" if citation.in_link else f'<a href="#source-{row.sid}">[{row.sid}]</a>' for row in rows
        )
    marks = [rf"\[{row.sid}\]" for row in rows]
    if not citation.in_link:
        marks = [f"[{mark}](#source-{row.sid})" for mark, row in zip(marks, rows, strict=True)]
    # After `!` a link would become an image, and after `]` it would take over the bracketed text.
    return (" " if before in ("!", "]") else "") + "".join(marks)
