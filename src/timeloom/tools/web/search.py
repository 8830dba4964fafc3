"""The tool `web_tools.web_search`: asks search services and adds their results to the sources."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from timeloom.core.blocks import ToolError
from timeloom.ports.tool import Outcome, ToolContext, ToolNotice
from timeloom.ports.web import MAX_QUERY_CHARS, SearchBackend, SearchFailedError, SearchHit, SearchQuery
from timeloom.tools.define import FunctionTool, tool
from timeloom.tools.web.merge import merge_hits, to_source
from timeloom.tools.web.sources import SHOWN_CHARS, add_to_pool, result_artifacts

MAX_QUERIES: Final = 5
"""Most queries of one call."""

MAX_RESULTS: Final = 20
"""Most results of one call. Fewer hides sources; more fills the prompt with snippets."""

DEADLINE_S: Final = 30.0

Query = Annotated[str, Meta(min_length=1, max_length=MAX_QUERY_CHARS)]
Queries = Annotated[tuple[Query, ...], Meta(min_length=1, max_length=MAX_QUERIES)]
Count = Annotated[int, Meta(ge=1, le=MAX_RESULTS)]
Country = Annotated[str, Meta(pattern=r"\A(?:[A-Za-z]{2})?\Z")]


class FoundPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A result as the model sees it."""

    sid: int
    title: str
    url: str
    text: str = ""
    published_time_iso: str = ""


def make_search_tool(backends: Sequence[SearchBackend]) -> FunctionTool:
    """Return the tool that asks these services."""

    @tool("web_tools.web_search", effect="pure", deadline_s=DEADLINE_S)
    async def web_search(
        context: ToolContext,
        queries: Queries,
        n: Count = 8,
        freshness: Literal["", "day", "week", "month", "year"] = "",
        country: Country = "",
        safesearch: Literal["off", "moderate", "strict"] = "moderate",
        objective: str = "",
    ) -> Outcome:
        """Search the web. Each result becomes a source that you can cite; read pages with web_tools.web_fetch.

        queries: up to 5 queries, each in a few words
        n: results in all, at most 20
        freshness: only results of the last day, week, month or year
        country: a country as a code of two letters, such as de
        objective: what you want to find out; recorded with the call
        """
        del objective
        asked = [
            SearchQuery(text=text, count=n, freshness=freshness, country=country, safesearch=safesearch)
            for text in dict.fromkeys(queries)
        ]
        pairs = [(backend, query) for backend in backends for query in asked]
        answers = await asyncio.gather(*(_ask(backend, query, context) for backend, query in pairs))
        failures = list(dict.fromkeys(str(answer) for answer in answers if isinstance(answer, SearchFailedError)))
        notices = tuple(ToolNotice("search_backend_failed", text) for text in failures)
        lists = [answer for answer in answers if not isinstance(answer, SearchFailedError)]
        if not lists:
            return Outcome(notices=notices, error=ToolError("search_backend_failed", "; ".join(failures)))
        sources = [to_source(ranked) for ranked in merge_hits(lists)[:n]]
        sids = add_to_pool(sources, context)
        listed = [
            FoundPage(
                sid=sid,
                title=source.title,
                url=source.url,
                text=source.text[:SHOWN_CHARS],
                published_time_iso=source.published_time_iso,
            )
            for source, sid in zip(sources, sids, strict=True)
        ]
        artifacts = result_artifacts(msgspec.json.encode(listed).decode(), sids, context)
        return Outcome(notices=notices, artifacts=artifacts)

    return web_search


async def _ask(
    backend: SearchBackend, query: SearchQuery, context: ToolContext
) -> Sequence[SearchHit] | SearchFailedError:
    try:
        return await backend.search(query, context.caller.tenant)
    except SearchFailedError as error:
        return error
