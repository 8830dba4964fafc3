"""The program of a worker process: extracts text and metadata from HTML pages and PDF files.

It runs apart from the server, because the parsers are written in C and their input is hostile.
"""

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from typing import Any, Final, Literal, Protocol, cast
from urllib.parse import urljoin

import msgspec

from timeloom.platform.worker import serve_requests

MAX_TEXT_CHARS: Final = 4_000_000
"""Longest extracted text. A smaller limit cuts books; a larger one makes one page fill the store."""

MAX_TITLE_CHARS: Final = 1_000

MAX_LINK_CHARS: Final = 8_000
"""Longest list of the links of a page, in characters of its addresses. They are kept with each source."""
_CHARSET_BYTES: Final = 4_096
_META_CHARSET: Final = re.compile(
    rb"""<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}["']?([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE
)
_PAYWALL: Final = re.compile(
    r"""["']isAccessibleForFree["']\s{0,9}:\s{0,9}(?:false|["']false["'])""", re.IGNORECASE
)  # schema.org's mark of paywalled content
_WEB_CODEC: Final = re.compile(
    r"utf-8|utf-16(?:-[lb]e)?|cp125[0-8]|cp874|cp866|iso8859-[0-9]{1,2}|ascii|koi8-[ru]|mac-(?:roman|cyrillic)|gb2312|gbk"
    r"|gb18030|big5|big5hkscs|euc_jp|euc_kr|shift_jis|cp932|cp949|iso2022_jp|tis-620"
)
_DATE_CHARS: Final = 40
_PUBLISHED: Final = ("article:published_time", "datepublished", "date", "dc.date", "dcterms.created", "citation_date")
_MODIFIED: Final = ("article:modified_time", "og:updated_time", "datemodified", "dcterms.modified", "last-modified")
_PDF_DATE: Final = re.compile(
    r"(?:D:)?([0-9]{4})([0-9]{2})?([0-9]{2})?([0-9]{2})?([0-9]{2})?([0-9]{2})?(?:(Z|[+-])(?:([0-9]{2})'?([0-9]{2})?'?)?)?"
)


class HtmlElement(Protocol):
    """An element of a parsed page; the parser has no types of its own."""

    def get(self, name: str) -> str | None: ...

    def iter(self, *tags: str) -> "Iterable[HtmlElement]": ...

    def text_content(self) -> str: ...


class ExtractRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a page."""

    kind: Literal["html", "pdf", "text"]
    data: bytes
    url: str
    charset: str = ""
    """The charset of the `Content-Type` header."""
    max_pages: int = 200


class Extract(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a page contains; nothing is guessed that the page does not say."""

    title: str = ""
    text: str = ""
    published: str = ""
    modified: str = ""
    canonical_url: str = ""
    favicon: str = ""
    pages: int = 0
    """Pages of a PDF file; `text` has a line `[page n]` before each."""
    links: tuple[str, ...] = ()
    """The addresses that the page links to."""
    is_paywalled: bool = False
    """Whether the page declares that its text is not free."""
    is_cut: bool = False
    """Whether text is missing because of a limit."""
    problem: str = ""
    """Why nothing could be extracted."""


def extract(request: ExtractRequest) -> Extract:
    """Return the content of the page."""
    match request.kind:
        case "html":
            return _extract_html(request)
        case "pdf":
            return _extract_pdf(request)
        case "text":
            text = decode_text(request.data, request.charset)
            return Extract(text=text[:MAX_TEXT_CHARS], is_cut=len(text) > MAX_TEXT_CHARS)


def decode_text(data: bytes, charset: str) -> str:
    """Return the text of a page: by its byte order mark, its header, its own declaration, or as UTF-8."""
    for mark, name in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(name, "replace")
    declared = _META_CHARSET.search(data[:_CHARSET_BYTES])
    for name in (charset, declared[1].decode("ascii") if declared else "", "utf-8"):
        try:
            return data.decode(_web_charset(name))
        except (LookupError, ValueError):
            continue
    # Browsers read undeclared bytes that are no UTF-8 as windows-1252.
    return data.decode("cp1252", "replace")


def _web_charset(name: str) -> str:
    """Return the codec of a charset that the web knows; raises `LookupError` for other codecs of Python."""
    codec = codecs.lookup(name.strip()).name if name.strip() else ""
    if not _WEB_CODEC.fullmatch(codec):
        raise LookupError
    # The web means windows-1252 by these names.
    return "cp1252" if codec in ("iso8859-1", "ascii") else codec


def _extract_html(request: ExtractRequest) -> Extract:
    # Each kind of page loads its own parser.
    utils, core = (cast(Any, import_module(f"trafilatura.{name}")) for name in ("utils", "core"))
    source = decode_text(request.data, request.charset)
    tree = cast(HtmlElement | None, utils.load_html(source))
    if tree is None:
        return Extract(problem="the page is no HTML document")
    metadata = _read_metadata(tree, request.url)
    options = {"output_format": "markdown", "include_tables": True, "include_links": True, "include_comments": False}
    found = cast(str | None, core.extract(tree, url=request.url, **options)) or ""
    is_paywalled = bool(_PAYWALL.search(source))
    return msgspec.structs.replace(
        metadata, text=found[:MAX_TEXT_CHARS], is_cut=len(found) > MAX_TEXT_CHARS, is_paywalled=is_paywalled
    )


def _read_metadata(tree: HtmlElement, url: str) -> Extract:
    """Return what the head of the page says."""
    metas: dict[str, str] = {}
    for element in tree.iter("meta", "time"):
        name = element.get("property") or element.get("name") or element.get("itemprop") or ""
        value = element.get("content") or element.get("datetime") or ""
        if name and value:
            metas.setdefault(name.lower(), value.strip())
    links: dict[str, str] = {}
    for element in tree.iter("link"):
        links.setdefault((element.get("rel") or "").lower(), element.get("href") or "")
    titles = [" ".join((element.text_content() or "").split()) for element in tree.iter("title", "h1")]
    icon = next((links[rel] for rel in ("icon", "shortcut icon") if links.get(rel)), "")
    canonical = _join(url, links.get("canonical", ""))
    return Extract(
        title=(metas.get("og:title") or next(filter(None, titles), ""))[:MAX_TITLE_CHARS],
        published=_first_date(metas, _PUBLISHED),
        modified=_first_date(metas, _MODIFIED),
        canonical_url=canonical,
        favicon=_join(url, icon),
        links=_read_links(tree, canonical or url),
    )


def _read_links(tree: HtmlElement, url: str) -> tuple[str, ...]:
    """Return the first addresses that the page links to, each once."""
    found: dict[str, None] = {}
    chars = 0
    for element in tree.iter("a"):
        link = _join(url, element.get("href") or "").partition("#")[0]
        if link and link not in found:
            chars += len(link)
            if chars > MAX_LINK_CHARS:
                break
            found[link] = None
    return tuple(found)


def _first_date(metas: Mapping[str, str], names: Sequence[str]) -> str:
    """Return the first value that is a date; nothing is derived from the text of the page."""
    for name in names:
        with suppress(ValueError):
            value = metas.get(name, "")[:_DATE_CHARS]
            datetime.fromisoformat(value)
            return value
    return ""


def _join(base: str, link: str) -> str:
    """Return the absolute address of a link; empty if it has none that can be requested."""
    try:
        joined = urljoin(base, link.strip()) if link else ""
    except ValueError:
        return ""
    return joined if joined.startswith(("http://", "https://")) else ""


def _extract_pdf(request: ExtractRequest) -> Extract:
    pypdfium2 = cast(Any, import_module("pypdfium2"))
    try:
        document = pypdfium2.PdfDocument(request.data)
    except pypdfium2.PdfiumError as error:
        return Extract(problem=f"the PDF file cannot be read: {error}")
    pages = len(document)
    parts: list[str] = []
    chars = 0
    for number in range(1, min(pages, request.max_pages) + 1):
        text = cast(str, document[number - 1].get_textpage().get_text_range()).replace("\r\n", "\n").strip()
        parts.append(f"[page {number}]\n{text}")
        chars += len(text)
        if chars > MAX_TEXT_CHARS:
            break
    metadata = cast(dict[str, str], document.get_metadata_dict(skip_empty=True))
    return Extract(
        title=metadata.get("Title", "")[:MAX_TITLE_CHARS],
        text="\n\n".join(parts)[:MAX_TEXT_CHARS] if chars else "",
        published=_pdf_date(metadata.get("CreationDate", "")),
        modified=_pdf_date(metadata.get("ModDate", "")),
        pages=pages,
        is_cut=chars > MAX_TEXT_CHARS or pages > request.max_pages,
        problem="" if chars else "the PDF file contains no text, only pictures of it",
    )


def _pdf_date(text: str) -> str:
    """Return the date of a PDF file as ISO 8601, as exactly as the file says it."""
    found = _PDF_DATE.fullmatch(text.strip())
    if found is None:
        return ""
    year, month, day, hour, minute, second = (found[at] for at in range(1, 7))
    date = "-".join(filter(None, (year, month, day)))
    if not second:
        return date
    zone = "Z" if found[7] == "Z" else f"{found[7]}{found[8]}:{found[9] or '00'}" if found[7] else ""
    return f"{date}T{hour}:{minute}:{second}{zone}"


def answer(request: bytes) -> bytes:
    """Answer one frame."""
    return msgspec.msgpack.encode(extract(msgspec.msgpack.decode(request, type=ExtractRequest)))


if __name__ == "__main__":
    serve_requests(answer)
