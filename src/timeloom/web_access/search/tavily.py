"""Searches with the Tavily API."""

from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.ports.web import SearchHit, SearchQuery
from timeloom.web_access.search.service import MAX_HITS, SearchService

BASE_URL: Final = "https://api.tavily.com"
MAX_COUNT: Final = 20


class _Result(msgspec.Struct):
    url: str
    title: str = ""
    content: str = ""
    score: float | None = None
    published_date: str | None = None
    favicon: str | None = None


class _Answer(msgspec.Struct):
    results: list[_Result] = []


class TavilySearch:
    """The Tavily API; implements `SearchBackend`. It has no filter by country code and none of adult content."""

    name = "tavily"

    def __init__(self, key: str, service: SearchService, base_url: str = BASE_URL) -> None:
        self._key = key
        self._service = service
        self._base_url = base_url

    async def search(self, query: SearchQuery, tenant: str) -> Sequence[SearchHit]:
        body: dict[str, object] = {"query": query.text, "max_results": min(query.count, MAX_COUNT)}
        body["include_favicon"] = True
        if query.freshness:
            body["time_range"] = query.freshness
        headers = {"authorization": f"Bearer {self._key}"}
        answer = await self._service.post(f"{self._base_url}/search", body, headers, _Answer)
        return [
            SearchHit(
                url=result.url,
                title=result.title,
                text=result.content,
                query_relevance=result.score,
                published_time_iso=result.published_date or "",
                favicon=result.favicon or "",
            )
            for result in answer.results[:MAX_HITS]
        ]
