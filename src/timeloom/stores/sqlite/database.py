"""Typed protocol for the part of the `apsw` driver that the store uses."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

T = TypeVar("T")

SqlValue = str | int | bytes | None
RowValues = tuple[Any, ...]
"""One row. The type checker does not know its types, and in a damaged database they may differ from the stored ones."""


class ResultRows(Protocol):
    """The result rows of a statement. Of several statements in one string, each runs only when its rows are read."""

    def __iter__(self) -> Iterator[RowValues]: ...

    def fetchone(self) -> RowValues | None:
        """Return the next row, if there is one."""
        ...

    def fetchall(self) -> list[RowValues]:
        """Return all remaining rows, of all statements."""
        ...


class Database(Protocol):
    """A connection of `apsw`, whose annotations use types that Python 3.11 does not have."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    def execute(self, statements: str, bindings: Sequence[SqlValue] = ()) -> ResultRows:
        """Run the statements up to the first row."""
        ...

    def executemany(self, statements: str, sequenceofbindings: Iterable[Sequence[SqlValue]]) -> ResultRows:
        """Run the statement once for each of the bindings."""
        ...

    def changes(self) -> int:
        """Return how many rows the last statement changed."""
        ...

    def last_insert_rowid(self) -> int:
        """Return the key of the row that was inserted last."""
        ...

    def config(self, op: int, *args: int) -> int:
        """Set an option of the connection."""
        ...

    def set_busy_timeout(self, milliseconds: int) -> None:
        """Set how long to wait for the lock of another connection."""
        ...

    def set_wal_hook(self, hook: Callable[["Database", str, int], int] | None, /) -> None:
        """Call the hook after each commit with the number of pages in the write-ahead log."""
        ...

    def wal_checkpoint(self, dbname: str | None = None, mode: int = 0) -> tuple[int, int]:
        """Copy the write-ahead log into the database."""
        ...

    def fts5_tokenizer(self, name: str, args: list[str] | None = None) -> Callable[..., list[str]]:
        """Return the function with which full-text search splits text into words."""
        ...

    def close(self, force: bool = False) -> None:
        """Close the connection and its file."""
        ...


def convert_rows(rows: Iterable[RowValues], shape: type[T]) -> Iterator[T]:
    """Convert the rows to that type; raises `msgspec.ValidationError` if one does not match."""
    return (msgspec.convert(row, shape) for row in rows)
