"""Chooses the transport: direct, or through a proxy if the environment names one."""

from urllib.request import getproxies

from timeloom.providers.http.answer import Transport
from timeloom.providers.http.direct import DirectTransport


def open_transport(url: str, connect_s: float) -> Transport:
    """Return the transport to the service at that URL; it connects at the first request."""
    proxies = getproxies()
    if any(proxies.get(scheme) for scheme in ("http", "https", "all")):
        from timeloom.providers.http.proxied import ProxiedTransport  # noqa: PLC0415 - httpx2 takes 100 ms

        return ProxiedTransport(url, connect_s)
    return DirectTransport(url, connect_s)
