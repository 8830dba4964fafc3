"""Keeps fetched pages in memory, apart for each tenant, and revalidates them with the validators of their server."""

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.ports.web import WebPage

MAX_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Text of all kept pages. More would take memory from conversations; less forgets pages that a turn reads again."""

MAX_FRESH_S: Final = 3_600
"""Longest time for which a page is used without asking its server, whatever the server allows."""

_MAX_AGE: Final = re.compile(r"(?:^|[\s,])max-age=([0-9]{1,9})")


class CachedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page with the validators of its response."""

    page: WebPage
    etag: str
    last_modified: str
    fresh_until_us: int

    @property
    def validators(self) -> dict[str, str]:
        """The headers of a conditional request."""
        headers = {"if-none-match": self.etag, "if-modified-since": self.last_modified}
        return {name: value for name, value in headers.items() if value}


class PageCache:
    """The least recently used pages leave first."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._pages: OrderedDict[tuple[str, str], CachedPage] = OrderedDict()

    def get(self, tenant: str, url: str) -> CachedPage | None:
        """Return the kept page of the tenant."""
        found = self._pages.get((tenant, url))
        if found:
            self._pages.move_to_end((tenant, url))
        return found

    def put(self, tenant: str, url: str, page: WebPage, headers: Mapping[str, str], now_us: int) -> None:
        """Keep the page if its response allows that."""
        self._drop((tenant, url))
        control = headers.get("cache-control", "").lower()
        etag, last_modified = headers.get("etag", ""), headers.get("last-modified", "")
        fresh_us = _fresh_s(control) * 1_000_000
        if "no-store" in control or not (etag or last_modified or fresh_us):
            return
        self._pages[tenant, url] = CachedPage(
            page=page, etag=etag, last_modified=last_modified, fresh_until_us=now_us + fresh_us
        )
        self._bytes += _size(page)
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._pages)))

    def _drop(self, key: tuple[str, str]) -> None:
        if dropped := self._pages.pop(key, None):
            self._bytes -= _size(dropped.page)


def _fresh_s(control: str) -> int:
    found = _MAX_AGE.search(control)
    return min(int(found[1]), MAX_FRESH_S) if found and "no-cache" not in control else 0


def _size(page: WebPage) -> int:
    return len(page.text) + 1_000
