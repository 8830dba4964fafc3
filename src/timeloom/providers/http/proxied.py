"""Sends requests to a service through a proxy, with httpx2."""

import asyncio
from collections.abc import Mapping

import httpx2

from timeloom.providers.http.answer import HttpResponse, TransportError
from timeloom.providers.http.certificates import load_certificates


class ProxiedTransport:
    """Sends requests through the proxies of the environment, except for hosts in `NO_PROXY`."""

    def __init__(self, url: str, connect_s: float) -> None:
        self._url = url
        self._connect_s = connect_s
        self._client: httpx2.AsyncClient | None = None

    async def post(self, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        client = self._open()
        try:
            request = client.build_request("POST", self._url, content=body, headers={**headers})
            response = await client.send(request, stream=True)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise TransportError(str(error) or type(error).__name__) from error
        chunks = response.aiter_raw()

        async def read(limit_s: float) -> bytes:
            try:
                async with asyncio.timeout(limit_s):
                    return await anext(chunks, b"")
            except httpx2.TransportError:
                return b""

        async def release() -> None:
            await chunks.aclose()
            await response.aclose()

        return HttpResponse(response.status_code, response.headers, read, release)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _open(self) -> httpx2.AsyncClient:
        if self._client is None:
            timeout = httpx2.Timeout(None, connect=self._connect_s)
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
            try:
                self._client = httpx2.AsyncClient(timeout=timeout, limits=limits, verify=load_certificates())
            except (ImportError, ValueError) as error:
                raise TransportError(f"the proxy of this machine cannot be used: {error}") from error
        return self._client
