"""Parses Markdown: CommonMark with tables, strikethrough and footnotes."""

from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin


def make_parser() -> MarkdownIt:
    """Return the parser of documents; it keeps HTML, which is cleaned later."""
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).use(footnote_plugin)


def split_footnotes(tokens: Sequence[Token]) -> tuple[list[Token], dict[int, list[Token]]]:
    """Return the tokens without the footnotes at the end, and those of each footnote by its number from 0."""
    text: list[Token] = []
    notes: dict[int, list[Token]] = {}
    current: list[Token] | None = None
    for token in tokens:
        if token.type in ("footnote_block_open", "footnote_block_close", "footnote_anchor"):
            continue
        if token.type == "footnote_open":
            current = notes.setdefault(int(token.meta["id"]), [])
        elif token.type == "footnote_close":
            current = None
        else:
            (text if current is None else current).append(token)
    return text, notes


def markdown_to_html(text: str) -> str:
    """Return the HTML of a Markdown text, with each footnote as a `span` at the place that refers to it."""
    parser = make_parser()
    env: dict[str, object] = {}
    body, notes = split_footnotes(parser.parse(text, env))
    inner = {number: _render_note(parser, tokens, env) for number, tokens in notes.items()}
    drawn: set[int] = set()

    def render_reference(_self: object, tokens: Sequence[Token], at: int, _options: object, _env: object) -> str:
        number = int(tokens[at].meta["id"])
        if number in drawn or number not in inner:
            return f"<sup>{number + 1}</sup>"
        drawn.add(number)
        # The joiner keeps the number on the line of the word before it.
        return f'\u2060<span class="footnote">{inner[number]}</span>'

    parser.add_render_rule("footnote_ref", render_reference)
    return parser.renderer.render(body, parser.options, env)


def find_title(text: str) -> str:
    """Return the text of the first heading of level 1; empty without one."""
    tokens = make_parser().parse(text)
    for at, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag == "h1":
            return "".join(
                each.content for each in tokens[at + 1].children or () if each.type in ("text", "code_inline")
            )
    return ""


def _render_note(parser: MarkdownIt, tokens: Sequence[Token], env: dict[str, object]) -> str:
    renderer: Any = parser.renderer
    inline = [token for token in tokens if token.type == "inline"]
    return " ".join(
        renderer.renderInline(
            [child for child in token.children or () if child.type not in ("footnote_ref", "footnote_anchor")],
            parser.options,
            env,
        )
        for token in inline
    )
