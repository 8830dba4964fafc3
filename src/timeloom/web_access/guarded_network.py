"""A network that reaches public addresses only: resolves a name once, checks every address, connects to a checked one.

The HTTP client receives this network in place of its own, so no request of it can take another way. It checks the
address that it connects to, not the text of a URL, and a name is not resolved a second time after the check.
"""

import asyncio
import socket
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Final, Protocol

from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream, ConnectError, ConnectTimeout

from timeloom.core.codes import CodedError
from timeloom.web_access.public_address import IPAddress, is_public
from timeloom.web_access.web_address import AllowedHosts, literal_address

MAX_ADDRESSES: Final = 32
"""Most addresses of one name that are checked; a name with more is refused. Real names have a few."""

CONNECT_S: Final = 5.0
"""Longest time to connect to one address, if the request sets no other."""

SocketOptions = Iterable[tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]]


class Resolver(Protocol):
    """Finds the addresses of a host name."""

    async def __call__(self, host: str, port: int, /) -> Sequence[str]:
        """Return the addresses of the name; raises `OSError` if it has none."""
        ...


async def resolve_with_system(host: str, port: int) -> Sequence[str]:
    """Return the addresses that this machine's resolver knows for the name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A link-local address comes with its zone as the last element; the zone makes it recognizable.
    return [_with_zone(entry[4]) for entry in found]


class GuardedNetwork(AsyncNetworkBackend):
    """Connects to public addresses, and to the hosts that the operator opened; refuses all others."""

    def __init__(
        self,
        network: AsyncNetworkBackend,
        resolve: Resolver = resolve_with_system,
        allowed: AllowedHosts | None = None,
    ) -> None:
        self._network = network
        self._resolve = resolve
        self._allowed = allowed or AllowedHosts()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore2
        local_address: str | None = None,
        socket_options: SocketOptions | None = None,
    ) -> AsyncNetworkStream:
        """Connect to the first address of the host that answers; raises `address_refused` if any is not public."""
        limit_s = CONNECT_S if timeout is None else timeout
        addresses = await self._find(host, port, limit_s)
        failure: ConnectError | ConnectTimeout | None = None
        for address in addresses:
            try:
                return await self._network.connect_tcp(str(address), port, limit_s, local_address, socket_options)
            except (ConnectError, ConnectTimeout) as error:
                failure = failure or error
        raise failure or ConnectError(f"{host} has no address")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore2
        socket_options: SocketOptions | None = None,
    ) -> AsyncNetworkStream:
        """Refuse: a socket of this machine is not on the web."""
        raise CodedError("address_refused", "sockets of this machine cannot be requested")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _find(self, host: str, port: int, limit_s: float) -> Sequence[IPAddress]:
        literal = literal_address(host)
        addresses = [literal] if literal else await self._look_up(host, port, limit_s)
        if len(addresses) > MAX_ADDRESSES:
            raise CodedError("address_refused", f"{host} has more than {MAX_ADDRESSES} addresses")
        if not self._allowed.contains(host, port):
            for address in addresses:
                if not is_public(address):
                    raise CodedError("address_refused", _explain(host, address))
        return addresses

    async def _look_up(self, host: str, port: int, limit_s: float) -> Sequence[IPAddress]:
        try:
            async with asyncio.timeout(limit_s):
                found = await self._resolve(host, port)
        except TimeoutError as error:
            raise ConnectTimeout(f"{host} was not resolved within {limit_s:g} s") from error
        # UnicodeError: a label that no name may have, such as one of more than 63 characters.
        except (OSError, UnicodeError) as error:
            raise ConnectError(f"{host} has no address") from error
        return [ip_address(address) for address in dict.fromkeys(found)]


def _with_zone(address: Sequence[object]) -> str:
    host = str(address[0])
    zone = address[3] if len(address) > 3 else 0
    return f"{host}%{zone}" if zone and "%" not in host else host


def _explain(host: str, address: IPAddress) -> str:
    what = f"{host} is" if literal_address(host) else f"{host} resolves to {address}, which is"
    return f"{what} not a public address; an operator can open the host with web.allow"
