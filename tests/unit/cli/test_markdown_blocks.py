"""Markdown comes out block by block, however the text was cut into pieces."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from timeloom.cli.chat.display.markdown_blocks import MAX_LIVE_CHARS, MarkdownBlock, MarkdownSplitter
from timeloom.cli.chat.display.render import TerminalRenderer, can_show_links

lines = st.sampled_from(
    [
        "",
        "prose",
        "more *prose*",
        "# head",
        "---",
        "- item",
        "  under it",
        "- [ ] task",
        "1. first",
        "7) odd",
        "   deep",
        "```",
        "```python",
        "~~~~",
        "> quote",
        "| a | b |",
        "|---|---|",
        "    code",
        "===",
        "\t- tabbed",
        "[a]: http://e",
    ]
)
documents = st.lists(lines, max_size=30).map("\n".join)


def blocks(text: str, cuts: list[int] | None = None) -> list[MarkdownBlock]:
    stream = MarkdownSplitter()
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts or [])})
    out = [block for a, b in itertools.pairwise(places) for block in stream.feed(text[a:b])]
    return out + stream.close()


def texts(text: str) -> list[str]:
    return [block.text for block in blocks(text)]


@given(documents, st.lists(st.integers(0, 500)))
def test_the_blocks_do_not_depend_on_the_cuts(text: str, cuts: list[int]) -> None:
    assert blocks(text, cuts) == blocks(text)


@given(documents)
def test_no_line_is_lost_or_moved(text: str) -> None:
    def said(written: str) -> list[str]:
        return [line for line in written.split("\n") if line.strip()]

    assert [line for block in blocks(text) for line in said(block.text)] == said(text)


def test_paragraphs_headings_and_code_are_blocks_of_their_own() -> None:
    assert texts("a\nb\n\nc\n# d\ne\n```\nf\n\ng\n```\nh") == ["a\nb", "c", "# d", "e", "```\nf\n\ng\n```", "h"]


def test_a_gap_is_where_an_empty_line_was() -> None:
    assert [block.gap for block in blocks("a\n\nb\n# c\n\n\nd\n- e\n\n- f\n- g")] == [
        False, True, False, True, False, True, False,
    ]  # fmt: skip


def test_items_are_given_out_one_by_one_and_keep_counting() -> None:
    found = blocks("1. a\n1. b\n   more\n\n1. c\n- d\n5. e")
    assert [(block.text, block.number) for block in found] == [
        ("1. a", 1),
        ("1. b\n   more", 2),
        ("1. c", 3),
        ("- d", None),
        ("5. e", 5),
    ]


def test_what_is_indented_after_an_empty_line_belongs_to_the_item() -> None:
    assert texts("- a\n\n  still a\n\n  ```\n  code\n\n  ```\n\nno more") == [
        "- a\n\n  still a\n\n  ```\n  code\n\n  ```",
        "no more",
    ]


def test_a_heading_underlined_is_one_block() -> None:
    assert texts("Title\n-----\ntext") == ["Title\n-----\ntext"]
    assert texts("Title\n=====\n\ntext") == ["Title\n=====", "text"]


def test_the_block_that_is_being_written_is_seen() -> None:
    stream = MarkdownSplitter()
    assert stream.live is None
    assert stream.feed("one\n\n2. tw") == [MarkdownBlock("one")]
    assert stream.live == MarkdownBlock("2. tw")
    stream.feed("o\n3. thr")
    assert stream.live == MarkdownBlock("2. two\n3. thr", gap=True, number=2)


def test_of_a_long_block_the_end_is_seen_inside_its_fence() -> None:
    stream = MarkdownSplitter()
    stream.feed("```python\n" + "x = 1\n" * 5_000)
    live = stream.live
    assert live is not None
    assert live.text.startswith("```python\nx = 1\n")
    assert len(live.text) < MAX_LIVE_CHARS + 20


def drawn(text: str, columns: int = 40, *, links: bool = False, number: int | None = None) -> str:
    drawing = TerminalRenderer(lambda: columns, colour=False, links=links)
    return drawing.render_markdown(MarkdownBlock(text, number=number))


def test_lists_code_and_tables_are_laid_out() -> None:
    assert drawn("1. seven", number=7) == " 7 seven"
    assert drawn("```\na\n  b   \n```") == "  a\n    b"
    assert drawn("<div>tags are *shown*</div>").startswith("<div>tags are ")
    assert "one" in drawn("| a | b |\n|---|---|\n| one | two |")


def test_what_a_narrow_terminal_cannot_lay_out_is_shown_as_written() -> None:
    deep = "\n".join(f"{'  ' * n}- {n}" for n in range(12))
    assert drawn(deep, 20).split() == deep.split()
    wide = "|" + "a|" * 9 + "\n|" + "-|" * 9 + "\n|" + "b|" * 9
    assert drawn(wide, 20).replace("\n", "") == wide.replace("\n", "")


def test_a_block_that_is_too_large_is_shown_as_written() -> None:
    assert "**word**" in drawn("**word** " * 3_000)


def test_links_are_sent_only_where_the_terminal_takes_them() -> None:
    assert "\x1b]8;" not in drawn("[a](https://e.org)")
    assert "https://e.org" in drawn("[a](https://e.org)")
    assert ";https://e.org\x1b\\" in drawn("[a](https://e.org)", links=True)
    assert "\x1b]8;" not in drawn("[a](file:///etc/passwd)", links=True)


def test_terminals_that_take_links_are_known_by_their_variables() -> None:
    assert can_show_links({"TERM": "xterm-kitty"})
    assert can_show_links({"VTE_VERSION": "6003"})
    assert can_show_links({"TERM_PROGRAM": "iTerm.app"})
    assert not can_show_links({"TERM": "xterm"})
    assert not can_show_links({"VTE_VERSION": "4000"})
    assert can_show_links({"FORCE_HYPERLINK": "1"})
    assert not can_show_links({"FORCE_HYPERLINK": "0", "TERM": "xterm-kitty"})


def test_further_lines_hang_under_the_first_and_no_line_is_too_long() -> None:
    drawing = TerminalRenderer(lambda: 20, colour=False)
    assert drawing.render_line("name   what it means to all", indent=7) == "name   what it means\n       to all"
    assert drawing.render_line("a\nb\n\nc", indent=2) == "a\n  b\n\n  c"
    assert drawing.render_line("", indent=2) == ""
    assert drawing.render_line("x" * 25, indent=15) == f"{'x' * 20}\n{' ' * 10}{'x' * 5}"
    assert drawing.render_line("日本語のテキストが長い場合", indent=2) == "日本語のテキストが長\n  い場合"


@given(st.text("ab \n日", max_size=80), st.integers(10, 40), st.integers(0, 30))
def test_a_line_keeps_all_its_letters(text: str, columns: int, indent: int) -> None:
    drawn = TerminalRenderer(lambda: columns, colour=False).render_line(text, indent=indent)
    assert drawn.replace(" ", "").replace("\n", "") == text.replace(" ", "").replace("\n", "")
    assert max(map(cell_len, drawn.split("\n"))) <= columns
