"""Opens the web tools that the settings select."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from timeloom.config.errors import ConfigError
from timeloom.config.sections.web import WebSettings
from timeloom.platform.secrets import resolve_secret
from timeloom.ports.clock import Clock, SystemClock
from timeloom.ports.tool import Tool

if TYPE_CHECKING:
    from timeloom.platform.worker_pool import WorkerPool
    from timeloom.ports.web import SearchBackend
    from timeloom.web_access.search.folder import SavedPages

EXTRA: Final = ("lxml", "protego", "pypdfium2", "trafilatura")
"""Packages of the extra `web` without which no page can be read."""

WORKERS: Final = 2
"""Processes that extract text. More only help if more cores are free."""


@asynccontextmanager
async def open_web_tools(settings: WebSettings, clock: Clock | None = None) -> AsyncGenerator[Sequence[Tool]]:
    """Yield the web tools; none if they are off. Raises `ConfigError` if a part of them is missing."""
    if not settings.enabled:
        yield ()
        return
    if missing := [name for name in EXTRA if find_spec(name) is None]:
        raise ConfigError(
            "setting_invalid",
            f'web.enabled needs packages that are not installed ({", ".join(missing)}); install "timeloom[web]"',
        )
    # Lazy: an agent without web tools starts faster without them.
    from timeloom.platform.worker_pool import WorkerPool  # noqa: PLC0415
    from timeloom.tools.web.fetch import make_fetch_tool  # noqa: PLC0415
    from timeloom.tools.web.search import make_search_tool  # noqa: PLC0415
    from timeloom.web_access.download import Downloader  # noqa: PLC0415
    from timeloom.web_access.page_reader import EXTRACT_LIMITS, EXTRACT_WORKER, PageReader  # noqa: PLC0415
    from timeloom.web_access.robots import Robots  # noqa: PLC0415
    from timeloom.web_access.saved_reader import SavedReader  # noqa: PLC0415
    from timeloom.web_access.web_address import AllowedHosts  # noqa: PLC0415

    clock = clock or SystemClock()
    async with (
        WorkerPool(EXTRACT_WORKER, EXTRACT_LIMITS, size=WORKERS) as workers,
        Downloader(allowed=AllowedHosts(settings.allow)) as downloader,
    ):
        robots = Robots(downloader, clock) if settings.robots else None
        reader = PageReader(downloader, workers, clock, robots=robots)
        saved = _open_folder(settings, workers) if "folder" in settings.search else None
        backends = [_open_backend(name, settings, saved) for name in dict.fromkeys(settings.search)]
        tools: list[Tool] = [make_fetch_tool(SavedReader(saved, reader) if saved else reader)]
        yield [make_search_tool(backends), *tools] if backends else tools


def _open_backend(name: str, settings: WebSettings, saved: "SavedPages | None") -> "SearchBackend":
    from timeloom.web_access.search.service import SearchService  # noqa: PLC0415 - as above

    service = SearchService(name)
    match name:
        case "searxng":
            from timeloom.web_access.search.searxng import SearxngSearch  # noqa: PLC0415 - as above

            return SearxngSearch(_require(settings.searxng_url, "web.searxng_url", name), service)
        case "brave":
            from timeloom.web_access.search.brave import BraveSearch  # noqa: PLC0415 - as above

            return BraveSearch(_reveal(settings.brave_key, "web.brave_key", name), service)
        case "tavily":
            from timeloom.web_access.search.tavily import TavilySearch  # noqa: PLC0415 - as above

            return TavilySearch(_reveal(settings.tavily_key, "web.tavily_key", name), service)
        case "ddgs":
            from timeloom.web_access.search.duckduckgo import DuckDuckGoSearch  # noqa: PLC0415 - as above

            if find_spec("ddgs") is None:
                raise ConfigError("setting_invalid", "web.search names ddgs, which is not installed; pip install ddgs")
            return DuckDuckGoSearch()
        case "folder" if saved:
            return saved
        case _:
            known = "searxng, brave, tavily, ddgs, folder"
            raise ConfigError("setting_invalid", f"web.search names {name[:40]!a}; the services are {known}")


def _open_folder(settings: WebSettings, workers: "WorkerPool") -> "SavedPages":
    from timeloom.web_access.search.folder import SavedPages  # noqa: PLC0415 - as above

    folder = Path(_require(str(settings.folder or ""), "web.folder", "folder")).expanduser()
    if not folder.is_dir():
        raise ConfigError("setting_invalid", f"there is no folder {str(settings.folder)!a}, which web.folder names")
    return SavedPages(folder, workers, settings.folder_url)


def _reveal(value: str, key: str, backend: str) -> str:
    return resolve_secret(_require(value, key, backend)).reveal()


def _require(value: str, key: str, backend: str) -> str:
    if not value:
        raise ConfigError("setting_invalid", f"web.search names {backend}, so {key} must be set")
    return value
