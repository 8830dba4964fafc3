"""Formats a citation as a Markdown link, an HTML mark or plain text."""

import html
import re
import string
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, assert_never
from urllib.parse import quote

import msgspec

CitationFormat = Literal["markdown", "html", "text"]

FORMAT_OF_MIME: Final[Mapping[str, CitationFormat]] = MappingProxyType(
    {"text/markdown": "markdown", "text/html": "html", "text/plain": "text"}
)
"""The file types in which tokens are citations, with the format of their marks; in all others they are text."""

MAX_URL_CHARS: Final = 2_048
"""Longest address that is linked. A smaller limit loses real links; a larger one lets one row bloat every citation of
it."""

MAX_TITLE_CHARS: Final = 200
"""Longest title that is shown; longer ones are cut. A smaller limit makes sources look alike; a larger one bloats the
text."""

_WEB: Final = re.compile(r"https?://[^/?#]", re.IGNORECASE)
_URL_SAFE: Final = "%/:?#[]@!$&()*+,;=~-._"
_URL_ESCAPES: Final = str.maketrans({char: f"\\{char}" for char in "()[]*_~!"} | {"&": "&amp;"})
_TITLE_ESCAPES: Final = str.maketrans(
    {char: f"&#{ord(char)};" for char in set(string.punctuation) - set(",.-:;/?")} | {"&": "&amp;"}
)


class CitedSource(msgspec.Struct, frozen=True, gc=False):
    """The fields of a source that a citation shows."""

    sid: int
    title: str = ""
    url: str = ""


def format_citation(sources: Sequence[CitedSource], form: CitationFormat, *, link: bool) -> str:
    """Return the formatted citation of these sources, with links if `link` is true."""
    match form:
        case "markdown":
            return "".join(_format_markdown(source, link=link) for source in sources)
        case "html":
            marks = "".join(_format_html(source, link=link) for source in sources)
            return f'<sup class="cite" data-sids="{",".join(str(source.sid) for source in sources)}">{marks}</sup>'
        case "text":
            return "".join(f"[{source.sid}]" for source in sources)
        case _:
            assert_never(form)


def _format_markdown(source: CitedSource, *, link: bool) -> str:
    label = rf"\[{source.sid}\]"
    url = _escape_url(source.url)
    if not link or not url:
        return label
    # A bare destination: `<` and `>` could pair with an unclosed one in the text before.
    title = _one_line(source.title).translate(_TITLE_ESCAPES)
    return f"[{label}]({url.translate(_URL_ESCAPES)}" + (f' "{title}")' if title else ")")


def _format_html(source: CitedSource, *, link: bool) -> str:
    label = f"[{source.sid}]"
    url = _escape_url(source.url)
    if not link or not url:
        return label
    title = html.escape(_one_line(source.title))
    return f'<a href="{html.escape(url)}"' + (f' title="{title}"' if title else "") + f">{label}</a>"


def _escape_url(url: str) -> str:
    """Return the address with invalid characters percent-encoded; empty if it is not a web address."""
    if len(url) > MAX_URL_CHARS or "\\" in url or not url.isprintable() or not _WEB.match(url):
        return ""
    return quote(url, safe=_URL_SAFE)


def _one_line(title: str) -> str:
    """Return the title on one line, without invisible characters."""
    visible = "".join(char if char.isprintable() else " " for char in title[: 2 * MAX_TITLE_CHARS])
    return " ".join(visible.split())[:MAX_TITLE_CHARS].rstrip()
