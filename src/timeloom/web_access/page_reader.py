"""Reads pages: downloads, decides what the response is, and extracts its text in a worker process."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from timeloom.platform.worker_pool import WorkerError, WorkerLimits, WorkerPool
from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.web import PageState, WebPage
from timeloom.web_access import extract_worker
from timeloom.web_access.download import Download, Downloader, DownloadError, DownloadFailure
from timeloom.web_access.extract_worker import Extract, ExtractRequest
from timeloom.web_access.page_cache import CachedPage, PageCache
from timeloom.web_access.robots import Robots, RobotsRefusedError

EXTRACT_LIMITS: Final = WorkerLimits(request_s=20.0, memory_bytes=2 * 1024**3)
"""Limits of a worker. Parsers reserve address space that they never use, so the memory is larger than their need."""

EXTRACT_WORKER: Final = extract_worker.__name__
"""The program of the worker processes."""

_STATE_OF_FAILURE: Final[Mapping[DownloadFailure, PageState]] = {
    "refused": "refused",
    "timeout": "timeout",
    "too_large": "too_large",
    "unreachable": "not_found",
    "damaged": "not_text",
    "too_many_redirects": "redirected_away",
}
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = frozenset({"application/json", "application/xml", "application/javascript", "application/x-yaml"})
_PDF: Final = "application/pdf"


class PageReader:
    """Reads pages of the web through the guard; implements `WebReader`."""

    def __init__(
        self, downloader: Downloader, workers: WorkerPool, clock: Clock, *, robots: Robots | None, max_pages: int = 200
    ) -> None:
        self._downloader = downloader
        self._workers = workers
        self._clock = clock
        self._robots = robots
        self._max_pages = max_pages
        self._cache = PageCache()

    async def fetch(self, url: str, tenant: str) -> WebPage:
        """Return the page; a page that cannot be read has another state than `ok`."""
        known = self._cache.get(tenant, url)
        if known and known.fresh_until_us > self._clock.epoch_us():
            return known.page
        try:
            admit = self._robots.admit if self._robots else None
            download = await self._downloader.get(url, known.validators if known else None, admit=admit)
        except DownloadError as error:
            return WebPage(url=url, state=_STATE_OF_FAILURE[error.failure], reason=str(error))
        except RobotsRefusedError as error:
            return WebPage(url=url, state="robots", reason=str(error))
        return await self._read(url, tenant, download, known)

    async def _read(self, url: str, tenant: str, download: Download, known: CachedPage | None) -> WebPage:
        now_us = self._clock.epoch_us()
        if download.status == 304 and known:
            page = replace(known.page, fetched_time_iso=timestamp(now_us))
            # The response may omit the validators; the known ones stay valid.
            headers = {"etag": known.etag, "last-modified": known.last_modified, **download.headers}
            self._cache.put(tenant, url, page, headers, now_us)
            return page
        page = replace(
            await self._interpret(url, download),
            final_url=download.address.url,
            size_bytes=len(download.body),
            fetched_time_iso=timestamp(now_us),
        )
        if page.state == "ok":
            self._cache.put(tenant, url, page, download.headers, now_us)
        return page

    async def _interpret(self, url: str, download: Download) -> WebPage:
        if failed := _state_of_status(download.status):
            return WebPage(url=url, state=failed, reason=f"the server answered with status {download.status}")
        if _leads_away(url, download):
            return WebPage(url=url, state="redirected_away", reason="the page redirects to the start page of a site")
        mime, charset = _content_type(download)
        kind = _kind_of(mime)
        if kind is None:
            return WebPage(url=url, state="not_text", mime=mime, reason=f"{mime or 'the content'} has no text to read")
        request = ExtractRequest(
            kind=kind, data=download.body, url=download.address.url, charset=charset, max_pages=self._max_pages
        )
        try:
            answer = await self._workers.run(msgspec.msgpack.encode(request))
        except WorkerError as error:
            return WebPage(url=url, state="not_text", mime=mime, reason=f"its text could not be extracted: {error}")
        return _to_page(url, mime, download, msgspec.msgpack.decode(answer, type=Extract))


def _to_page(url: str, mime: str, download: Download, extract: Extract) -> WebPage:
    state: PageState = "ok"
    reason = ""
    if not extract.text.strip():
        state, reason = "not_text", extract.problem or "the page has no text that can be read without running it"
    elif extract.is_paywalled:
        state, reason = "paywall", "the page declares that its whole text is not free"
    return WebPage(
        url=url,
        state=state,
        reason=reason,
        canonical_url=extract.canonical_url if _has_host(extract.canonical_url, download) else "",
        title=extract.title,
        text=extract.text,
        mime=mime,
        pages=extract.pages,
        favicon=extract.favicon,
        published_time_iso=extract.published,
        modified_time_iso=extract.modified,
        links=extract.links,
        is_cut=extract.is_cut,
    )


def _state_of_status(status: int) -> PageState | None:
    """Return the state of a response that has no page; None if it has one."""
    if 200 <= status < 300:
        return None
    if status in (404, 410):
        return "not_found"
    return "paywall" if status == 402 else "blocked"


def _leads_away(url: str, download: Download) -> bool:
    """Return whether redirects ended at the start page of a site, as sites do with pages that are gone."""
    if not download.redirects or download.address.target != "/":
        return False
    path = url.partition("://")[2].partition("/")[2]
    return bool(path.partition("#")[0])


def _content_type(download: Download) -> tuple[str, str]:
    """Return the MIME type and the charset; the first bytes tell PDF, which servers often call something else."""
    mime, _, parameters = download.headers.get("content-type", "").partition(";")
    charset = parameters.partition("charset=")[2].strip(" \"'").partition(";")[0][:40]
    mime = _PDF if download.body.startswith(b"%PDF-") else mime.strip().lower()[:100]
    if not mime and download.body.lstrip()[:1] == b"<":
        mime = "text/html"
    return mime, charset


def _kind_of(mime: str) -> Literal["html", "pdf", "text"] | None:
    if mime in _HTML:
        return "html"
    if mime == _PDF:
        return "pdf"
    is_text = mime.startswith("text/") or mime in _TEXT or mime.endswith(("+json", "+xml"))
    return "text" if is_text else None


def _has_host(url: str, download: Download) -> bool:
    """Return whether the address has the host that was read; a page cannot speak for another site."""
    return url.partition("://")[2].partition("/")[0].lower() == download.address.host_header
