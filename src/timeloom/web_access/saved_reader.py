"""Reads the saved pages of a folder, and all other pages from the web."""

from timeloom.ports.web import WebPage, WebReader
from timeloom.web_access.search.folder import SavedPages


class SavedReader:
    """Implements `WebReader`: a saved page counts before the one on the web."""

    def __init__(self, saved: SavedPages, web: WebReader) -> None:
        self._saved = saved
        self._web = web

    async def fetch(self, url: str, tenant: str) -> WebPage:
        """Return the saved page with that address, or the page of the web."""
        return await self._saved.find(url) or await self._web.fetch(url, tenant)
