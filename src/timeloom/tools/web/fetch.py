"""The tool `web_tools.web_fetch`: reads pages of the web and adds them to the sources."""

import asyncio
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from timeloom.core.sources import NewSource
from timeloom.core.sources.rows import to_json_text
from timeloom.core.view.seen_addresses import LINKS_FIELD
from timeloom.ports.tool import Outcome, ToolContext
from timeloom.ports.web import PageState, WebPage, WebReader
from timeloom.tools.define import FunctionTool, tool
from timeloom.tools.web.sources import SHOWN_CHARS, add_to_pool, result_artifacts

MAX_URLS: Final = 10
"""Most pages of one call. Fewer takes more rounds; more lets one call fill the prompt."""

DEADLINE_S: Final = 60.0

Urls = Annotated[tuple[str, ...], Meta(min_length=1, max_length=MAX_URLS)]


class FetchedPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page in the result, by its address."""

    sid: int | None = None
    title: str = ""
    state: PageState
    text: str = ""
    """The beginning of the page."""
    chars: int = 0
    """The length of the whole text, if the beginning is not all of it."""
    reason: str = ""
    pages: int = 0
    published_time_iso: str = ""


def make_fetch_tool(reader: WebReader) -> FunctionTool:
    """Return the tool that reads pages with this reader."""

    @tool("web_tools.web_fetch", effect="pure", deadline_s=DEADLINE_S)
    async def web_fetch(context: ToolContext, urls: Urls, objective: str = "") -> Outcome:
        """Read pages of the web. Each page becomes a source; the result shows its state and its first characters.

        Read the whole text with react.read(["so:sources_pool[<sid>]"]). Text of PDF files has page numbers to cite.

        urls: up to 10 addresses with http:// or https://
        objective: what you want to find out; recorded with the call
        """
        del objective
        wanted = list(dict.fromkeys(urls))
        pages = await asyncio.gather(*(reader.fetch(url, context.caller.tenant) for url in wanted))
        readable = [page for page in pages if page.text]
        sids = add_to_pool([_to_source(page) for page in readable], context)
        sid_of = {page.url: sid for page, sid in zip(readable, sids, strict=True)}
        listed = {page.url: _describe(page, sid_of.get(page.url)) for page in pages}
        return Outcome(artifacts=result_artifacts(msgspec.json.encode(listed).decode(), sids, context))

    return web_fetch


def _to_source(page: WebPage) -> NewSource:
    return NewSource(
        source_type="web",
        title=page.title,
        url=page.canonical_url or page.final_url or page.url,
        text=page.text[:SHOWN_CHARS],
        content=page.text,
        mime=page.mime,
        size_bytes=page.size_bytes,
        favicon=page.favicon,
        published_time_iso=page.published_time_iso,
        modified_time_iso=page.modified_time_iso,
        fetched_time_iso=page.fetched_time_iso,
        extra=to_json_text({LINKS_FIELD: page.links}) if page.links else "",
    )


def _describe(page: WebPage, sid: int | None) -> FetchedPage:
    return FetchedPage(
        sid=sid,
        title=page.title,
        state=page.state,
        text=page.text[:SHOWN_CHARS],
        chars=len(page.text) if len(page.text) > SHOWN_CHARS else 0,
        reason=page.reason,
        pages=page.pages,
        published_time_iso=page.published_time_iso,
    )
