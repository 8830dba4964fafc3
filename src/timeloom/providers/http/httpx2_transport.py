"""Sends requests to a service with httpx2, through a proxy if the environment names one."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2

from timeloom.platform.certificates import load_certificates
from timeloom.providers.http.address import check_headers, parse_address
from timeloom.providers.http.answer import HttpResponse, TransportError


class Httpx2Transport:
    """Sends requests through the proxies of the environment, except for hosts in `NO_PROXY`."""

    def __init__(self, url: str, connect_s: float) -> None:
        self._url = url
        self._connect_s = connect_s
        self._client: httpx2.AsyncClient | None = None

    async def post(self, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        # Checked here too: httpx2 quotes invalid headers, which may be keys, and raises other errors.
        parse_address(self._url)
        check_headers(headers)
        client = self._open()
        head = _HeadWatch()
        extensions = {"timeout": httpx2.Timeout(None, connect=self._connect_s).as_dict(), "trace": head.trace}
        try:
            # Not `client.build_request`, which adds the default headers of httpx2.
            request = httpx2.Request("POST", self._url, content=body, headers=headers, extensions=extensions)
            response = await client.send(request, stream=True)
        except httpx2.ConnectTimeout as error:
            raise TransportError(f"no connection within {self._connect_s:g} s") from error
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise TransportError(str(error) or type(error).__name__) from error
        if head.was_buffered:
            await response.aclose()
            raise TransportError("the service sent data without a request")
        content = _Body(response.aiter_raw())

        async def release() -> None:
            await content.close()
            await response.aclose()

        return HttpResponse(response.status_code, response.headers, content.read, release)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _open(self) -> httpx2.AsyncClient:
        if self._client is None:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
            no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
            try:
                self._client = httpx2.AsyncClient(limits=limits, verify=load_certificates(), cookies=no_cookies)
            except (ImportError, ValueError) as error:
                raise TransportError(f"the proxy of this machine cannot be used: {error}") from error
        return self._client


class _HeadWatch:
    """Notices a response whose head was received before its request was sent.

    httpx2 keeps bytes that follow a response and would take them for the next one. It then returns the head without
    reading from the network, so without an iteration of the event loop.
    """

    def __init__(self) -> None:
        self.was_buffered = False
        self._has_waited = False

    async def trace(self, event: str, _: Mapping[str, object]) -> None:
        """Handle an event of the `trace` extension of httpx2."""
        if event == "http11.receive_response_headers.started":
            self._has_waited = False
            asyncio.get_running_loop().call_soon(self._mark_waited)
        elif event == "http11.receive_response_headers.complete":
            self.was_buffered = not self._has_waited

    def _mark_waited(self) -> None:
        self._has_waited = True


class _Body:
    """Reads a body chunk by chunk; a read that times out loses nothing."""

    def __init__(self, chunks: AsyncGenerator[bytes]) -> None:
        self._chunks = chunks
        self._pending: asyncio.Task[bytes] | None = None

    async def read(self, limit_s: float) -> bytes:
        # A task that outlives the timeout: cancelling `anext` would end the generator and lose the rest.
        pending = self._pending = self._pending or asyncio.create_task(self._next())
        await asyncio.wait({pending}, timeout=limit_s)
        if not pending.done():
            raise TimeoutError
        self._pending = None
        return pending.result()

    async def close(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.cancel()
            await asyncio.wait({pending})
        await self._chunks.aclose()

    async def _next(self) -> bytes:
        try:
            return await anext(self._chunks, b"")
        except httpx2.TransportError:
            return b""
