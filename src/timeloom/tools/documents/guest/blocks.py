"""Turns Markdown into blocks of styled text, for formats that have no HTML."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from timeloom.tools.documents.guest.markdown import make_parser, split_footnotes
from timeloom.tools.documents.guest.markup import text_of

Kind = Literal["heading", "paragraph", "item", "code", "quote", "table", "rule", "image", "note"]


@dataclass(frozen=True)
class Run:
    """Text in one style; with an `image` it is a picture, whose text is its description."""

    text: str
    bold: bool = False
    italic: bool = False
    code: bool = False
    strike: bool = False
    raised: bool = False
    href: str = ""
    image: str = ""


@dataclass(frozen=True)
class Block:
    """A block; `level` is that of a heading or of a list in lists, `number` that of an item in a numbered list."""

    kind: Kind
    runs: Sequence[Run] = ()
    level: int = 0
    number: int = 0
    rows: Sequence[Sequence[Sequence[Run]]] = field(default_factory=tuple[Sequence[Sequence[Run]], ...])

    @property
    def text(self) -> str:
        """Its text without styles."""
        return "".join(run.text for run in self.runs)


def parse_blocks(markdown: str) -> list[Block]:
    """Return the blocks of the text in order, with footnotes at the end."""
    body, notes = split_footnotes(make_parser().parse(markdown))
    blocks = list(_walk(SyntaxTreeNode(body), 0))
    for number, tokens in sorted(notes.items()):
        runs = [run for block in _walk(SyntaxTreeNode(tokens), 0) for run in block.runs]
        blocks.append(Block("note", tuple(runs), number=number + 1))
    return blocks


def _walk(parent: SyntaxTreeNode, depth: int) -> Iterator[Block]:
    for node in parent.children:
        if node.type == "heading":
            yield Block("heading", tuple(_runs(node)), level=int(node.tag[1:]))
        elif node.type == "paragraph":
            yield from _split_images(tuple(_runs(node)))
        elif node.type in ("bullet_list", "ordered_list"):
            yield from _walk_list(node, depth)
        elif node.type in ("fence", "code_block"):
            yield Block("code", (Run(node.content.rstrip("\n"), code=True),))
        elif node.type == "blockquote":
            yield from (
                replace(each, kind="quote") if each.kind == "paragraph" else each for each in _walk(node, depth)
            )
        elif node.type == "table":
            rows = [row for part in node.children for row in part.children]
            yield Block("table", rows=tuple(tuple(tuple(_runs(cell)) for cell in row.children) for row in rows))
        elif node.type == "hr":
            yield Block("rule")
        elif node.type == "html_block" and (text := text_of(node.content).strip()):
            yield Block("paragraph", (Run(text),))


def _walk_list(node: SyntaxTreeNode, depth: int) -> Iterator[Block]:
    first = int(node.attrs.get("start", 1))
    for at, item in enumerate(node.children):
        number = first + at if node.type == "ordered_list" else 0
        for place, block in enumerate(_walk(item, depth + 1)):
            is_text = block.kind == "paragraph" and place == 0
            yield replace(block, kind="item", level=depth, number=number) if is_text else block


def _split_images(runs: Sequence[Run]) -> Iterator[Block]:
    """Yield a paragraph, and each of its pictures as a block."""
    text: list[Run] = []
    for run in runs:
        if not run.image:
            text.append(run)
            continue
        if "".join(each.text for each in text).strip():
            yield Block("paragraph", tuple(text))
        text = []
        yield Block("image", (run,))
    if "".join(each.text for each in text).strip():
        yield Block("paragraph", tuple(text))


def _runs(node: SyntaxTreeNode) -> Iterator[Run]:
    for child in node.children:
        if child.type == "inline":
            yield from _style_tokens(child.token.children or () if child.token else ())


def _style_tokens(tokens: Sequence[Token]) -> Iterator[Run]:
    style = Run("")
    marks = {"strong": "bold", "em": "italic", "s": "strike"}
    for token in tokens:
        name = token.type.rpartition("_")[0]
        if name in marks:
            style = replace(style, **{marks[name]: token.nesting == 1})
        elif name == "link":
            href = str(token.attrs.get("href", "")) if token.nesting == 1 else ""
            style = replace(style, href=href, raised=href.startswith("#source-"))
        else:
            yield from _leaf(token, style)


def _leaf(token: Token, style: Run) -> Iterator[Run]:
    match token.type:
        case "text" | "text_special" if token.content:
            yield replace(style, text=token.content)
        case "code_inline":
            yield replace(style, text=token.content, code=True)
        case "softbreak":
            yield replace(style, text=" ")
        case "hardbreak":
            yield replace(style, text="\n")
        case "image":
            yield Run(token.content, image=str(token.attrs.get("src", "")))
        case "footnote_ref":
            number = int(token.meta["id"]) + 1
            yield Run(str(number), raised=True, href=f"#note-{number}")
        case _:
            # HTML inside of a line: its text is in the tokens around it.
            return
