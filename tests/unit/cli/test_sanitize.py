"""Text of others is made harmless before a terminal sees it."""

import re

from hypothesis import given
from hypothesis import strategies as st

from timeloom.cli.chat.display.markdown_blocks import MarkdownBlock
from timeloom.cli.chat.display.render import TerminalRenderer
from timeloom.cli.sanitize import one_line, sanitize

OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;id=[0-9]+;[\x21-\x7e]+\x1b\\|\x1b\]8;;\x1b\\")
"""What our own drawing may send: styles and links."""

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

pieces = st.sampled_from(
    [
        "\x1b[31m",
        "\x1b]0;t\x07",
        "\x1b]8;;http://e\x1b\\",
        "\x9b2J",
        "\r",
        "\r\n",
        "\t",
        "\x00",
        "\x08",
        "\x7f",
        "\u202e",
        "&#27;[2J",
        "&#x9b;2J",
        "&#0;",
        "\ud800",
        "[a](http://e/\x1b[1m)",
        "<http://e/&#27;>",
        "![x](http://e)",
        "[[S:1]]",
        "`",
        "```",
        "\n",
        "# ",
        "- ",
        "1. ",
        "> ",
        "|a|b|\n|-|-|\n|c|d|\n",
        "*",
        "**",
        "word ",
        "日本",
        "~~",
        "    ",
        "<b>",
    ]
)
texts = st.lists(pieces | st.text(max_size=5), max_size=30).map("".join)


@given(texts)
def test_no_control_character_is_left_but_line_ends(text: str) -> None:
    assert not CONTROL.search(sanitize(text))


@given(texts)
def test_a_line_is_one_line_and_no_longer_than_allowed(text: str) -> None:
    line = one_line(text, 20)
    assert not CONTROL.search(line)
    assert "\n" not in line
    assert len(line) <= 20


@given(texts, st.integers(1, 60), st.booleans())
def test_what_is_drawn_sends_nothing_but_styles_and_links(text: str, columns: int, links: bool) -> None:
    drawing = TerminalRenderer(lambda: columns, links=links)
    for drawn in (
        drawing.render_markdown(MarkdownBlock(text)),
        drawing.render_line(text, "bad", indent=2),
        drawing.render_cut_line(text, "quiet", text),
        drawing.render_link(text, text),
    ):
        assert not CONTROL.search(OURS.sub("", drawn))


def test_control_characters_are_shown_as_what_they_are() -> None:
    assert sanitize("a\x1b[31mb\x7f\x07") == "a␛[31mb␡␇"
    assert sanitize("\x9b31m \u202egnp") == "\ufffd31m \ufffdgnp"
    assert sanitize("half \ud83d of a character") == "half \ufffd of a character"


def test_line_ends_stay_and_tabs_become_spaces_unless_kept() -> None:
    assert sanitize("a\r\nb\u2028c\n\td") == "a\nb\nc\n    d"
    assert sanitize("a\tb\x1b", keep_tabs=True) == "a\tb␛"


def test_what_is_cut_off_shows() -> None:
    assert one_line("one  two\nthree", 20) == "one two three"
    assert one_line("one two three", 8) == "one two…"
    assert one_line(" " * 10_000 + "far away", 8) == "…"
