"""The web tools: their results, sources and notices."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.harness.react_tools import ToolHarness, open_tool_harness
from timeloom.core.sources import normalize_url
from timeloom.ports.tool import Outcome
from timeloom.ports.web import SearchFailedError, SearchHit, SearchQuery, WebPage
from timeloom.tools.define import FunctionTool
from timeloom.tools.web.fetch import make_fetch_tool
from timeloom.tools.web.merge import merge_hits
from timeloom.tools.web.search import make_search_tool


class TableReader:
    """Knows some pages; all others are not found."""

    def __init__(self, *pages: WebPage) -> None:
        self.pages = {page.url: page for page in pages}

    async def fetch(self, url: str, tenant: str) -> WebPage:
        assert tenant == "t"
        return self.pages.get(url) or WebPage(url=url, state="not_found", reason="the server answered with status 404")


class TableSearch:
    """Answers queries from a table; a query that it does not have fails."""

    def __init__(self, name: str, table: Mapping[str, Sequence[SearchHit]]) -> None:
        self.name = name
        self.table = table
        self.asked: list[SearchQuery] = []

    async def search(self, query: SearchQuery, tenant: str) -> Sequence[SearchHit]:
        assert tenant == "t"
        self.asked.append(query)
        if query.text not in self.table:
            raise SearchFailedError(f"{self.name} answered with status 500")
        return self.table[query.text]


def hit(name: str, text: str = "", favicon: str = "") -> SearchHit:
    return SearchHit(url=f"https://{name}.example/", title=name, text=text, favicon=favicon)


def with_harness(tmp_path: Path, use: Callable[[ToolHarness], Coroutine[object, object, None]]) -> None:
    async def run() -> None:
        await use(await open_tool_harness(tmp_path))

    asyncio.run(run())


async def call(stage: ToolHarness, tool: FunctionTool, **params: object) -> Outcome:
    """Return the outcome with the rows that the call added to the pool."""
    context = stage.context()
    outcome = await tool.call(json.dumps(params), context)
    assert context.new_sources is not None
    rows = context.new_sources.rows()
    await stage.record(tool.spec.tool_id, context, outcome)
    return replace(outcome, sources=rows)


def content(outcome: Outcome) -> Any:
    (text,) = [artifact.text for artifact in outcome.artifacts if artifact.text]
    return json.loads(str(text))


def test_a_fetched_page_becomes_a_source_with_its_whole_text(tmp_path: Path) -> None:
    page = WebPage(
        url="https://a.example/x?y",
        state="ok",
        title="A",
        text="a" * 600,
        canonical_url="https://a.example/x",
        mime="text/html",
        size_bytes=900,
        published_time_iso="2024-03-05",
        fetched_time_iso="2026-01-01T00:00:00Z",
    )

    async def use(stage: ToolHarness) -> None:
        tool = make_fetch_tool(TableReader(page))
        outcome = await call(stage, tool, urls=[page.url, "https://no.example/", page.url])
        assert content(outcome) == {
            page.url: {
                "sid": 1,
                "title": "A",
                "state": "ok",
                "text": "a" * 500,
                "chars": 600,
                "published_time_iso": "2024-03-05",
            },
            "https://no.example/": {"state": "not_found", "reason": "the server answered with status 404"},
        }
        (row,) = outcome.sources
        assert (row.sid, row.url, row.content, row.text) == (1, "https://a.example/x", "a" * 600, "a" * 500)
        metadata = outcome.artifacts[0]
        assert (metadata.path, metadata.meta_only, metadata.sources_used) == ("so:sources_pool[1]", True, (1,))
        again = await call(stage, tool, urls=[page.url])
        assert again.sources == ()
        assert content(again)[page.url]["sid"] == 1

    with_harness(tmp_path, use)


def test_pages_without_text_leave_no_source(tmp_path: Path) -> None:
    async def use(stage: ToolHarness) -> None:
        outcome = await call(stage, make_fetch_tool(TableReader()), urls=["https://no.example/"])
        assert outcome.sources == ()
        assert outcome.artifacts[0].path.startswith("tc:")

    with_harness(tmp_path, use)


def test_results_of_several_services_are_merged_by_address_and_rank(tmp_path: Path) -> None:
    one = TableSearch("one", {"q": [hit("a"), hit("b", text="of one")], "r": [hit("d")]})
    other = TableSearch("other", {"q": [hit("b", favicon="https://b.example/i"), hit("c")], "r": []})

    async def use(stage: ToolHarness) -> None:
        outcome = await call(stage, make_search_tool([one, other]), queries=["q", "r", "q"], n=3)
        assert [row["title"] for row in content(outcome)] == ["b", "a", "d"]
        first = outcome.sources[0]
        assert (first.sid, first.text, first.favicon) == (1, "of one", "https://b.example/i")
        assert (first.provider_rank, first.weighted_rank) == (1.0, round(1 / 62 + 1 / 61, 6))
        assert (first.objective_relevance, first.authority) == (None, None)
        assert outcome.artifacts[0].path == "so:sources_pool[1-3]"
        assert [query.count for query in one.asked] == [3, 3]

    with_harness(tmp_path, use)


def test_a_service_that_fails_is_named_and_the_others_count(tmp_path: Path) -> None:
    async def use(stage: ToolHarness) -> None:
        tool = make_search_tool([TableSearch("bad", {}), TableSearch("good", {"q": [hit("a")]})])
        outcome = await call(stage, tool, queries=["q"])
        assert outcome.error is None
        assert [(notice.code, notice.text) for notice in outcome.notices] == [
            ("search_backend_failed", "bad answered with status 500")
        ]
        assert len(outcome.sources) == 1

    with_harness(tmp_path, use)


def test_a_search_without_any_service_that_answers_has_failed(tmp_path: Path) -> None:
    async def use(stage: ToolHarness) -> None:
        outcome = await call(stage, make_search_tool([TableSearch("bad", {})]), queries=["q"])
        assert outcome.error is not None
        assert outcome.error.code == "search_backend_failed"

    with_harness(tmp_path, use)


@pytest.mark.parametrize(
    "params",
    [
        {"queries": []},
        {"queries": ["q"] * 6},
        {"queries": [""]},
        {"queries": ["q" * 401]},
        {"queries": ["q"], "n": 21},
        {"queries": ["q"], "country": "nor"},
        {"queries": ["q"], "freshness": "hour"},
    ],
)
def test_parameters_out_of_range_are_refused(tmp_path: Path, params: dict[str, object]) -> None:
    async def use(stage: ToolHarness) -> None:
        outcome = await call(stage, make_search_tool([TableSearch("one", {"q": []})]), **params)
        assert outcome.error is not None
        assert outcome.error.code == "tool_params_invalid"

    with_harness(tmp_path, use)


HITS = st.lists(st.sampled_from("abcdefgh").map(hit), max_size=8)


@given(st.lists(HITS, max_size=4))
def test_merging_lists_each_address_once_with_its_best_rank(lists: list[list[SearchHit]]) -> None:
    merged = merge_hits(lists)
    addresses = [normalize_url(ranked.hit.url) for ranked in merged]
    assert sorted(addresses) == sorted({normalize_url(one.url) for hits in lists for one in hits})
    weights = [ranked.weighted_rank for ranked in merged]
    assert weights == sorted(weights, reverse=True)
    for ranked in merged:
        ranks = [hits.index(one) + 1 for hits in lists for one in hits if one.url == ranked.hit.url]
        assert ranked.provider_rank == min(ranks)
