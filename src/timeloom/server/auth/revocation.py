"""The watch: whoever keeps a connection loses it soon after their token has lost what it stood for."""

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
"""How often tokens of open connections are looked at. More lets one that was taken back hear for longer."""

REST: Final = 9
"""How much longer it rests than it looks: ten thousand tokens of an issuer are looked at for half a second."""

OVER: Final = ChatError(
    code="unauthorized", message="the token is not known any more, or stands for somebody else; come back with another"
)

_logger = logging.getLogger(__name__)

End = Callable[[ChatError], None]
"""Ends a connection, which is told why; said again it does nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class _Connection:
    caller: Caller
    end: End


class Watch:
    """Asks for every token with an open connection, again and again, whose it is."""

    def __init__(self, doorkeeper: Doorkeeper, look_s: float = LOOK_S) -> None:
        self._doorkeeper = doorkeeper
        self._look_s = look_s
        self._kept: dict[str, set[_Connection]] = {}
        """By their tokens."""
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def over(self, token: str, caller: Caller, end: End) -> Generator[None]:
        """Watches over a connection for as long as it lasts."""
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
                    _logger.exception("a token cannot be looked at")
                took_s += time.perf_counter() - began_s
                # There may be thousands, and whoever is told something must not wait for all of them.
                await asyncio.sleep(0)

    async def _check(self, token: str) -> None:
        caller = await self._doorkeeper.whose(token)
        for one in tuple(self._kept.get(token, ())):
            if one.caller != caller:
                one.end(OVER)
