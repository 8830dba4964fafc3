"""Chooses the HTTP client: the built-in one, or httpx2 if a proxy or the settings require it."""

from typing import assert_never
from urllib.request import getproxies

from timeloom.providers.http.answer import Transport
from timeloom.providers.http.direct import DirectTransport
from timeloom.providers.settings import HttpClient


def open_transport(url: str, connect_s: float, http_client: HttpClient = "auto") -> Transport:
    """Return the transport to the service at that URL; it connects at the first request."""
    match http_client:
        case "auto":
            return _open_httpx2(url, connect_s) if _names_proxy() else DirectTransport(url, connect_s)
        case "direct":
            return DirectTransport(url, connect_s)
        case "httpx2":
            return _open_httpx2(url, connect_s)
        case _:
            assert_never(http_client)


def _names_proxy() -> bool:
    proxies = getproxies()
    return any(proxies.get(scheme) for scheme in ("http", "https", "all"))


def _open_httpx2(url: str, connect_s: float) -> Transport:
    from timeloom.providers.http.httpx2_transport import Httpx2Transport  # noqa: PLC0415 - httpx2 takes 100 ms

    return Httpx2Transport(url, connect_s)
