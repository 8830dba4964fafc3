"""The part of the database driver's interface that the store uses, with types that a checker can follow."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

T = TypeVar("T")

Value = str | int | bytes | None
Values = tuple[Any, ...]
"""One row. Its values have types that no checker sees, and in a damaged database not the ones they were stored with."""


class Rows(Protocol):
    """What a statement gives, row by row; a string of several statements is run only as far as it is read."""

    def __iter__(self) -> Iterator[Values]: ...

    def fetchone(self) -> Values | None:
        """The next row, if there is one."""
        ...

    def fetchall(self) -> list[Values]:
        """All rows that are left, of all statements."""
        ...


class Database(Protocol):
    """A connection of `apsw`, whose own annotations name types that Python 3.11 does not have."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    def execute(self, statements: str, bindings: Sequence[Value] = ()) -> Rows:
        """Runs the statements up to the first row."""
        ...

    def executemany(self, statements: str, sequenceofbindings: Iterable[Sequence[Value]]) -> Rows:
        """Runs the statement once for each of the bindings."""
        ...

    def last_insert_rowid(self) -> int:
        """The key of the row that was inserted last."""
        ...

    def config(self, op: int, *args: int) -> int:
        """Sets an option of the connection."""
        ...

    def set_busy_timeout(self, milliseconds: int) -> None:
        """How long to wait for another's lock."""
        ...

    def set_wal_hook(self, hook: Callable[["Database", str, int], int] | None, /) -> None:
        """Has the hook told, after each commit, how many pages are in the write-ahead log."""
        ...

    def wal_checkpoint(self, dbname: str | None = None, mode: int = 0) -> tuple[int, int]:
        """Copies the write-ahead log into the database."""
        ...

    def fts5_tokenizer(self, name: str, args: list[str] | None = None) -> Callable[..., list[str]]:
        """The function by which full-text search finds words."""
        ...

    def close(self, force: bool = False) -> None:
        """Lets go of the file."""
        ...


def typed(rows: Iterable[Values], shape: type[T]) -> Iterator[T]:
    """The rows in that shape; raises `msgspec.ValidationError` where one does not have it."""
    return (msgspec.convert(row, shape) for row in rows)
