"""Sends requests to a service over pooled HTTP/1.1 connections, without a proxy."""

import asyncio
import socket
from collections.abc import Mapping
from functools import partial
from typing import Final

from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType] - bare tuples in it

from timeloom.platform.certificates import load_certificates
from timeloom.providers.http.address import Address, parse_address, request_head
from timeloom.providers.http.answer import HttpResponse, TransportError
from timeloom.providers.http.connection import HttpConnection

MAX_IDLE: Final = 100
IDLE_S: Final = 5.0
"""Maximum idle time of a pooled connection. Services close idle ones, and a request could collide with that."""

NEXT_ADDRESS_S: Final = 0.25
"""Delay before the host's next address is tried in parallel (RFC 8305)."""


class DirectTransport:
    """Sends requests over HTTP/1.1, with TLS for an https URL."""

    def __init__(self, url: str, connect_s: float) -> None:
        self._url = url
        self._connect_s = connect_s
        self._idle: list[HttpConnection] = []

    async def post(self, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        address = parse_address(self._url)
        request = request_head(address, headers, len(body)) + body
        connection = await self._take_idle() or await self._open(address)
        try:
            await connection.send(request)
        except BaseException:
            await connection.drop()
            raise
        return HttpResponse(connection.status, connection.headers, connection.read, partial(self._release, connection))

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.drop()

    async def _take_idle(self) -> HttpConnection | None:
        """Return the most recently used idle connection that is still usable, or None."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and now - connection.idle_since < IDLE_S:
                return connection
            await connection.drop()
        return None

    async def _open(self, address: Address) -> HttpConnection:
        try:
            async with asyncio.timeout(self._connect_s):
                return await _connect(address)
        except TimeoutError as error:
            raise TransportError(f"no connection within {self._connect_s:g} s") from error
        except OSError as error:
            raise TransportError(str(error)) from error

    async def _release(self, connection: HttpConnection) -> None:
        if connection.is_reusable and len(self._idle) < MAX_IDLE:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            await connection.drop()


async def _connect(address: Address) -> HttpConnection:
    loop = asyncio.get_running_loop()
    places = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    # `create_connection` of uvloop does not try addresses in parallel.
    sock = await start_connection(places, happy_eyeballs_delay=NEXT_ADDRESS_S, interleave=1)
    try:
        tls, name = (load_certificates(), address.host) if address.secure else (None, None)
        _, connection = await loop.create_connection(HttpConnection, sock=sock, ssl=tls, server_hostname=name)
    except BaseException:
        sock.close()
        raise
    return connection
