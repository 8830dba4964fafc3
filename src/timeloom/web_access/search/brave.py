"""Searches with the Brave Search API."""

from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.ports.web import SearchHit, SearchQuery
from timeloom.web_access.search.markup import strip_markup
from timeloom.web_access.search.service import MAX_HITS, SearchService

BASE_URL: Final = "https://api.search.brave.com"
MAX_COUNT: Final = 20

_FRESHNESS: Final = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}


class _MetaUrl(msgspec.Struct):
    favicon: str = ""


class _Result(msgspec.Struct):
    url: str
    title: str = ""
    description: str = ""
    page_age: str | None = None
    meta_url: _MetaUrl | None = None


class _Web(msgspec.Struct):
    results: list[_Result] = []


class _Answer(msgspec.Struct):
    web: _Web | None = None


class BraveSearch:
    """The Brave Search API; implements `SearchBackend`."""

    name = "brave"

    def __init__(self, key: str, service: SearchService, base_url: str = BASE_URL) -> None:
        self._key = key
        self._service = service
        self._base_url = base_url

    async def search(self, query: SearchQuery, tenant: str) -> Sequence[SearchHit]:
        params = {"q": query.text, "count": str(min(query.count, MAX_COUNT)), "safesearch": query.safesearch}
        if query.country:
            params["country"] = query.country.upper()
        if query.freshness:
            params["freshness"] = _FRESHNESS[query.freshness]
        headers = {"x-subscription-token": self._key}
        answer = await self._service.get(f"{self._base_url}/res/v1/web/search", params, headers, _Answer)
        return [
            SearchHit(
                url=result.url,
                title=strip_markup(result.title),
                text=strip_markup(result.description),
                published_time_iso=result.page_age or "",
                favicon=result.meta_url.favicon if result.meta_url else "",
            )
            for result in (answer.web.results if answer.web else [])[:MAX_HITS]
        ]
