"""The poller: notices what other processes write, while somebody follows."""

import threading
from typing import Final

from timeloom.stores.followers import Followers
from timeloom.stores.sqlite.connections import DATABASE_ERRORS, Connections
from timeloom.stores.sqlite.database import Database, typed

POLL_S: Final = 0.05
"""Time between two looks. A look is one read of shared memory; longer shows other processes' entries later."""


class Poller:
    """Looks for changes in a thread of its own, which ends when nobody follows any more."""

    def __init__(self, connections: Connections, followers: Followers) -> None:
        self._connections = connections
        self._followers = followers
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._running = False
        self._stop = threading.Event()

    def start(self) -> None:
        """Polls from here on; call it whenever a follower was added."""
        with self._lock:
            if not self._running and not self._stop.is_set():
                self._running = True
                self._thread = threading.Thread(target=self._work, name="timeloom-poller", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Ends for good; blocks until then."""
        self._stop.set()
        with self._lock:
            thread = self._thread
        if thread:
            thread.join()

    def _work(self) -> None:
        connection: Database | None = None
        seen_version, seen = -1, dict[int, int]()
        try:
            while self._goes_on():
                try:
                    connection = connection or self._connections.open_reader()
                    ((version,),) = connection.execute("PRAGMA data_version").fetchall()
                    numbers = self._followers.numbers()
                    if version != seen_version or set(numbers) - seen.keys():
                        now = {number: _tail(connection, number) for number in numbers}
                        self._followers.wake(number for number, tail in now.items() if seen.get(number) != tail)
                        seen_version, seen = version, now
                except DATABASE_ERRORS:
                    # Followers look for themselves, and are told what is wrong.
                    self._followers.wake(self._followers.numbers())
                self._stop.wait(POLL_S)
        finally:
            if connection:
                connection.close()

    def _goes_on(self) -> bool:
        with self._lock:
            if self._followers.numbers() and not self._stop.is_set():
                return True
            self._running = False
            return False


def _tail(connection: Database, number: int) -> int:
    rows = connection.execute("SELECT tail FROM conversations WHERE n = ?", (number,))
    return next((tail for (tail,) in typed(rows, tuple[int])), 0)
