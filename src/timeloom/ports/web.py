"""The web port: reads pages and searches for them. Everything that it returns is foreign text."""

from collections.abc import Sequence
from typing import Final, Literal, Protocol

import msgspec

PageState = Literal[
    "ok",
    "redirected_away",
    "paywall",
    "blocked",
    "not_found",
    "timeout",
    "too_large",
    "not_text",
    "robots",
    "refused",
]
"""What became of a page. Only `ok` and `paywall` may have text."""

MAX_QUERY_CHARS: Final = 400
"""Longest query. Search services cut or refuse longer ones."""


class WebPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page that was fetched, or the reason why it was not. Times are as exact as the page says them."""

    url: str
    """The address that was asked for."""
    state: PageState
    reason: str = ""
    """Why the state is not `ok`; one sentence."""
    final_url: str = ""
    """The address after all redirects."""
    canonical_url: str = ""
    """The address that the page calls its own, if it has the same host."""
    title: str = ""
    text: str = ""
    mime: str = ""
    pages: int = 0
    """Pages of a PDF file; `text` has a line `[page n]` before each."""
    size_bytes: int = 0
    favicon: str = ""
    published_time_iso: str = ""
    modified_time_iso: str = ""
    fetched_time_iso: str = ""
    links: tuple[str, ...] = ()
    """The addresses that the page links to; agents may follow them without a question."""
    is_cut: bool = False
    """Whether the text is not complete because of a limit."""


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query for a search service."""

    text: str
    count: int = 8
    freshness: Literal["", "day", "week", "month", "year"] = ""
    """Only results of the last day, week, month or year; empty does not filter."""
    country: str = ""
    """A country by its ISO 3166 code of two letters; empty does not prefer one."""
    safesearch: Literal["off", "moderate", "strict"] = "moderate"


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A result of a search service, with what the service said and nothing else."""

    url: str
    title: str
    text: str = ""
    favicon: str = ""
    published_time_iso: str = ""
    modified_time_iso: str = ""
    query_relevance: float | None = None
    """The score of the service, from 0 to 1."""


class SearchFailedError(Exception):
    """A search service gave no results; the message says why and names no key."""


class SearchBackend(Protocol):
    """A search service."""

    @property
    def name(self) -> str:
        """The name by which notices call it."""
        ...

    async def search(self, query: SearchQuery, tenant: str, /) -> Sequence[SearchHit]:
        """Return the results in the order of the service; raises `SearchFailedError`."""
        ...


class WebReader(Protocol):
    """Reads pages of the web."""

    async def fetch(self, url: str, tenant: str, /) -> WebPage:
        """Return the page; a page that cannot be read has another state than `ok`. Never raises for an address."""
        ...
