"""Answers over HTTP: what a request comes to, whichever way it went."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol


class TransportError(Exception):
    """No answer came: the service cannot be reached, or does not speak HTTP."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer whose body is still to be read; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    read: Callable[[float], Awaitable[bytes]]
    """The next bytes of the body as they came; empty at its end, however that came about.

    Raises `TimeoutError` where none come within so many seconds.
    """
    close: Callable[[], Awaitable[None]]
    """Lets the connection go: to the next request where all was read, and for good where not."""


class Transport(Protocol):
    """The way to one service."""

    async def post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer to this request, once its headers are there; raises `TransportError`."""
        ...

    async def close(self) -> None:
        """Closes the connections; the next request opens new ones."""
        ...
