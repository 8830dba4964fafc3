"""Downloads one web address: follows redirects, each through the guard, and bounds time and size."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from typing import Final, Literal, Self, cast
from urllib.parse import urljoin

import httpcore2
import msgspec

from timeloom.core.codes import CodedError
from timeloom.platform.certificates import make_tls_context
from timeloom.web_access.decompress import ACCEPTED, BodyDamagedError, BodyDecoder, BodyTooLargeError
from timeloom.web_access.guarded_network import GuardedNetwork, Resolver, resolve_with_system
from timeloom.web_access.web_address import AllowedHosts, WebAddress, parse_web_address

USER_AGENT: Final = "timeloom/0.1 (+https://pypi.org/project/timeloom)"
"""How timeloom introduces itself to web servers."""

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

DownloadFailure = Literal["refused", "timeout", "too_large", "unreachable", "damaged", "too_many_redirects"]
"""Why a download has no response."""


Admit = Callable[[WebAddress], Awaitable[None]]
"""Raises if an address may not be requested."""


class DownloadError(Exception):
    """The address could not be downloaded."""

    def __init__(self, failure: DownloadFailure, reason: str) -> None:
        super().__init__(reason)
        self.failure: DownloadFailure = failure


class DownloadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one download."""

    total_s: float = 15.0
    """Longest time for all requests of the download. Less loses slow sites; more lets ten addresses hold a turn."""
    wire_bytes: int = 10 * 1024 * 1024
    """Largest body as it is sent. Less loses large PDF files; more fills the memory of a server."""
    body_bytes: int = 40 * 1024 * 1024
    """Largest decompressed body. Less loses large pages; more lets a small body fill the memory."""
    redirects: int = 5
    """Most redirects. Real pages need three; more only cost time."""


class Download(msgspec.Struct, frozen=True, kw_only=True):
    """The response of a web server. An error of the server is a response as well."""

    address: WebAddress
    """The address after all redirects."""
    status: int
    headers: Mapping[str, str]
    """The headers by lower-case name; the first of equal names."""
    body: bytes
    redirects: tuple[str, ...] = ()
    """The addresses that redirected, in order."""


class Downloader:
    """Downloads web addresses through one pool of connections; close it with its context."""

    def __init__(
        self,
        *,
        allowed: AllowedHosts | None = None,
        limits: DownloadLimits | None = None,
        resolve: Resolver = resolve_with_system,
        network: httpcore2.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed = allowed or AllowedHosts()
        self._limits = limits or DownloadLimits()
        self._tls = tls
        network = network or cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())
        self._guard = GuardedNetwork(network, resolve, self._allowed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.aclose()

    async def get(self, url: str, headers: Mapping[str, str] | None = None, *, admit: Admit | None = None) -> Download:
        """Return the response of the address; raises `DownloadError` if there is none within the limits.

        `admit` is asked before each request, also of a redirect; what it raises ends the download.
        """
        try:
            async with asyncio.timeout(self._limits.total_s):
                return await self._follow(url, headers or {}, admit)
        except (TimeoutError, httpcore2.TimeoutException) as error:
            raise DownloadError("timeout", f"no complete response within {self._limits.total_s:g} s") from error
        except CodedError as error:
            raise DownloadError("refused", str(error)) from error
        except BodyTooLargeError as error:
            raise DownloadError("too_large", self._explain_size()) from error
        except BodyDamagedError as error:
            raise DownloadError("damaged", str(error)) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise DownloadError("unreachable", str(error) or type(error).__name__) from error

    async def _follow(self, url: str, headers: Mapping[str, str], admit: Admit | None) -> Download:
        redirects: list[str] = []
        while True:
            address = parse_web_address(url, self._allowed)
            if admit:
                await admit(address)
            download = await self._request(address, headers)
            location = download.headers.get("location", "")
            if download.status not in REDIRECTS or not location:
                return msgspec.structs.replace(download, redirects=tuple(redirects))
            if len(redirects) == self._limits.redirects:
                raise DownloadError("too_many_redirects", f"more than {self._limits.redirects} redirects")
            redirects.append(address.url)
            url = _join(address.url, location)

    async def _request(self, address: WebAddress, headers: Mapping[str, str]) -> Download:
        async with self._open(address, headers) as response:
            answered = _read_headers(response.headers)
            is_redirect = response.status in REDIRECTS and "location" in answered
            # The body of a redirect is not read: it may be endless, and nothing shows it.
            body = b"" if is_redirect else await self._read_body(response, answered)
        return Download(address=address, status=response.status, headers=answered, body=body)

    @asynccontextmanager
    async def _open(self, address: WebAddress, headers: Mapping[str, str]) -> AsyncGenerator[httpcore2.Response]:
        sent = {
            "host": address.host_header,
            "user-agent": USER_AGENT,
            "accept": "text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.8,*/*;q=0.5",
            "accept-encoding": ACCEPTED,
            **headers,
        }
        url = httpcore2.URL(scheme=address.scheme, host=address.host, port=address.port, target=address.target)
        async with self._pool.stream("GET", url, headers=list(sent.items())) as response:
            yield response

    async def _read_body(self, response: httpcore2.Response, headers: Mapping[str, str]) -> bytes:
        limits = self._limits
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > limits.wire_bytes:
            raise BodyTooLargeError
        decoder = BodyDecoder(headers.get("content-encoding", ""), limits.body_bytes)
        body, wire = bytearray(), 0
        async for piece in cast(AsyncIterable[bytes], response.stream):
            wire += len(piece)
            if wire > limits.wire_bytes:
                raise BodyTooLargeError
            body += decoder.feed(piece)
        decoder.close()
        return bytes(body)

    def _explain_size(self) -> str:
        wire, body = self._limits.wire_bytes, self._limits.body_bytes
        return f"the body is larger than {wire:,} bytes, or than {body:,} bytes decompressed"

    @cached_property
    def _pool(self) -> httpcore2.AsyncConnectionPool:
        # A context of its own, because the pool changes it.
        return httpcore2.AsyncConnectionPool(
            ssl_context=self._tls or make_tls_context(),
            max_connections=20,
            max_keepalive_connections=0,
            network_backend=self._guard,
        )


def _read_headers(pairs: list[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in pairs:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return headers


def _join(base: str, location: str) -> str:
    """Return the address that a redirect names; servers send UTF-8 where the header has latin-1."""
    with suppress(UnicodeDecodeError):
        location = location.encode("latin-1").decode("utf-8")
    try:
        return urljoin(base, location)
    except ValueError as error:
        raise CodedError("address_refused", f"the redirect to {location[:120]!a} is no URL") from error
