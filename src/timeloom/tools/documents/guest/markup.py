"""Builds the HTML page of a document from cleaned markup."""

import html
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from timeloom.tools.documents.guest.job import Job
from timeloom.tools.documents.guest.markdown import find_title, markdown_to_html

_MORE_TAGS = frozenset(
    {
        *("article", "aside", "caption", "col", "colgroup", "details", "div", "dl", "figcaption", "figure", "footer"),
        *("header", "main", "mark", "section", "small", "span", "style", "summary", "table", "tbody", "td", "tfoot"),
        *("th", "thead", "tr", "u", "wbr"),
    }
)
_GLOBAL = frozenset({"class", "id", "style", "dir", "lang", "title"})
_LINKED = re.compile(r"(?:https?://|mailto:|#)", re.IGNORECASE)
_CITATION = re.compile(r'<a href="(#source-[0-9]+)"([^>]*)>(.*?)</a>')


def build_page(job: Job) -> str:
    """Return the HTML page of the document, with its title and sources."""
    body = clean_html(markdown_to_html(job.content) if job.format == "markdown" else job.content)
    heading = find_title(job.content) if job.format == "markdown" else _find_html_title(body)
    title = job.title or heading
    body = _link_citations(body, job)
    if job.title and job.title.strip() != heading.strip():
        body = f"<h1>{html.escape(job.title)}</h1>\n{body}"
    return wrap_page(body + _sources_section(job), title)


def wrap_page(body: str, title: str) -> str:
    """Return a whole page with this body."""
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'


def clean_html(markup: str) -> str:
    """Return the markup without scripts, frames, forms and event handlers; styles stay, since they fetch nothing."""
    nh3: Any = import_module("nh3")
    attributes: dict[str, set[str]] = {tag: set(names) for tag, names in nh3.ALLOWED_ATTRIBUTES.items()}
    attributes["*"] = attributes.get("*", set()) | _GLOBAL
    attributes["a"] = (attributes.get("a", set()) | {"href"}) - {"rel"}
    for tag in ("td", "th"):
        attributes[tag] = attributes.get(tag, set()) | {"colspan", "rowspan", "align"}
    cleaned: str = nh3.clean(
        markup,
        tags=set(nh3.ALLOWED_TAGS) | _MORE_TAGS,
        clean_content_tags={"script", "title", "template", "iframe", "object", "noscript"},
        attributes=attributes,
        attribute_filter=_keep_attribute,
        url_schemes={"http", "https", "mailto", "data", "file", "fi"},
        link_rel=None,
    )
    return cleaned


def text_of(markup: str) -> str:
    """Return the text of some markup without any tag."""
    nh3: Any = import_module("nh3")
    return html.unescape(nh3.clean(markup, tags=set(), clean_content_tags={"script", "style", "title"}))


def load_style(name: str) -> str:
    """Return a stylesheet of this folder."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _keep_attribute(tag: str, attribute: str, value: str) -> str | None:
    """Drop links to files: no reader of the document has them."""
    return value if (tag, attribute) != ("a", "href") or _LINKED.match(value) else None


def _link_citations(body: str, job: Job) -> str:
    """Return the body with citations that lead to the list of sources, or to the sources themselves without one."""

    def replace(found: re.Match[str]) -> str:
        source = job.find_source(found[1])
        if source is None:
            return found[0]
        if job.sources_section:
            mark = f'<a href="{found[1]}">{found[3]}</a>'
        else:
            mark = f'<a href="{html.escape(source.url)}">{found[3]}</a>' if source.url else found[3]
        return f'<sup class="cite">{mark}</sup>'

    return _CITATION.sub(replace, body)


def _sources_section(job: Job) -> str:
    if not job.sources or not job.sources_section:
        return ""
    rows: list[str] = []
    for source in job.sources:
        name = html.escape(source.label)
        linked = f'<a href="{html.escape(source.url)}">{name}</a>' if source.url else name
        address = f' <span class="address">{html.escape(source.url)}</span>' if source.url and source.title else ""
        rows.append(f'<p class="source" id="source-{source.sid}"><b>[{source.sid}]</b> {linked}{address}</p>')
    return f'\n<section class="sources"><h2>Sources</h2>{"".join(rows)}</section>'


def _find_html_title(body: str) -> str:
    found = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.DOTALL)
    return text_of(found[1]).strip() if found else ""
