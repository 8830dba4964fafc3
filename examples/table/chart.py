"""A tool that draws a bar chart as SVG, for programs without matplotlib."""

from html import escape
from typing import Annotated, Final

from msgspec import Meta

from timeloom import ToolCallError, tool

_WIDTH: Final = 720
_LEFT: Final = 170
_RIGHT: Final = 90
_TOP: Final = 64
_ROW: Final = 30
_LABEL_CHARS: Final = 24

Labels = Annotated[list[str], Meta(min_length=1, max_length=40)]
Values = Annotated[list[float], Meta(min_length=1, max_length=40)]


@tool("table.bar_chart", effect="pure")
def bar_chart(title: str, labels: Labels, values: Values, unit: str = "") -> str:
    """Return a bar chart as the text of an SVG file. Call it from a program and write the text to a file.

    title: what the chart shows, as a sentence
    labels: the names of the bars, from top to bottom
    values: the lengths of the bars, none below zero
    unit: the unit of the values
    """
    if len(labels) != len(values):
        raise ToolCallError(f"each bar needs a label and a value, got {len(labels)} labels and {len(values)} values")
    if not all(0 <= value < float("inf") for value in values):
        raise ToolCallError("a bar cannot show a value below zero or an infinite one")
    longest = max(values) or 1
    bars = "\n".join(
        _bar(_TOP + at * _ROW, label, value, longest)
        for at, (label, value) in enumerate(zip(labels, values, strict=True))
    )
    height = _TOP + len(labels) * _ROW + 12
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="13">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f'<text x="16" y="28" font-size="17" font-weight="bold" fill="#1f2933">{escape(title)}</text>\n'
        f'<text x="16" y="48" fill="#52606d">{escape(unit)}</text>\n{bars}\n</svg>\n'
    )


def _bar(y: int, label: str, value: float, longest: float) -> str:
    """Return the label, the bar and the number of one row."""
    length = (_WIDTH - _LEFT - _RIGHT) * value / longest
    shown = label if len(label) <= _LABEL_CHARS else label[: _LABEL_CHARS - 1] + "…"
    return (
        f'<text x="{_LEFT - 10}" y="{y + 15}" text-anchor="end" fill="#1f2933">{escape(shown)}</text>'
        f'<rect x="{_LEFT}" y="{y}" width="{length:.1f}" height="20" fill="#2b6cb0"/>'
        f'<text x="{_LEFT + length + 8:.1f}" y="{y + 15}" fill="#1f2933">{value:,g}</text>'
    )
