"""The tools of the bundle that look at tables: they describe and read CSV files."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec

from timeloom import ToolCallError, get_settings, tool

_SAMPLE_ROWS: Final = 3
_LISTED_VALUES: Final = 8
_MAX_COLUMNS: Final = 100
_MAX_ROWS: Final = 200_000
_CELL_CHARS: Final = 60


class Settings(msgspec.Struct, frozen=True):
    """The settings of the bundle, with their defaults."""

    folder: str = "data"
    """The folder with the tables: a path in the folder of the bundle, or an absolute one."""


class Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts about one column: its type, its range or its values, and how many cells are empty."""

    name: str
    type: str
    empty: int
    distinct: int
    smallest: float | None = None
    largest: float | None = None
    mean: float | None = None
    values: list[str] = []


class Description(msgspec.Struct, frozen=True):
    """The facts about a table, with its first rows."""

    rows: int
    duplicates: int
    columns: list[Column]
    sample: list[list[str]]


@tool("table.describe", effect="pure")
def describe(name: str = "", text: str = "") -> Description:
    """Describe a table: its columns with types, ranges and empty cells, and its first rows.

    name: the name of a table of this app, such as sales.csv
    text: instead of a name, the text of a table: ref:fi:t1.user.attachments/NAME for an attached file
    """
    header, rows = _parse(text or _load(name))
    columns = [_describe_column(title, [row[at] for row in rows]) for at, title in enumerate(header)]
    duplicates = len(rows) - len({tuple(row) for row in rows})
    sample = [[cell[:_CELL_CHARS] for cell in row] for row in rows[:_SAMPLE_ROWS]]
    return Description(len(rows), duplicates, columns, sample)


@tool("table.read", effect="pure")
def read(name: Annotated[str, "the name of a table of this app, such as sales.csv"]) -> str:
    """Return a table of this app as CSV text. Call it from a program."""
    return _load(name)


def _load(name: str) -> str:
    """Return the text of the table with that name. Only listed names are read, so no name leaves the folder."""
    folder = Path(__file__).parent / get_settings(Settings).folder
    known = {file.name: file for file in sorted(folder.glob("*.csv")) if file.is_file()}
    if name not in known:
        raise ToolCallError(f"there is no table {name!r}; the tables are {', '.join(known) or 'none'}")
    return known[name].read_text(encoding="utf-8-sig")


def _parse(text: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows; short rows get empty cells."""
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    try:
        lines = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
    except csv.Error as error:
        raise ToolCallError(f"the text is no CSV table: {error}") from error
    if not lines:
        raise ToolCallError("the table is empty")
    header, rows = lines[0][:_MAX_COLUMNS], lines[1:]
    if len(rows) > _MAX_ROWS:
        raise ToolCallError(f"the table has more than {_MAX_ROWS} rows; describe a part of it in a program")
    return header, [[*row, *[""] * len(header)][: len(header)] for row in rows]


def _describe_column(name: str, cells: Sequence[str]) -> Column:
    filled = [cell.strip() for cell in cells if cell.strip()]
    numbers = _to_numbers(filled)
    distinct = sorted(set(filled))
    empty = len(cells) - len(filled)
    if numbers:
        kind = "integer" if all(number.is_integer() for number in numbers) else "number"
        mean = round(sum(numbers) / len(numbers), 4)
        return Column(
            name=name,
            type=kind,
            empty=empty,
            distinct=len(distinct),
            smallest=min(numbers),
            largest=max(numbers),
            mean=mean,
        )
    values = [value[:_CELL_CHARS] for value in distinct[:_LISTED_VALUES]]
    return Column(name=name, type="text", empty=empty, distinct=len(distinct), values=values)


def _to_numbers(cells: Sequence[str]) -> list[float]:
    """Return the cells as numbers; none if one of them is no number."""
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return []
