"""Searches with the package `ddgs`, which reads the result pages of search engines and needs no key."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, cast

from timeloom.ports.web import SearchFailedError, SearchHit, SearchQuery
from timeloom.web_access.search.service import MAX_HITS, TIMEOUT_S

_SAFESEARCH: Final = {"off": "off", "moderate": "moderate", "strict": "on"}
_ENGLISH: Final = "en"

TextSearch = Callable[[SearchQuery], Sequence[Mapping[str, object]]]
"""Returns rows with `title`, `href` and `body`; blocks."""


class DuckDuckGoSearch:
    """The package `ddgs`; implements `SearchBackend`."""

    name = "ddgs"

    def __init__(self, text_search: TextSearch | None = None) -> None:
        self._text_search = text_search or _search_with_ddgs

    async def search(self, query: SearchQuery, tenant: str) -> Sequence[SearchHit]:
        try:
            async with asyncio.timeout(2 * TIMEOUT_S):
                rows = await asyncio.to_thread(self._text_search, query)
        except TimeoutError as error:
            raise SearchFailedError("ddgs did not answer in time") from error
        # The package raises errors of its own and of its HTTP client, which has no common base class.
        except Exception as error:
            raise SearchFailedError(f"ddgs failed ({type(error).__name__})") from error
        return [
            SearchHit(url=str(row["href"]), title=str(row.get("title", "")), text=str(row.get("body", "")))
            for row in rows[:MAX_HITS]
            if row.get("href")
        ]


def _search_with_ddgs(query: SearchQuery) -> Sequence[Mapping[str, object]]:
    ddgs = cast(Any, import_module("ddgs"))
    region = f"{query.country.lower()}-{_ENGLISH}" if query.country else f"us-{_ENGLISH}"
    rows = ddgs.DDGS(timeout=int(TIMEOUT_S)).text(
        query.text,
        region=region,
        safesearch=_SAFESEARCH[query.safesearch],
        timelimit=query.freshness[:1] or None,
        max_results=query.count,
    )
    return cast("Sequence[Mapping[str, object]]", rows)
