"""Each search service is read in the form that its documentation shows; failures are named without keys.

Sources of the answers: Brave's "Web Search API responses" reference, SearXNG's "Search API" page of its documentation
and its JSON result fields, Tavily's "Search" endpoint reference, and the rows of `DDGS.text` in the readme of `ddgs`.
None of the services was asked over the internet.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.web_access.web_harness import Answer, always, reply, web_server
from timeloom.ports.web import SearchBackend, SearchFailedError, SearchHit, SearchQuery
from timeloom.web_access.search.brave import BraveSearch
from timeloom.web_access.search.duckduckgo import DuckDuckGoSearch
from timeloom.web_access.search.searxng import SearxngSearch
from timeloom.web_access.search.service import SearchService
from timeloom.web_access.search.tavily import TavilySearch

QUERY = SearchQuery(text="rain in bergen", count=2, freshness="week", country="no", safesearch="strict")

BRAVE = {
    "type": "search",
    "query": {"original": "rain in bergen"},
    "web": {
        "type": "search",
        "results": [
            {
                "title": "Weather in <strong>Bergen</strong>",
                "url": "https://weather.example/bergen",
                "description": "It <strong>rains</strong> &amp; rains.",
                "page_age": "2026-05-03T00:00:00",
                "profile": {"name": "Weather", "img": "https://i.example/p.png"},
                "meta_url": {"scheme": "https", "hostname": "weather.example", "favicon": "https://i.example/f.png"},
                "language": "en",
            },
            {"title": "Other", "url": "https://other.example/"},
        ],
    },
}
SEARXNG = {
    "query": "rain in bergen",
    "number_of_results": 0,
    "results": [
        {
            "url": "https://weather.example/bergen",
            "title": "Weather in Bergen",
            "content": "It rains.",
            "publishedDate": "2026-05-03T00:00:00",
            "engine": "duckduckgo",
            "parsed_url": ["https", "weather.example", "/bergen", "", "", ""],
            "engines": ["duckduckgo", "brave"],
            "positions": [1, 2],
            "score": 3.0,
            "category": "general",
        },
        {"url": "https://other.example/", "title": "Other", "content": None, "publishedDate": None},
        {"url": "https://third.example/", "title": "Third"},
    ],
    "answers": [],
    "unresponsive_engines": [],
}
TAVILY = {
    "query": "rain in bergen",
    "results": [
        {
            "title": "Weather in Bergen",
            "url": "https://weather.example/bergen",
            "content": "It rains.",
            "score": 0.81025416,
            "raw_content": None,
            "favicon": "https://weather.example/favicon.ico",
        }
    ],
    "response_time": "1.67",
}


def ask(make: Callable[[str], SearchBackend], answer: Answer, query: SearchQuery = QUERY) -> Sequence[SearchHit]:
    async def run() -> Sequence[SearchHit]:
        async with web_server(answer) as port:
            return await make(f"http://127.0.0.1:{port}").search(query, "acme")

    return asyncio.run(run())


def make_brave(base: str) -> SearchBackend:
    return BraveSearch("key-1", SearchService("brave"), base)


def make_searxng(base: str) -> SearchBackend:
    return SearxngSearch(base + "/", SearchService("searxng"))


def make_tavily(base: str) -> SearchBackend:
    return TavilySearch("key-2", SearchService("tavily"), base)


def test_brave() -> None:
    asked: list[tuple[str, str]] = []

    def answer(target: str, headers: Mapping[str, str]) -> bytes:
        asked.append((target, headers["x-subscription-token"]))
        return reply(json.dumps(BRAVE), content_type="application/json")

    first, second = ask(make_brave, answer)
    assert first == SearchHit(
        url="https://weather.example/bergen",
        title="Weather in Bergen",
        text="It rains & rains.",
        published_time_iso="2026-05-03T00:00:00",
        favicon="https://i.example/f.png",
    )
    assert second.text == ""
    parts = urlsplit(asked[0][0])
    assert (parts.path, asked[0][1]) == ("/res/v1/web/search", "key-1")
    expected = {"q": ["rain in bergen"], "count": ["2"], "country": ["NO"], "freshness": ["pw"]}
    assert parse_qs(parts.query) == {**expected, "safesearch": ["strict"]}


def test_searxng() -> None:
    asked: list[str] = []

    def answer(target: str, _: Mapping[str, str]) -> bytes:
        asked.append(target)
        return reply(json.dumps(SEARXNG), content_type="application/json")

    first, second = ask(make_searxng, answer)
    assert (first.text, first.published_time_iso) == ("It rains.", "2026-05-03T00:00:00")
    assert (second.title, second.text, second.published_time_iso) == ("Other", "", "")
    query = parse_qs(urlsplit(asked[0]).query)
    assert query == {"q": ["rain in bergen"], "format": ["json"], "safesearch": ["2"], "time_range": ["month"]}


def test_searxng_without_a_working_engine_has_failed() -> None:
    answer = json.dumps({"results": [], "unresponsive_engines": [["google", "CAPTCHA"]]})
    with pytest.raises(SearchFailedError, match="none of its engines"):
        ask(make_searxng, always(reply(answer)))


def test_tavily() -> None:
    keys: list[str] = []

    def answer(_: str, headers: Mapping[str, str]) -> bytes:
        keys.append(headers["authorization"])
        return reply(json.dumps(TAVILY), content_type="application/json")

    (hit,) = ask(make_tavily, answer)
    assert (hit.text, hit.query_relevance) == ("It rains.", 0.81025416)
    assert hit.favicon == "https://weather.example/favicon.ico"
    assert keys == ["Bearer key-2"]


def test_ddgs() -> None:
    def rows(query: SearchQuery) -> Sequence[Mapping[str, object]]:
        assert query == QUERY
        return [{"title": "Weather", "href": "https://weather.example/", "body": "It rains."}, {"title": "None"}]

    hits = asyncio.run(DuckDuckGoSearch(rows).search(QUERY, "acme"))
    assert hits == [SearchHit(url="https://weather.example/", title="Weather", text="It rains.")]


def test_an_error_of_ddgs_is_a_failed_search() -> None:
    def rows(_: SearchQuery) -> Sequence[Mapping[str, object]]:
        raise RuntimeError("secret")

    with pytest.raises(SearchFailedError, match=r"^ddgs failed \(RuntimeError\)$"):
        asyncio.run(DuckDuckGoSearch(rows).search(QUERY, "acme"))


@pytest.mark.parametrize("make", [make_brave, make_searxng, make_tavily])
@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (reply("{}", "401 Unauthorized"), "refused the key"),
        (reply("{}", "429 Too Many"), "no more requests"),
        (reply("{}", "500 Oops"), "status 500"),
        (reply("{}", "302 Found", location="http://127.0.0.1:9/"), "status 302"),
        (reply("not json"), "unknown form"),
        (reply('{"results": 3, "web": 3}'), "unknown form"),
        (reply("[" * 99_999), "unknown form"),
        (reply("x" * 4_200_000), "more than"),
        (b"nonsense", "cannot be reached"),
    ],
)
def test_a_failure_is_named_without_the_key(make: Callable[[str], SearchBackend], raw: bytes, reason: str) -> None:
    with pytest.raises(SearchFailedError, match=reason) as raised:
        ask(make, always(raw))
    assert "key-" not in str(raised.value)


@pytest.mark.parametrize("make", [make_brave, make_searxng, make_tavily])
def test_an_empty_answer_has_no_results(make: Callable[[str], SearchBackend]) -> None:
    assert ask(make, always(reply("{}")), SearchQuery(text="x")) == []
