"""Prints messages, lines and Markdown below each other, with an empty line between different kinds."""

from collections.abc import Iterable
from typing import Final, Protocol

from timeloom.cli.chat.display.answer import AnswerStream
from timeloom.cli.chat.display.markdown_blocks import MarkdownBlock
from timeloom.cli.chat.display.render import Drawing, Style
from timeloom.cli.sanitize import harmless, one_line
from timeloom.core.sources import SourceRow

_LEAST_MEANING: Final = 30
"""Minimum columns of the second column; with fewer, it is printed below the first."""


class Paper(Protocol):
    """The device that a transcript is printed on."""

    def print(self, text: str) -> None:
        """Print the text above the live area; it stays there."""
        ...

    def refresh(self) -> None:
        """Redraw the live area."""
        ...

    def title(self, text: str) -> None:
        """Show the title of the conversation."""
        ...


class Page:
    """Prints sanitized output permanently above the live area."""

    def __init__(self, paper: Paper, drawing: Drawing) -> None:
        self._paper = paper
        self.drawing = drawing
        self.last_kind = ""
        """The kind of the newest output."""

    def say(self, text: str, style: Style = "quiet", kind: str = "work", *, indent: int = 2) -> None:
        """Print a message of the program; every line after the first is indented."""
        self.put(kind, self.drawing.line(text, style, indent=indent))

    def row(self, name: str, meaning: str, width: int, kind: str) -> None:
        """Print a name with its meaning beside it, or below it on a narrow terminal."""
        if width + _LEAST_MEANING <= self.drawing.columns:
            self.say(f"{name:<{width}}{meaning}", "plain", kind, indent=width)
        else:
            self.say(name, "strong", kind)
            self.say(f"  {meaning}", "quiet", kind)

    def line(self, text: str, style: Style = "quiet", kind: str = "work", *, end: str = "") -> None:
        """Print text on one line, cut to the width; `end` is cut last."""
        self.put(kind, self.drawing.cut(text, style, end))

    def echo(self, text: str) -> None:
        """Print a message of the user."""
        self.put("you", self.drawing.line(f"> {text}", "strong", indent=2), apart=True)

    def markdown(self, text: str, kind: str = "answer", sources: Iterable[SourceRow] = ()) -> None:
        """Print a complete Markdown text; its citations become the numbers of these sources."""
        stream = AnswerStream(sources, links=self.drawing.links)
        for n, block in enumerate(stream.feed(text) + stream.close()):
            self.put(kind, self.drawing.markdown(block), apart=block.gap or not n)

    def block(self, block: MarkdownBlock, kind: str = "answer") -> None:
        """Print one block of Markdown."""
        self.put(kind, self.drawing.markdown(block), apart=block.gap)

    def sources(self, rows: Iterable[SourceRow]) -> None:
        """Print the sources with their numbers."""
        for row in rows:
            self.put("sources", self._source_line(row))

    def put(self, kind: str, text: str, *, apart: bool = False) -> None:
        """Print rendered text, after an empty line if `apart` is set or the kind changes."""
        blank = self.last_kind and (apart or kind != self.last_kind)
        self.last_kind = kind
        self._paper.print(f"\n{text}" if blank else text)

    def refresh(self) -> None:
        """Redraw the live area."""
        self._paper.refresh()

    def title(self, text: str) -> None:
        """Show the title of the conversation."""
        self._paper.title(one_line(text, 80))

    def _source_line(self, row: SourceRow) -> str:
        title, url = one_line(row.title or row.artifact_path or row.url), harmless(row.url)
        label = f"[{row.sid}] "
        indent = len(label)
        if not self.drawing.links or not url:
            return self.drawing.line(
                label + title + (f" {url}" if url and url != title else ""), "quiet", indent=indent
            )
        domain = one_line(row.domain, 60)
        fits = len(label) + len(title) + len(domain) < self.drawing.columns
        between = " " if fits else "\n" + " " * indent
        return label + self.drawing.link(title, url, indent=indent) + between + self.drawing.line(domain, "quiet")
