"""Prints messages, lines and Markdown below each other, with an empty line between different kinds."""

from collections.abc import Iterable
from typing import Final, Protocol

from timeloom.cli.chat.display.answer import AnswerStream
from timeloom.cli.chat.display.labels import format_source
from timeloom.cli.chat.display.markdown_blocks import MarkdownBlock
from timeloom.cli.chat.display.render import Style, TerminalRenderer
from timeloom.cli.sanitize import one_line, sanitize
from timeloom.core.sources import SourceRow

_MIN_MEANING_COLUMNS: Final = 30
"""Minimum columns of the second column; with fewer, it is printed below the first."""


class OutputDevice(Protocol):
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


class Transcript:
    """Prints sanitized output permanently above the live area."""

    def __init__(self, device: OutputDevice, renderer: TerminalRenderer) -> None:
        self._device = device
        self.renderer = renderer
        self.last_kind = ""
        """The kind of the newest output."""

    def print_message(self, text: str, style: Style = "quiet", kind: str = "work", *, indent: int = 2) -> None:
        """Print a message of the program; every line after the first is indented."""
        self.print_rendered(kind, self.renderer.render_line(text, style, indent=indent))

    def print_row(self, name: str, meaning: str, width: int, kind: str) -> None:
        """Print a name with its meaning beside it, or below it on a narrow terminal."""
        if width + _MIN_MEANING_COLUMNS <= self.renderer.columns:
            self.print_message(f"{name:<{width}}{meaning}", "plain", kind, indent=width)
        else:
            self.print_message(name, "strong", kind)
            self.print_message(f"  {meaning}", "quiet", kind)

    def print_line(self, text: str, style: Style = "quiet", kind: str = "work", *, end: str = "") -> None:
        """Print text on one line, cut to the width; `end` is cut last."""
        self.print_rendered(kind, self.renderer.render_cut_line(text, style, end))

    def print_user_message(self, text: str) -> None:
        """Print a message of the user."""
        self.print_rendered("you", self.renderer.render_line(f"> {text}", "strong", indent=2), apart=True)

    def print_markdown(self, text: str, kind: str = "answer", sources: Iterable[SourceRow] = ()) -> None:
        """Print a complete Markdown text; its citations become the numbers of these sources."""
        stream = AnswerStream(sources, links=self.renderer.links)
        for n, block in enumerate(stream.feed(text) + stream.close()):
            self.print_rendered(kind, self.renderer.render_markdown(block), apart=block.gap or not n)

    def print_block(self, block: MarkdownBlock, kind: str = "answer") -> None:
        """Print one block of Markdown."""
        self.print_rendered(kind, self.renderer.render_markdown(block), apart=block.gap)

    def print_sources(self, rows: Iterable[SourceRow]) -> None:
        """Print the sources with their numbers."""
        for row in rows:
            self.print_rendered("sources", self._render_source(row))

    def print_rendered(self, kind: str, text: str, *, apart: bool = False) -> None:
        """Print rendered text, after an empty line if `apart` is set or the kind changes."""
        blank = self.last_kind and (apart or kind != self.last_kind)
        self.last_kind = kind
        self._device.print(f"\n{text}" if blank else text)

    def refresh(self) -> None:
        """Redraw the live area."""
        self._device.refresh()

    def title(self, text: str) -> None:
        """Show the title of the conversation."""
        self._device.title(one_line(text, 80))

    def _render_source(self, row: SourceRow) -> str:
        title, url = one_line(row.title or row.artifact_path or row.url), sanitize(row.url)
        label = f"[{row.sid}] "
        indent = len(label)
        if not self.renderer.links or not url:
            return self.renderer.render_line(format_source(row), "quiet", indent=indent)
        domain = one_line(row.domain, 60)
        fits = len(label) + len(title) + len(domain) < self.renderer.columns
        between = " " if fits else "\n" + " " * indent
        return (
            label
            + self.renderer.render_link(title, url, indent=indent)
            + between
            + self.renderer.render_line(domain, "quiet")
        )
