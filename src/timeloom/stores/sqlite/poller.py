"""Notices changes by other processes while conversations are followed."""

import threading
from typing import Final

from timeloom.stores.followers import Followers
from timeloom.stores.sqlite.connections import DATABASE_ERRORS, ConnectionPool
from timeloom.stores.sqlite.database import Database, convert_rows

POLL_S: Final = 0.05
"""Seconds between two polls. A poll reads shared memory once; a larger value delays entries of other processes."""


class Poller:
    """Polls for changes in a separate thread, which ends when there are no followers left."""

    def __init__(self, connections: ConnectionPool, followers: Followers) -> None:
        self._connections = connections
        self._followers = followers
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._running = False
        self._stop = threading.Event()

    def start(self) -> None:
        """Start polling if it is not running. Call it after adding a follower."""
        with self._lock:
            if not self._running and not self._stop.is_set():
                self._running = True
                self._thread = threading.Thread(target=self._work, name="timeloom-poller", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop polling permanently and wait until the thread has ended."""
        self._stop.set()
        with self._lock:
            thread = self._thread
        if thread:
            thread.join()

    def _work(self) -> None:
        connection: Database | None = None
        seen_version, seen = -1, dict[int, int]()
        try:
            while self._should_continue():
                try:
                    connection = connection or self._connections.open_reader()
                    ((version,),) = connection.execute("PRAGMA data_version").fetchall()
                    numbers = self._followers.numbers()
                    if version != seen_version or set(numbers) - seen.keys():
                        now = {number: _tail(connection, number) for number in numbers}
                        self._followers.wake(number for number, tail in now.items() if seen.get(number) != tail)
                        seen_version, seen = version, now
                except DATABASE_ERRORS:
                    # Woken followers read the database themselves and get the error.
                    self._followers.wake(self._followers.numbers())
                self._stop.wait(POLL_S)
        finally:
            if connection:
                connection.close()

    def _should_continue(self) -> bool:
        with self._lock:
            if self._followers.numbers() and not self._stop.is_set():
                return True
            self._running = False
            return False


def _tail(connection: Database, number: int) -> int:
    rows = connection.execute("SELECT tail FROM conversations WHERE n = ?", (number,))
    return next((tail for (tail,) in convert_rows(rows, tuple[int])), 0)
