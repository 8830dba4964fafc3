"""Closes open connections within two seconds after their API key is revoked."""

import asyncio
import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from timeloom.runtime.hub.events import ChatError
from timeloom.server.auth.authenticate import Authenticator
from timeloom.server.auth.principal import Principal

CHECK_INTERVAL_S: Final = 1.0
"""Seconds between two checks of open connections. A larger value keeps connections of revoked keys open for longer."""

PAUSE_RATIO: Final = 9
"""Minimum ratio of pause to checking time. Checking ten thousand tokens of an issuer takes half a second."""

REVOKED: Final = ChatError(
    code="unauthorized", message="the token was revoked or now belongs to another user; reconnect with a valid token"
)

_logger = logging.getLogger(__name__)

EndConnection = Callable[[ChatError], None]
"""Closes a connection and sends the error to its client; a second call does nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class _MonitoredConnection:
    principal: Principal
    end: EndConnection


class RevocationMonitor:
    """Periodically verifies the credential of every open connection: its token, or the request of an application."""

    def __init__(self, authenticator: Authenticator, interval_s: float = CHECK_INTERVAL_S) -> None:
        self._authenticator = authenticator
        self._interval_s = interval_s
        self._connections: dict[object, set[_MonitoredConnection]] = {}
        """The open connections by credential."""
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def monitor(self, credential: object, principal: Principal, end: EndConnection) -> Generator[None]:
        """Monitor a connection while the context is open."""
        connection = _MonitoredConnection(principal, end)
        self._connections.setdefault(credential, set()).add(connection)
        if self._task is None:
            self._task = asyncio.create_task(self._check_forever(), name="watching tokens")
        try:
            yield
        finally:
            self._connections[credential].remove(connection)
            if not self._connections[credential]:
                del self._connections[credential]
            if not self._connections and self._task:
                self._task.cancel()
                self._task = None

    async def _check_forever(self) -> None:
        checking_s = 0.0
        while True:
            await asyncio.sleep(max(self._interval_s, checking_s * PAUSE_RATIO))
            checking_s = 0.0
            for credential in tuple(self._connections):
                began_s = time.perf_counter()
                try:
                    await self._check_credential(credential)
                except Exception:
                    _logger.exception("a credential could not be verified")
                checking_s += time.perf_counter() - began_s
                # There may be thousands of credentials, and other tasks must not wait for all of them.
                await asyncio.sleep(0)

    async def _check_credential(self, credential: object) -> None:
        principal = await self._authenticator.find_principal(credential)
        for connection in tuple(self._connections.get(credential, ())):
            if connection.principal != principal:
                connection.end(REVOKED)
