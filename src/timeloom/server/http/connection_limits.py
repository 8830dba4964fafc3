"""Limits open connections, so that clients without a token cannot use up all descriptors of the process."""

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import islice
from math import inf
from typing import Final, Protocol

from timeloom.server.auth.authenticate import group_address

if sys.platform != "win32":
    import resource

MAX_DESCRIPTORS: Final = 65_536
"""The highest limit of open descriptors that the server sets. More would only help with as much memory."""

MIN_RESERVE: Final = 32
MAX_RESERVE: Final = 4096
"""Bounds of the descriptors that connections leave to the store, models, tools and files: a quarter of the limit."""

MIN_AGE_S: Final = 1.0
"""Age from which a connection without a valid token makes room for others of its address. A younger one may belong to a
burst of clients whose requests are still on their way."""

SCANNED: Final = 128
"""Connections that are looked at to find one to close; the oldest are nearly always idle."""

ESTIMATE_S: Final = 10.0
"""Seconds for which a number of descriptors that others used is assumed to be still in use."""

REPORT_S: Final = 60.0
"""Seconds between two log lines about limited connections."""

_logger = logging.getLogger(__name__)


class ConnectionMetrics(Protocol):
    """Counts open connections, and connections that a limit ended."""

    def count_connections(self, change: int) -> None: ...

    def count_limited_connection(self, action: str) -> None: ...


@dataclass(slots=True, eq=False)
class _Connection:
    transport: asyncio.Transport
    address: str
    opened_s: float
    is_busy: bool = False
    """Whether the server works on a request; such a connection is not closed for another one."""


class ConnectionGuard:
    """The open connections of a server.

    A connection is trusted once it has carried a request with a valid token. When a limit is reached, the oldest
    connection that is not trusted makes room for the new one. So clients without a token can shut out each other, but
    not users.
    """

    def __init__(
        self,
        metrics: ConnectionMetrics,
        *,
        most: float = inf,
        most_per_address: float = inf,
        proxies: Sequence[str] = (),
        descriptors: float | None = None,
        uptime: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._most = most
        self._most_per_address = most_per_address
        limit = descriptor_limit() if descriptors is None else descriptors
        self._highest_descriptor = limit if limit == inf else limit - _reserve(limit)
        self._networks = tuple(_parse_networks(proxies))
        self._trusts_all = "*" in proxies
        self._uptime = uptime
        self._open: set[asyncio.Transport] = set()
        self._untrusted: dict[asyncio.Transport, _Connection] = {}
        """In the order in which they were opened."""
        self._by_address: dict[str, dict[asyncio.Transport, _Connection]] = {}
        self._other_descriptors = 0
        """How many descriptors are in use at least, besides those of connections."""
        self._estimated_s = -inf
        self._reported_s = -inf
        self._unreported = {"closed": 0, "refused": 0}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, transport: asyncio.Transport, host: str) -> bool:
        """Register a new connection and return True; return False if there is no room for it."""
        if self._is_full(transport) and not self._close_oldest(self._untrusted.values(), 0.0):
            self._report("refused")
            return False
        address = "" if self._is_proxy(host) else group_address(host)
        others = self._by_address.setdefault(address, {})
        if address and len(others) >= self._most_per_address:
            self._close_oldest(others.values(), MIN_AGE_S)
        connection = _Connection(transport, address, self._uptime())
        self._open.add(transport)
        # Closing the last connection of an address drops its table.
        self._by_address.setdefault(address, others)[transport] = self._untrusted[transport] = connection
        self._metrics.count_connections(1)
        return True

    def trust(self, transport: asyncio.Transport) -> None:
        """Never close this connection for another one: it carried a request with a valid token."""
        if connection := self._untrusted.pop(transport, None):
            self._leave_address(connection)

    def set_busy(self, transport: asyncio.Transport, is_busy: bool) -> None:
        """Note whether the server works on a request of this connection."""
        if connection := self._untrusted.get(transport):
            connection.is_busy = is_busy

    def release(self, transport: asyncio.Transport) -> None:
        """Forget a connection that has ended; for an unknown one, do nothing."""
        if transport in self._open:
            self._open.remove(transport)
            self._metrics.count_connections(-1)
            self.trust(transport)

    def _is_full(self, transport: asyncio.Transport) -> bool:
        if len(self._open) >= self._most:
            return True
        if self._highest_descriptor == inf:
            return False
        # The system gives each new connection the lowest free number, so all lower ones are in use.
        connected = transport.get_extra_info("socket")
        in_use = connected.fileno() if connected else 0
        if self._uptime() - self._estimated_s >= ESTIMATE_S:
            self._estimated_s, self._other_descriptors = self._uptime(), 0
        self._other_descriptors = max(self._other_descriptors, in_use - len(self._open))
        return len(self._open) + self._other_descriptors >= self._highest_descriptor

    def _close_oldest(self, candidates: Iterable[_Connection], min_age_s: float) -> bool:
        """Close the oldest connection that waits for its client; return whether there was one."""
        latest_s = self._uptime() - min_age_s
        for connection in islice(candidates, SCANNED):
            if connection.opened_s > latest_s:
                break
            if not connection.is_busy:
                self.release(connection.transport)
                connection.transport.abort()
                self._report("closed")
                return True
        return False

    def _leave_address(self, connection: _Connection) -> None:
        others = self._by_address[connection.address]
        del others[connection.transport]
        if not others:
            del self._by_address[connection.address]

    def _is_proxy(self, host: str) -> bool:
        """Whether the connection comes from a trusted proxy, which carries requests of many clients."""
        if self._trusts_all or not self._networks:
            return self._trusts_all
        try:
            address = ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)

    def _report(self, action: str) -> None:
        """Count the action; log all actions of a period in one line."""
        self._metrics.count_limited_connection(action)
        self._unreported[action] += 1
        now_s = self._uptime()
        if now_s - self._reported_s >= REPORT_S:
            self._reported_s = now_s
            fields = {**self._unreported, "open": len(self._open), "without_token": len(self._untrusted)}
            _logger.warning("connections limited", extra={"fields": fields})
            self._unreported = dict.fromkeys(self._unreported, 0)


def reserved_descriptors() -> float:
    """Return how many descriptors connections leave free."""
    return _reserve(descriptor_limit())


def descriptor_limit() -> float:
    """Return how many descriptors this process may have open; infinity if the system has no such limit."""
    if sys.platform == "win32":
        return inf
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return inf if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit(most: int = MAX_DESCRIPTORS) -> float:
    """Raise the limit of open descriptors up to the hard limit, and return it; for a process that only serves."""
    if sys.platform == "win32":
        return inf
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            _logger.warning("the limit of open descriptors cannot be raised", exc_info=error)
    return descriptor_limit()


def _reserve(limit: float) -> float:
    return min(MAX_RESERVE, max(MIN_RESERVE, limit // 4))


def _parse_networks(proxies: Iterable[str]) -> Iterable[IPv4Network | IPv6Network]:
    for proxy in proxies:
        try:
            yield ip_network(proxy, strict=False)
        except ValueError:
            # A name or the path of a socket, which is no address of a connection.
            continue
