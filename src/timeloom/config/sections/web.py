"""Settings of the web tools: whether agents search and read the web, and with which services."""

from pathlib import Path
from typing import Annotated

import msgspec

from timeloom.config.field_help import SettingHelp
from timeloom.config.value_types import SecretKey, Url, Words


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The tools `web_tools.web_search` and `web_tools.web_fetch`."""

    enabled: Annotated[bool, SettingHelp("Whether agents have the web tools; they need the extra `web`.")] = False
    search: Annotated[
        Words,
        SettingHelp(
            "Search services: `searxng`, `brave`, `tavily`, `ddgs` (no key), `folder`. Several merge their results; "
            "none leaves out the search tool."
        ),
    ] = ()
    allow: Annotated[
        Words,
        SettingHelp(
            "Hosts that may be fetched although their addresses are not public or their port is not 80 or 443: `host` "
            "or `host:port`."
        ),
    ] = ()
    robots: Annotated[bool, SettingHelp("Whether the robots.txt of a site decides which of its pages are fetched.")] = (
        True
    )
    searxng_url: Annotated[Url, SettingHelp("Base URL of a SearXNG instance that offers JSON.")] = ""
    brave_key: Annotated[
        SecretKey,
        SettingHelp("API key for Brave Search, or a reference to it.", variables=("BRAVE_API_KEY",), secret=True),
    ] = ""
    tavily_key: Annotated[
        SecretKey,
        SettingHelp("API key for Tavily, or a reference to it.", variables=("TAVILY_API_KEY",), secret=True),
    ] = ""
    folder: Annotated[Path | None, SettingHelp("Folder of saved pages for the search service `folder`.")] = None
    folder_url: Annotated[
        Url, SettingHelp("Address below which the pages of `web.folder` stand that declare no address.")
    ] = ""

    def __repr__(self) -> str:
        return "WebSettings(...)"
