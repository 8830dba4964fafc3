"""Closes open connections within two seconds after their API key is revoked."""

import asyncio
import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from timeloom.runtime.hub.events import ChatError
from timeloom.server.auth.authenticate import Caller, Doorkeeper

LOOK_S: Final = 1.0
"""Seconds between two checks of open connections. A larger value keeps connections of revoked keys open for longer."""

REST: Final = 9
"""Minimum ratio of pause to checking time. Checking ten thousand tokens of an issuer takes half a second."""

OVER: Final = ChatError(
    code="unauthorized", message="the token was revoked or now belongs to another user; reconnect with a valid token"
)

_logger = logging.getLogger(__name__)

End = Callable[[ChatError], None]
"""Closes a connection and sends the error to its client; a second call does nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class _Connection:
    caller: Caller
    end: End


class Watch:
    """Periodically verifies the token of every open connection."""

    def __init__(self, doorkeeper: Doorkeeper, look_s: float = LOOK_S) -> None:
        self._doorkeeper = doorkeeper
        self._look_s = look_s
        self._kept: dict[str, set[_Connection]] = {}
        """The open connections by token."""
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def over(self, token: str, caller: Caller, end: End) -> Generator[None]:
        """Monitor a connection while the context is open."""
        kept = _Connection(caller, end)
        self._kept.setdefault(token, set()).add(kept)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="watching tokens")
        try:
            yield
        finally:
            self._kept[token].remove(kept)
            if not self._kept[token]:
                del self._kept[token]
            if not self._kept and self._looking:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        took_s = 0.0
        while True:
            await asyncio.sleep(max(self._look_s, took_s * REST))
            took_s = 0.0
            for token in tuple(self._kept):
                began_s = time.perf_counter()
                try:
                    await self._check(token)
                except Exception:
                    _logger.exception("a token could not be verified")
                took_s += time.perf_counter() - began_s
                # There may be thousands of tokens, and other tasks must not wait for all of them.
                await asyncio.sleep(0)

    async def _check(self, token: str) -> None:
        caller = await self._doorkeeper.whose(token)
        for one in tuple(self._kept.get(token, ())):
            if one.caller != caller:
                one.end(OVER)
