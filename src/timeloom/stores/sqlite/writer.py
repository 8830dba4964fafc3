"""The writer: one thread that carries out all changes, those that wait together in one transaction."""

import asyncio
import contextlib
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import apsw

from timeloom.core.codes import CodedError
from timeloom.ports.store import StoreError
from timeloom.stores.sqlite.connections import DATABASE_ERRORS, explained
from timeloom.stores.sqlite.database import Database

GROUP_REQUESTS: Final = 256
"""Most requests of one transaction. More would make the first wait for the last; fewer costs a sync more often."""

CHECKPOINT_PAGES: Final = 512
"""Length of the write-ahead log, in pages, from which it is copied into the database between two transactions."""

LOG_BYTES: Final = (CHECKPOINT_PAGES + 64) * 4120
"""How long the log's file is made before the first commit. Syncing a file that grows costs twice as much."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    change: Callable[[Database], None]
    after: Callable[[], None]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[None]"


class Writer:
    """Owns the connection that writes. A request is answered when its transaction is durable, and not before."""

    def __init__(self, connection: Database, at_start: Callable[[], None], at_end: Callable[[Database], None]) -> None:
        self._connection = connection
        self._at_start: Callable[[], None] | None = at_start
        self._at_end = at_end
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._accepting = threading.Lock()
        self._open = True
        self._broken = ""
        self._wal_pages = 0
        connection.set_wal_hook(self._note_pages)
        self._thread = threading.Thread(target=self._work, name="timeloom-writer", daemon=True)
        self._thread.start()

    async def run(self, change: Callable[[Database], T], after: Callable[[T], None]) -> T:
        """What the change returned, once it is durable; then `after` is called with it, in the writer's thread.

        A caller that is cancelled learns nothing: its change may be stored or not.
        """
        results: list[T] = []
        loop = asyncio.get_running_loop()
        request = _Request(
            change=lambda connection: results.append(change(connection)),
            after=lambda: after(results[0]),
            loop=loop,
            future=loop.create_future(),
        )
        with self._accepting:
            if not self._open:
                raise StoreError("store_closed", "the store is closed")
            self._requests.put(request)
        await request.future
        return results[0]

    def close(self) -> None:
        """Finishes what was accepted, then lets go of the connection; blocks until then."""
        with self._accepting:
            if self._open:
                self._open = False
                self._requests.put(None)
        self._thread.join()

    def _work(self) -> None:
        group: list[_Request] = []
        try:
            while True:
                group, last = self._next_group()
                if group:
                    _answer(group, self._carry_out(group))
                if last:
                    return
                self._checkpoint()
        finally:
            # Also after an error nobody foresaw: whoever waits is told, and the error is shown by the thread's hook.
            with self._accepting:
                self._open = False
            self._fail(group)
            with contextlib.suppress(apsw.Error):
                self._at_end(self._connection)
            self._connection.close()

    def _next_group(self) -> tuple[list[_Request], bool]:
        group: list[_Request] = []
        request = self._requests.get()
        while request is not None:
            group.append(request)
            if len(group) == GROUP_REQUESTS:
                return group, False
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _carry_out(self, group: Sequence[_Request]) -> list[Exception | None]:
        if self._broken:
            return [StoreError("store_unwritable", self._broken) for _ in group]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if self._at_start:
                self._at_start()
                self._at_start = None
            if len(group) == 1:
                group[0].change(self._connection)
                outcomes: list[Exception | None] = [None]
            else:
                outcomes = [self._attempt(request.change) for request in group]
            self._connection.execute("COMMIT")
        except (*DATABASE_ERRORS, CodedError, OSError) as error:
            self._undo(error)
            return [_told(error) for _ in group]
        return outcomes

    def _attempt(self, change: Callable[[Database], None]) -> Exception | None:
        """One change by itself, so that its failure undoes nothing of the others."""
        self._connection.execute("SAVEPOINT change")
        try:
            change(self._connection)
        except (*DATABASE_ERRORS, CodedError, OSError) as error:
            if not self._connection.in_transaction:
                # SQLite itself has undone the whole group, as it does when the disk is full.
                raise
            self._connection.execute("ROLLBACK TO change")
            self._connection.execute("RELEASE change")
            return _told(error)
        self._connection.execute("RELEASE change")
        return None

    def _undo(self, error: Exception) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        if isinstance(error, apsw.IOError):
            # After a failed sync the system may believe that pages are on disk which are not; only a new look helps.
            self._broken = f"the disk failed ({error}); close the store and open it again"

    def _checkpoint(self) -> None:
        if self._wal_pages >= CHECKPOINT_PAGES:
            try:
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            except apsw.Error as error:
                self._undo(error)
            self._wal_pages = 0

    def _note_pages(self, _connection: Database, _database: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _fail(self, group: Sequence[_Request]) -> None:
        waiting = list(group)
        with contextlib.suppress(queue.Empty):
            while True:
                if request := self._requests.get_nowait():
                    waiting.append(request)
        _answer(waiting, [StoreError("store_closed", "the store's writer has ended")] * len(waiting))


def _told(error: Exception) -> Exception:
    match error:
        case CodedError():
            return error
        case OSError():
            return StoreError("store_unwritable", f"the blob folder refused a write: {error.strerror}")
        case _:
            return explained(error)


def _answer(group: Sequence[_Request], outcomes: Sequence[Exception | None]) -> None:
    """Hands all outcomes of a group to each event loop at once: waking a loop is dearer than an append."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[None], Exception | None]]] = defaultdict(list)
    for request, outcome in zip(group, outcomes, strict=True):
        if outcome is None:
            request.after()
        by_loop[request.loop].append((request.future, outcome))
    for loop, pairs in by_loop.items():
        # A loop that was closed has nobody waiting.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, pairs)


def _resolve(pairs: Sequence[tuple["asyncio.Future[None]", Exception | None]]) -> None:
    for future, outcome in pairs:
        if future.done():
            continue
        if outcome is None:
            future.set_result(None)
        else:
            future.set_exception(outcome)
