"""Searches with an instance of SearXNG that offers JSON."""

from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.ports.web import SearchFailedError, SearchHit, SearchQuery
from timeloom.web_access.search.service import MAX_HITS, SearchService

_SAFESEARCH: Final = {"off": "0", "moderate": "1", "strict": "2"}


class _Result(msgspec.Struct):
    url: str
    title: str = ""
    content: str | None = ""
    publishedDate: str | None = None  # noqa: N815 - the name in the answer


class _Answer(msgspec.Struct):
    results: list[_Result] = []
    unresponsive_engines: list[object] = []


class SearxngSearch:
    """An instance of SearXNG; implements `SearchBackend`. Its settings must list `json` under `search.formats`."""

    name = "searxng"

    def __init__(self, base_url: str, service: SearchService) -> None:
        self._url = f"{base_url.rstrip('/')}/search"
        self._service = service

    async def search(self, query: SearchQuery, tenant: str) -> Sequence[SearchHit]:
        params = {"q": query.text, "format": "json", "safesearch": _SAFESEARCH[query.safesearch]}
        # SearXNG has no range of a week.
        if query.freshness:
            params["time_range"] = "month" if query.freshness == "week" else query.freshness
        answer = await self._service.get(self._url, params, {}, _Answer)
        if not answer.results and answer.unresponsive_engines:
            raise SearchFailedError("searxng has no results, because none of its engines answered")
        return [
            SearchHit(
                url=result.url,
                title=result.title,
                text=result.content or "",
                published_time_iso=result.publishedDate or "",
            )
            for result in answer.results[: min(query.count, MAX_HITS)]
        ]
