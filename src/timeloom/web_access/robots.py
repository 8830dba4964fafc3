"""Asks the robots.txt of a site whether timeloom may read a page (RFC 9309)."""

import asyncio
from collections import OrderedDict
from importlib import import_module
from typing import Any, Final, Protocol, cast

from timeloom.ports.clock import Clock
from timeloom.web_access.download import Download, Downloader, DownloadError
from timeloom.web_access.web_address import WebAddress

PRODUCT: Final = "timeloom"
"""The name that rules of a robots.txt have for timeloom."""

MAX_SITES: Final = 512
"""Most sites whose rules are kept."""

LIFETIME_US: Final = 3_600 * 1_000_000
"""How long rules are kept. RFC 9309 allows a day."""

MAX_ROBOTS_BYTES: Final = 512 * 1024
"""Bytes of a robots.txt that are read; RFC 9309 asks for at least 500 KiB."""


class RobotsRefusedError(Exception):
    """The rules of the site exclude the page."""


class _Rules(Protocol):
    def can_fetch(self, url: str, user_agent: str) -> bool: ...


class Robots:
    """The rules of the sites that were read in this process."""

    def __init__(self, downloader: Downloader, clock: Clock) -> None:
        self._downloader = downloader
        self._clock = clock
        self._known: OrderedDict[str, tuple[int, _Rules | None]] = OrderedDict()
        self._loading: dict[str, asyncio.Lock] = {}

    async def admit(self, address: WebAddress) -> None:
        """Raise `RobotsRefusedError` if the rules of the site exclude the address."""
        site = f"{address.scheme}://{address.host_header}"
        rules = await self._find(site)
        if rules and not rules.can_fetch(address.url, PRODUCT):
            raise RobotsRefusedError(f"the robots.txt of {address.host} excludes this page")

    async def _find(self, site: str) -> _Rules | None:
        lock = self._loading.setdefault(site, asyncio.Lock())
        try:
            # Ten pages of one site ask for its rules once.
            async with lock:
                known = self._known.get(site)
                if known and known[0] > self._clock.epoch_us():
                    return known[1]
                rules = await self._load(site)
                self._known[site] = (self._clock.epoch_us() + LIFETIME_US, rules)
                self._known.move_to_end(site)
                while len(self._known) > MAX_SITES:
                    self._known.popitem(last=False)
                return rules
        finally:
            if not lock.locked():
                self._loading.pop(site, None)

    async def _load(self, site: str) -> _Rules | None:
        """Return the rules; None if the site has none, or cannot be asked: then the page itself fails as well."""
        try:
            download = await self._downloader.get(f"{site}/robots.txt")
        except DownloadError:
            return None
        return await asyncio.to_thread(_parse, download)


def _parse(download: Download) -> _Rules | None:
    if download.status >= 500:
        return _parse_text("User-agent: *\nDisallow: /")
    if download.status != 200:
        return None
    return _parse_text(download.body[:MAX_ROBOTS_BYTES].decode("utf-8", "replace"))


def _parse_text(text: str) -> _Rules:
    return cast(_Rules, cast(Any, import_module("protego")).Protego.parse(text))
