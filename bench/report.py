"""Formats benchmark results as Markdown tables and as JSON."""

import os
import platform
from collections.abc import Iterable, Sequence

import msgspec
from apsw import sqlite_lib_version

Cell = str | int | float | None


class BenchTable(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one subject; the units are in the column names."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


class BenchTarget(msgspec.Struct, frozen=True):
    """A target with its measured value: at most or at least a limit."""

    name: str
    measured: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def is_met(self) -> bool:
        """Whether the measured value meets the limit."""
        above = self.at_least is None or self.measured >= self.at_least
        return above and (self.at_most is None or self.measured <= self.at_most)


class BenchSection(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one subject's benchmarks."""

    tables: tuple[BenchTable, ...]
    bars: tuple[BenchTarget, ...] = ()


class BenchReport(msgspec.Struct, frozen=True, kw_only=True):
    """All results, with the facts that are needed to compare them with other runs."""

    data: str
    machine: dict[str, str]
    tables: tuple[BenchTable, ...]
    bars: tuple[BenchTarget, ...]


def make_report(data: str, sections: Sequence[BenchSection]) -> BenchReport:
    """Return the sections as one report."""
    return BenchReport(
        data=data,
        machine={
            "cores": str(os.cpu_count()),
            "system": platform.system(),
            "python": platform.python_version(),
            "sqlite": sqlite_lib_version(),
        },
        tables=tuple(table for section in sections for table in section.tables),
        bars=tuple(bar for section in sections for bar in section.bars),
    )


def as_text(table: BenchTable) -> str:
    """Return the table as Markdown."""
    rows = [[_format_cell(cell) for cell in row] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(table.columns, *rows, strict=True)]
    lines = [_line(table.columns, widths), f"|{'|'.join('-' * (width + 2) for width in widths)}|"]
    lines += [_line(row, widths) for row in rows]
    notes = [f"- {note}" for note in table.notes]
    return "\n".join([f"## {table.title}", "", *lines, *([""] if notes else []), *notes, ""])


def targets_table(bars: Sequence[BenchTarget]) -> BenchTable:
    """Return the targets as a table."""
    rows = [(bar.name, bar.measured, _limit(bar), "met" if bar.is_met else "MISSED") for bar in bars]
    return BenchTable(title="Bars", columns=("bar", "measured", "limit", ""), rows=tuple(rows))


def _limit(bar: BenchTarget) -> str:
    if bar.at_most is not None:
        return f"at most {_format_cell(bar.at_most)}"
    return f"at least {_format_cell(bar.at_least)}"


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    return f"| {' | '.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))} |"


def _format_cell(cell: Cell) -> str:
    match cell:
        case None:
            return "–"
        case str():
            return cell
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
