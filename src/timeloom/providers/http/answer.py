"""Defines the HTTP response and the transport protocol."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol


class TransportError(Exception):
    """The service cannot be reached or does not speak HTTP."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response whose body is not read yet; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    read: Callable[[float], Awaitable[bytes]]
    """Returns the next bytes of the body; empty at its end, also if the connection broke.

    Raises `TimeoutError` if none arrive within the given seconds.
    """
    close: Callable[[], Awaitable[None]]
    """Releases the connection: for reuse if the body was read to its end, otherwise it is closed."""


class Transport(Protocol):
    """Sends requests to one service."""

    async def post(self, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Send the request and return the response once its headers arrived; raises `TransportError`."""
        ...

    async def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        ...
