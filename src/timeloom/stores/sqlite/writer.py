"""Runs all changes of a store in one thread and commits waiting changes together."""

import asyncio
import contextlib
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

import apsw

from timeloom.core.codes import CodedError
from timeloom.ports.store import StoreError
from timeloom.stores.sqlite.connections import DATABASE_ERRORS, to_store_error
from timeloom.stores.sqlite.database import Database

GROUP_REQUESTS: Final = 256
"""Maximum number of changes in one transaction. More make the first wait for the last; fewer cost more syncs."""

CHECKPOINT_PAGES: Final = 1000
"""Pages in the write-ahead log from which it is checkpointed between two transactions."""

QUICK_S: Final = 0.001
"""Maximum recent commit time for which a change is committed in the thread of its caller.

Waking the writer thread and its caller takes about 0.1 ms, half of a commit on a fast disk. On a slow disk a commit
in the caller would block its event loop."""

LONE_S: Final = 0.001
"""Time without other callers after which a caller counts as the only one. Concurrent callers share a commit."""

PREALLOCATED_WAL_BYTES: Final = (CHECKPOINT_PAGES + 64) * 4120
"""Size to which the write-ahead log is preallocated. Syncing a file that grows costs twice as much."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class _WriteRequest:
    change: Callable[[Database], None]
    after: Callable[[], None]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[None]"


class Writer:
    """Owns the only writing connection. A request completes when its transaction is durable, and not before."""

    def __init__(
        self,
        connection: Database,
        lock_wait_ms: int,
        begin_log: Callable[[Database], Callable[[], None]],
        at_end: Callable[[Database], None],
    ) -> None:
        self._connection = connection
        self._lock_wait_ms = lock_wait_ms
        self._begin_log = begin_log
        self._is_log_new = True
        """Set until the first commit after the write-ahead log was copied into the database."""
        self._at_end = at_end
        self._requests: queue.SimpleQueue[_WriteRequest | Literal["checkpoint"] | None] = queue.SimpleQueue()
        self._queue_lock = threading.Lock()
        self._open = True
        self._disk_failure = ""
        self._last_failure = ""
        self._wal_pages = 0
        self._connection_lock = threading.Lock()
        """Held by the thread that uses the connection."""
        self._commit_s = 0.0
        self._last_caller: object = None
        self._last_called_at = 0.0
        self._other_called_at = 0.0
        connection.set_wal_hook(self._record_wal_pages)
        self._thread = threading.Thread(target=self._work, name="timeloom-writer", daemon=True)
        self._thread.start()

    @property
    def write_failure(self) -> str:
        """Why the last write failed; empty if it succeeded."""
        return self._disk_failure or self._last_failure

    def record_failure(self, error: StoreError) -> None:
        """Record the failure if the disk refused the write; the next write that succeeds clears it."""
        if error.code == "store_unwritable":
            self._last_failure = str(error)

    async def run(self, change: Callable[[Database], T], after: Callable[[T], None], caller: object = None) -> T:
        """Return the result of the change once it is durable, after calling `after` with it.

        If there is only one caller and commits are quick, the change runs in the thread of the caller. Otherwise it
        runs in the writer thread, together with other waiting changes. If the caller is cancelled while it waits, its
        change may be stored or not.
        """
        try:
            if self._is_only_caller(caller) and self._connection_lock.acquire(blocking=False):
                try:
                    if self._begin_here():
                        result = self._commit_here(change)
                        after(result)
                        return result
                finally:
                    self._connection_lock.release()
            return await self._run_in_thread(change, after)
        except StoreError as error:
            self.record_failure(error)
            raise

    async def _run_in_thread(self, change: Callable[[Database], T], after: Callable[[T], None]) -> T:
        results: list[T] = []
        loop = asyncio.get_running_loop()
        request = _WriteRequest(
            change=lambda connection: results.append(change(connection)),
            after=lambda: after(results[0]),
            loop=loop,
            future=loop.create_future(),
        )
        with self._queue_lock:
            if not self._open:
                raise StoreError("store_closed", "the store is closed")
            self._requests.put(request)
        await request.future
        self._last_failure = ""
        return results[0]

    def close(self) -> None:
        """Finish all accepted changes and close the connection; blocks until done."""
        with self._queue_lock:
            if self._open:
                self._open = False
                self._requests.put(None)
        self._thread.join()

    def start_new_log(self) -> None:
        """Note that another connection has copied the write-ahead log into the database."""
        self._is_log_new = True

    def _is_only_caller(self, caller: object) -> bool:
        now = time.monotonic()
        if caller is None or caller != self._last_caller:
            self._last_caller, self._other_called_at = caller, self._last_called_at
        self._last_called_at = now
        return caller is not None and now - self._other_called_at > LONE_S and 0 < self._commit_s < QUICK_S

    def _begin_here(self) -> bool:
        """Begin a transaction in this thread. Returns False if others wait or another process has the lock."""
        if not self._open or self._disk_failure or self._is_log_new or not self._requests.empty():
            return False
        self._connection.set_busy_timeout(0)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except apsw.Error:
            # The writer thread can wait for the lock and reports the error.
            return False
        finally:
            self._connection.set_busy_timeout(self._lock_wait_ms)
        return True

    def _commit_here(self, change: Callable[[Database], T]) -> T:
        """Run the change in the open transaction and commit it."""
        began = time.monotonic()
        try:
            result = change(self._connection)
            self._connection.execute("COMMIT")
        except CodedError as error:
            self._roll_back(error)
            raise
        except (*DATABASE_ERRORS, OSError) as error:
            self._roll_back(error)
            raise _to_coded_error(error) from error
        except BaseException:
            # The caller gets the unexpected error; the next change must not find an open transaction.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._note_commit(began)
        self._last_failure = ""
        if self._wal_pages >= CHECKPOINT_PAGES:
            # A checkpoint would block the caller for too long.
            self._requests.put("checkpoint")
        return result

    def _work(self) -> None:
        group: list[_WriteRequest] = []
        try:
            while True:
                group, last = self._next_group()
                with self._connection_lock:
                    if group:
                        _deliver_outcomes(group, self._carry_out([request.change for request in group]))
                    if last:
                        return
                    self._checkpoint()
        finally:
            # Also after an unexpected error: waiting callers fail, and the thread's excepthook reports the cause.
            with self._queue_lock:
                self._open = False
            self._fail_waiting(group)
            with contextlib.suppress(apsw.Error):
                self._at_end(self._connection)
            self._connection.close()

    def _next_group(self) -> tuple[list[_WriteRequest], bool]:
        group: list[_WriteRequest] = []
        request = self._requests.get()
        while request is not None:
            if request != "checkpoint":
                group.append(request)
            if len(group) == GROUP_REQUESTS:
                return group, False
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _carry_out(self, group: Sequence[Callable[[Database], None]]) -> list[Exception | None]:
        if self._disk_failure:
            return [StoreError("store_unwritable", self._disk_failure) for _ in group]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except apsw.Error as error:
            self._roll_back(error)
            return [_to_coded_error(error) for _ in group]
        return self._commit(group)

    def _commit(self, group: Sequence[Callable[[Database], None]]) -> list[Exception | None]:
        """Run the changes in the open transaction and commit it."""
        began = time.monotonic()
        after_commit = None
        try:
            if self._is_log_new:
                after_commit = self._begin_log(self._connection)
            if len(group) == 1:
                group[0](self._connection)
                outcomes: list[Exception | None] = [None]
            else:
                outcomes = [self._run_in_savepoint(change) for change in group]
            self._connection.execute("COMMIT")
        except (*DATABASE_ERRORS, CodedError, OSError) as error:
            self._roll_back(error)
            return [_to_coded_error(error) for _ in group]
        if after_commit:
            self._is_log_new = False
            after_commit()
        else:
            # The first commit of a log is slower and never runs in the thread of a caller.
            self._note_commit(began)
        return outcomes

    def _note_commit(self, began: float) -> None:
        # A decaying maximum: one slow commit keeps the next dozens out of event loops.
        self._commit_s = max(time.monotonic() - began, self._commit_s * 0.95)

    def _run_in_savepoint(self, change: Callable[[Database], None]) -> Exception | None:
        """Run one change in a savepoint, so that its failure does not undo the others."""
        self._connection.execute("SAVEPOINT change")
        try:
            change(self._connection)
        except (*DATABASE_ERRORS, CodedError, OSError) as error:
            if not self._connection.in_transaction:
                # SQLite has rolled back the whole group, as it does when the disk is full.
                raise
            self._connection.execute("ROLLBACK TO change")
            self._connection.execute("RELEASE change")
            return _to_coded_error(error)
        self._connection.execute("RELEASE change")
        return None

    def _roll_back(self, error: Exception) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        if isinstance(error, apsw.IOError):
            # After a failed sync the system may take unwritten pages for durable; only reopening the file helps.
            self._disk_failure = f"the disk failed ({error}); close the store and open it again"

    def _checkpoint(self) -> None:
        if self._wal_pages >= CHECKPOINT_PAGES:
            try:
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            except apsw.Error as error:
                self._roll_back(error)
            self._wal_pages = 0
            self._is_log_new = True

    def _record_wal_pages(self, _connection: Database, _database: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _fail_waiting(self, group: Sequence[_WriteRequest]) -> None:
        waiting = list(group)
        with contextlib.suppress(queue.Empty):
            while True:
                request = self._requests.get_nowait()
                if request and request != "checkpoint":
                    waiting.append(request)
        error = StoreError("store_closed", "the store's writer thread has stopped; close the store and open it again")
        _deliver_outcomes(waiting, [error] * len(waiting))


def _to_coded_error(error: Exception) -> Exception:
    match error:
        case CodedError():
            return error
        case OSError():
            return StoreError("store_unwritable", f"cannot write to the data folder: {error.strerror}")
        case _:
            return to_store_error(error)


def _deliver_outcomes(group: Sequence[_WriteRequest], outcomes: Sequence[Exception | None]) -> None:
    """Deliver all outcomes of a group to each event loop at once, because waking a loop costs more than an append."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[None], Exception | None]]] = defaultdict(list)
    for request, outcome in zip(group, outcomes, strict=True):
        if outcome is None:
            request.after()
        by_loop[request.loop].append((request.future, outcome))
    for loop, pairs in by_loop.items():
        # In a closed event loop nothing waits any more.
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
