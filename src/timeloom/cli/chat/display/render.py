"""Renders Markdown and plain lines as terminal text, with or without colour and links."""

import io
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.syntax import Syntax
from rich.text import Text

from timeloom.cli.chat.display.markdown_blocks import MarkdownBlock
from timeloom.cli.sanitize import sanitize

MAX_MARKDOWN_CHARS: Final = 20_000
"""Longest block that is rendered as Markdown. A longer one is printed as source text, because layout is slow."""

MIN_COLUMNS: Final = 10
"""Minimum width for rendering; narrower terminals are treated as if they had this many columns."""

Style = Literal["plain", "quiet", "strong", "bad", "good", "link"]

_STYLES: Final[Mapping[Style, str]] = {
    "plain": "",
    "quiet": "dim",
    "strong": "bold",
    "bad": "red",
    "good": "green",
    "link": "cyan",
}
_LIST_COLUMNS: Final = 4
_CELL_COLUMNS: Final = 5
_TRAILING: Final = re.compile(r"(?:\x1b\[[0-9;]*m| )+\Z")
_WEB_URL: Final = re.compile(r"(?:https?|mailto):[\x21-\x7e]+\Z", re.IGNORECASE)
_PARSER: Final = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


class TerminalRenderer:
    """Renders sanitized text for a terminal: no control character of the input reaches the output."""

    def __init__(self, columns: Callable[[], int], *, colour: bool = True, links: bool = False) -> None:
        self._columns = columns
        self._colour = colour
        self.links = links

    @property
    def columns(self) -> int:
        """The width of a line in columns, at least `MIN_COLUMNS`."""
        return max(self._columns(), MIN_COLUMNS)

    def render_line(self, text: str, style: Style = "plain", *, indent: int = 0) -> str:
        """Return the text, wrapped and styled; every line after the first is indented."""
        indent = min(indent, self.columns // 2)
        columns = max(self.columns - indent, MIN_COLUMNS)
        first, broken, others = sanitize(text).partition("\n")
        # The first line also uses the columns of the indent.
        head = chop_cells(first, indent)[0] if indent and first else ""
        lines = [*_wrap(first[len(head) :], columns), *(_wrap(others, columns) if broken else [])]
        wrapped = "\n".join([head + lines[0], *(" " * indent + line for line in lines[1:])])
        return self._render(Text(wrapped, style=_STYLES[style], no_wrap=True, overflow="ignore"), self.columns)

    def render_cut_line(self, text: str, style: Style = "plain", end: str = "") -> str:
        """Return the text on one line, cut to the width; `end` is appended and keeps up to half of the line."""
        body, last = (" ".join(sanitize(one).split("\n")) for one in (text, end))
        last = _cut(last, max(self.columns // 2, self.columns - 1 - cell_len(body))) if last else ""
        body = _cut(body, self.columns - 1 - cell_len(last)) + last
        return self._render(Text(body, style=_STYLES[style], no_wrap=True, overflow="ignore"), self.columns)

    def render_link(self, label: str, url: str, *, indent: int = 0) -> str:
        """Return the wrapped label, as a link if the terminal supports links and the URL is http, https or mailto."""
        style = f"link {url}" if self.links and _WEB_URL.match(url) else ""
        drawn = self._render(Text(sanitize(label), style=style), max(self.columns - indent, MIN_COLUMNS))
        return drawn.replace("\n", "\n" + " " * indent)

    def render_markdown(self, block: MarkdownBlock, *, links: bool | None = None) -> str:
        """Return the rendered block; its source text if it is too long or too deeply nested for the width."""
        links = self.links if links is None else links
        text = sanitize(block.text)
        if len(text) > MAX_MARKDOWN_CHARS:
            return self._render(Text(text), self.columns)
        tokens = _PARSER.parse(text)
        if _min_columns(tokens) > self.columns:
            return self._render(Text(text), self.columns)
        _sanitize_tokens(tokens)
        if block.number is not None and tokens and tokens[0].type == "ordered_list_open":
            tokens[0].attrs["start"] = block.number
        return self._render(_Document(tokens, links=links), self.columns)

    def _render(self, renderable: RenderableType, columns: int) -> str:
        buffer = io.StringIO()
        console = Console(
            file=buffer,
            width=columns,
            force_terminal=True,
            color_system="256" if self._colour else "standard",
            no_color=not self._colour,
            highlight=False,
            legacy_windows=False,
            _environ={},
        )
        console.print(renderable)
        return "\n".join(map(_trim, buffer.getvalue().split("\n"))).strip("\n")


def can_show_links(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the terminal is known to show links; `FORCE_HYPERLINK=1` or `0` overrides this."""
    forced = environ.get("FORCE_HYPERLINK")
    if forced is not None:
        return forced != "0"
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    known = ("kitty", "alacritty", "foot", "wezterm", "ghostty", "contour")
    return (
        program in ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "Tabby")
        or any(name in term for name in known)
        or any(name in environ for name in ("WT_SESSION", "KONSOLE_VERSION", "DOMTERM"))
        or (environ.get("VTE_VERSION", "").isdigit() and int(environ["VTE_VERSION"]) >= _VTE_WITH_LINKS)
    )


_VTE_WITH_LINKS: Final = 5000


class _PlainCodeBlock(CodeBlock):
    """Code in the terminal's colours, indented and without a frame, so that it can be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(
            code, self.lexer_name, theme="ansi_dark", word_wrap=True, padding=(0, 0, 0, 2), background_color="default"
        )


class _LeftHeading(Heading):
    """A heading aligned to the left; rich centres it by default."""

    LEVEL_ALIGN = {}  # noqa: RUF012 - as the library has it


class _Document(Markdown):
    """A Markdown document made from tokens that were parsed and sanitized before."""

    elements = {  # noqa: RUF012 - rich declares it so
        **Markdown.elements,
        "fence": _PlainCodeBlock,
        "code_block": _PlainCodeBlock,
        "heading_open": _LeftHeading,
    }

    def __init__(self, tokens: Sequence[Token], *, links: bool) -> None:
        super().__init__("", hyperlinks=links)
        self.parsed = list(tokens)


def _min_columns(tokens: Iterable[Token]) -> int:
    """Return the columns that the nested lists and quotes, or the widest table, need to be readable."""
    deepest = here = cells = most_cells = 0
    for token in tokens:
        if token.type in ("bullet_list_open", "ordered_list_open", "blockquote_open"):
            here += 1
            deepest = max(deepest, here)
        elif token.type in ("bullet_list_close", "ordered_list_close", "blockquote_close"):
            here -= 1
        elif token.type == "tr_open":
            cells = 0
        elif token.type in ("th_open", "td_open"):
            cells += 1
            most_cells = max(most_cells, cells)
    return max(deepest * _LIST_COLUMNS + MIN_COLUMNS if deepest else 0, most_cells * _CELL_COLUMNS)


def _sanitize_tokens(tokens: Iterable[Token]) -> None:
    """Remove control characters from the parsed tokens, and all links except http, https and mailto."""
    for token in tokens:
        token.content = sanitize(token.content)
        token.info = sanitize(token.info)
        for name in ("href", "src"):
            if name in token.attrs and not _WEB_URL.match(str(token.attrs[name])):
                token.attrs[name] = ""
        if token.children:
            _sanitize_tokens(token.children)


def _wrap(text: str, columns: int) -> list[str]:
    console = Console(file=io.StringIO(), width=columns, _environ={})
    return [line.plain.rstrip() for line in Text(text).wrap(console, columns)] or [""]


def _cut(text: str, columns: int) -> str:
    return text if cell_len(text) <= columns else set_cell_size(text, columns - 1) + "…"


def _trim(line: str) -> str:
    """Return the line without its trailing spaces."""
    found = _TRAILING.search(line)
    return line if found is None else line[: found.start()] + found[0].replace(" ", "")
