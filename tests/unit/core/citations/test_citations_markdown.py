"""Citations in Markdown: a CommonMark parser judges which tokens are text, and cutting the stream changes nothing."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from timeloom.core.citations.html import HtmlFinder
from timeloom.core.citations.markdown.blocks import MAX_DEPTH
from timeloom.core.citations.markdown.finder import MarkdownFinder
from timeloom.core.citations.markdown.grammar import TAG
from timeloom.core.citations.markdown.inline import MAX_DEFINITION_CHARS, MAX_DEFINITIONS, MAX_LOOKAHEAD_CHARS
from timeloom.core.citations.rewriter import CitationRewriter, find_citations

TOKEN = re.compile(r"\[\[S:([0-9]+)\]\]")
FIRST_SID = 700_000
ROWS = [
    {"sid": FIRST_SID + n, "title": f'"{n}" [x](y) `', "url": f"https://e.example/{FIRST_SID + n}?(a)&b=`<>"}
    for n in range(60)
]

MISREAD = re.compile(
    # A line that is indented by four columns starts no block; the judge lets it end a paragraph of an open container.
    r"(?: {4}|\t)[ \t]*+(?:[>#`~<*+_\-]|[0-9]+[.)])"
    # A comment ends with its first "-->"; the judge counts dashes in threes.
    r"|--->"
    # In a definition that may go on with a title, the judge lets any list begin.
    r"|\]:[^\n\r]*+[\n\r]++[ \t>]*+[0-9]+[.)]"
    # A line that underlines a heading is one after a label too; the judge takes it for the definition's destination.
    r"|\]:[ \t]*+[\n\r]++[ \t>]*+[=\-]"
    # After a target that is none, the judge looks for a reference one character too late.
    r"|\]\((?s:.*)\[foo\]"
)

SOUP = [
    *["T"] * 12,
    *["\n", "\n", "\n\n", "\r\n", "\r", " ", "  ", "    ", "\t", "foo", "bar baz", "*", "**", "_", "!", "|", "="],
    *["> ", ">", "- ", "-", "* ", "1. ", "2) ", "+ ", "# ", "## ", "---", "===", "&#91;", "&amp;"],
    *["```", "````", "~~~", "`", "``", "```py", "\\[", "\\]", "\\`", "\\\\", "\\<", "\\!"],
    *[
        "<",
        ">",
        "<a>",
        "</a>",
        "<div>",
        "</div>",
        '<a href="',
        '"',
        "'",
        "<b x='",
        "/>",
        "<http://",
        "<a@b.c>",
        "http://x",
    ],
    *["<code>", "</code>", "<del>", "</del>", "<table><tr><td>", "</td></tr></table>", "<div><pre>"],
    *["<!-- ", " -->", "<!-->", "<?", "?>", "<![CDATA[", "]]>", "<!X", "<script>", "</script>", "<pre>", "</pre>"],
    *["[", "]", "(", ")", "](", "](<", ">)", "![", "[foo]", "[]", "[foo][]"],
]
MARKERS = [
    "",
    "",
    " ",
    "   ",
    "    ",
    "\t",
    " \t",
    "> ",
    ">",
    ">\t",
    "- ",
    "-",
    "-\t",
    "-     ",
    "* ",
    "1. ",
    "2. ",
    "10) ",
]
BODIES = [
    *[
        "T",
        "T",
        "foo T",
        "T bar",
        "`T",
        "T`",
        "``T` ``",
        "```",
        "````",
        "~~~",
        "``` T",
        "~~~ T",
        "``` `T",
        "# T",
        "# T #",
    ],
    *[
        "##T",
        "---",
        "***",
        "- - -",
        "===",
        "--",
        "<div>",
        "<div> T",
        "<b>",
        "<b>T",
        '<b x="T',
        'T">',
        "<pre>T",
        "</pre> T",
        "<div><pre>T",
        "<div><script>",
        "</script> T",
        "x <code>T",
        "</code> T",
        "<td>T</td>",
        "<del>T</del>",
    ],
    *[
        "<!-- T",
        "T --> T",
        "<?T",
        "?>T",
        "<script>",
        "[d]: /u",
        '[d]: /u "T',
        "[d]:",
        "/u T",
        '"T',
        "(T",
        "T)",
        "'x' T",
        '    "T"',
        "    (x) T",
        "    'T",
        'T"',
        "'T'",
        "[d]: <T> (T)",
    ],
    *[
        "[x](T",
        "T)",
        "[x T](u)",
        "![x T](u)",
        "[a [b](c) T](d T)",
        "[ ![a [b](c)](d) T](e T)",
        "<http://T>",
        "\\T",
        "T[d",
        "",
    ],
]


TITLES = [
    "[a]: b\n'",
    '[a]: b\n    "',
    "[a]: b\n    (\n",
    "[a]: b\n    '\n[a]: b\n    \"\n[a]: b\n (\n",
    "[a]: b\n   'x'\n",
]
"""Link definitions that a title may follow, and does not."""


def numbered(parts: Iterable[str]) -> str:
    """Return the parts as one text in which each `T` is a token with a distinct id."""
    text = "".join(parts)
    pieces = text.split("T")
    return "".join(piece + f"[[S:{FIRST_SID + n}]]" for n, piece in enumerate(pieces[:-1])) + pieces[-1]


soups = st.lists(st.sampled_from(SOUP), max_size=20).map(numbered)
lines = st.builds(
    "".join,
    st.tuples(
        st.lists(st.sampled_from(MARKERS), max_size=3).map("".join),
        st.sampled_from(BODIES),
        st.sampled_from(["", "", "", *BODIES]),
        st.sampled_from(["\n", "\n", "\n\n", "\r\n", "\r"]),
    ),
)
outlines = st.lists(lines, max_size=7).map(numbered)
documents = st.one_of(soups, outlines).filter(lambda text: not MISREAD.search(text))


def parser() -> MarkdownIt:
    # The judge as CommonMark has it: no limit of nesting within reach, every address a link, escapes told from text.
    judge = MarkdownIt("commonmark", {"maxNesting": 1_000}).disable("text_join")
    judge.validateLink = any_address
    return judge


def any_address(url: str) -> bool:
    del url
    return True


JUDGE = parser()


def shown(text: str) -> list[int]:
    """The ids of the tokens that the judge shows as text."""
    found: list[int] = []
    around = HtmlFinder(embedded=True)
    for block in JUDGE.parse(text):
        if block.type == "html_block":
            found += [sid for citation in around.feed(block.content) for sid in citation.sids]
            around.end_block()
        if block.children is not None:
            found += shown_in_paragraph(block.children, around)
    return found


def shown_in_paragraph(tokens: Sequence[Token], around: HtmlFinder) -> list[int]:
    """The ids of the tokens in a paragraph, except for those inside code and similar elements."""
    found: list[int] = []
    html, autolink = around.copy(), False
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            autolink = token.type == "link_open" and token.markup == "autolink"
        elif token.type == "html_inline" and TAG.fullmatch(token.content):
            html.read_tag(token.content)
        elif token.type == "text" and not autolink and not html.hides_text:
            found += map(int, TOKEN.findall(token.content))
    around.end_paragraph(html)
    return found


def cited(text: str) -> list[int]:
    return [sid for citation in find_citations(text) for sid in citation.sids]


def cited_by_character(text: str) -> list[int]:
    finder = MarkdownFinder()
    found = [citation for char in text for citation in finder.feed(char)] + finder.close()
    return [sid for citation in found for sid in citation.sids]


def rewritten(*pieces: str) -> str:
    rewriter = CitationRewriter(ROWS)
    return "".join(map(rewriter.feed, pieces)) + rewriter.close()


@settings(max_examples=500)
@given(documents)
def test_the_tokens_that_are_found_are_those_that_markdown_shows_as_text(text: str) -> None:
    assert cited(text) == shown(text)


@settings(max_examples=200)
@given(documents)
def test_references_to_what_was_defined_before_are_links(text: str) -> None:
    text = "[foo]: /url\n[S:700001]: <u>\n\n" + text.replace("bar", "[[S:700002]][foo]")
    assume(not MISREAD.search(text))
    assert cited(text) == shown(text)


@settings(max_examples=300)
@given(st.one_of(soups, outlines), st.data())
def test_the_text_does_not_depend_on_how_it_was_cut(text: str, data: st.DataObject) -> None:
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4))), len(text)]
    pieces = [text[start:end] for start, end in pairwise(cuts)]
    assert rewritten(*pieces) == rewritten(*text) == rewritten(text)


@pytest.mark.parametrize("opening", ["<!--", "<!---", "<!-", "<![CDATA[", "<![CDAT", "<!DOCTYPE", "<!"])
@pytest.mark.parametrize("rest", [" [[S:700002]] -->", "> [[S:700002]] -->", "]> [[S:700002]] ]]>"])
def test_a_declaration_may_be_cut_wherever_it_has_just_begun(opening: str, rest: str) -> None:
    text = f"[[S:700001]]{opening}{rest} [[S:700003]]"
    expected = find_citations(text)
    for cut in range(len(text)):
        finder = MarkdownFinder()
        assert [*finder.feed(text[:cut]), *finder.feed(text[cut:]), *finder.close()] == expected


MARK = re.compile(
    r'<sup class="cite" data-sids="[0-9]+">(?:<a [^>]*>)?\[(7[0-9]{5})\](?:</a>)?</sup>'
    r'|<a href="https://e\.example/[^"]*" title="[^"]*">\[(7[0-9]{5})\]</a>|(?<!:)\[(7[0-9]{5})\]'
)


@settings(max_examples=300)
@given(documents)
@example("wow![[S:700001]] [x][[S:700002]] **![[S:700003]]**")
@example('<b x="[[S:700001]]> [y](z "[[S:700002]]) `[[S:700003]] <!-- [[S:700004]]')
def test_rewriting_changes_nothing_but_the_citations(text: str) -> None:
    assume("]:" not in text)
    renderer = parser().enable("text_join")
    before = renderer.render(text)
    after = MARK.sub(lambda mark: f"[[S:{mark[1] or mark[2] or mark[3]}]]", renderer.render(rewritten(text)))
    assert after.replace(" ", "") == before.replace(" ", "")


@pytest.mark.parametrize(
    "text",
    [
        "[[S:1]]",
        "**[[S:1]]** _[[S:1]]_",
        "a ` b [[S:1]]",
        "`` a ` [[S:1]]",
        "`a\n\n[[S:1]]`",
        "a\n    [[S:1]]",
        "- a\n\n  [[S:1]]",
        "-\n  [[S:1]]",
        "> a\n[[S:1]]",
        "``` `\n[[S:1]]",
        "```\n```\n[[S:1]]",
        "~~~\na\n~~~~\n[[S:1]]",
        "> ```\n[[S:1]]",
        "- ```\n[[S:1]]",
        "# a [[S:1]] #",
        "[[S:1]]\n===",
        "[[S:1]](a b)",
        "[[S:1]] (a)",
        "[[S:1]][a]",
        "[a [[S:1]]](b)",
        "[a] [[S:1]]: b",
        "a < b [[S:1]] > c",
        "<b>[[S:1]]</b>",
        "a <b [[S:1]]>",
        "<div>\n\n[[S:1]]",
        "<div>\n[[S:1]]",
        "<div>[[S:1]]</div>",
        "<x>\n[[S:1]]",
        "<del>\n[[S:1]]\n</del>",
        "<table><tr><td>[[S:1]]</td></tr></table>",
        "> <div>\n> a [[S:1]]",
        "- <div>\n  [[S:1]]",
        "<div\nclass='a'>[[S:1]]",
        "<div><!-- a --> [[S:1]]",
        "<div><pre>a</pre> [[S:1]]",
        "<div><pre>\n\na</pre> [[S:1]]",
        "<div>a <\n[[S:1]]",
        "[d]: u\n'a\n<div> [[S:1]]\nb",
        "[d]: u\n    'a\n<div> b\n[[S:1]]\n",
        "<div title='a\n\n[[S:1]]",
        "a <code>b\n\n[[S:1]]",
        "a <code>b</code> [[S:1]]",
        "<pre>a</pre> [[S:1]]",
        "<!-- a --> [[S:1]]",
        "<!-- a -->\n[[S:1]]",
        "a <!-->[[S:1]]",
        "wow![[S:1]]",
        "\\\\[[S:1]]",
        "[d]: u\n\n[[S:1]]",
        "[d]: u 't' [[S:1]]",
        "[]: u '[[S:1]]'",
        "[d]: ) [[S:1]]",
        "[d]: u 't'\n[[S:1]]",
        "[d]: u\n(see) [[S:1]]",
        "[d]: u\n'a\n[[S:1]]",
        "[d]: u\n    'a\n[[S:1]]' b",
        "[d]: u\n    'a\n[e]: v\n    (x\n[[S:1]]",
        "[d]: u\n    'a\n\n'[[S:1]]",
        "[d]: u\n'a'\n'[[S:1]]'",
        "> [d]: u\n    'a\n> [[S:1]]",
        "1) [[S:1]]\n2) a",
        "a\r[[S:1]]\r\nb",
        "<" + "a" * 9 + "-b.c@d> [[S:1]]",
    ],
)
def test_a_token_in_text_is_a_citation(text: str) -> None:
    assert shown(text) == cited(text)
    assert 1 in cited(text)
    assert cited_by_character(text) == cited(text)


@pytest.mark.parametrize(
    "text",
    [
        "`[[S:1]]`",
        "``a ` [[S:1]]``",
        "`a\n[[S:1]]`",
        "# `[[S:1]]`",
        "```\n[[S:1]]\n```",
        "```\n[[S:1]]",
        "``` [[S:1]]\n```",
        "~~~~ ` ~\n~~~\n[[S:1]]",
        "> ```\n> [[S:1]]",
        "- ```\n  [[S:1]]",
        "    [[S:1]]",
        "\t[[S:1]]",
        "# a\n    [[S:1]]",
        "- a\n\n      [[S:1]]",
        "-\n\n    [[S:1]]",
        "    a\n\n\n    [[S:1]]",
        "[a]([[S:1]])",
        "[a](<[[S:1]]>)",
        "[a](b '[[S:1]]')",
        "[a](b\n(\\([[S:1]]))",
        "[a](b(c(d)[[S:1]]))",
        "[[S:1]](a)",
        "![[S:1]](a)",
        "![a [[S:1]]](b)",
        "[d]: [[S:1]]",
        "[d]: u\n'[[S:1]]'",
        "[d]: u '\n[[S:1]]'",
        "[d]:\n<[[S:1]]>",
        "[d]: <[[S:1]]>",
        "[d\\]]: u '[[S:1]]'",
        "[d]: u\n    [[S:1]]",
        "[b]: /u\n    (see) [[S:1]]\n",
        "[b]: /u\n    'see' [[S:1]]\n",
        '[b]: /u\r\n\t"see [[S:1]]',
        "[b]: /u\n    'see\n    [[S:1]]\n\n'",
        "[b]: /u\n    'see\n    [[S:1]]\n'",
        "[b]: /u\n    (see\n    [[S:1]]\n# a)",
        "[b]: /u\n    (see [[S:1]]\r",
        "> [b]: /u\n>     (see) [[S:1]]\n",
        "> [b]: /u\n    (see) [[S:1]]\n",
        "- [b]: /u\n(x\n\n     [[S:1]]",
        "[b]: /u\n    'a'\n    'b' [[S:1]]",
        "[b]: /u\n    (a\n[c]: /u\n    (a\n[d]: /u\n    (a) [[S:1]]",
        "<http://a/[[S:1]]>",
        '<b x="[[S:1]]">',
        "<b x=[[S:1]]>",
        "a <b\nx='[[S:1]]'>",
        "a <!-- [[S:1]] -->",
        "a <!--> b --> <!--->`[[S:1]]`",
        "a <? [[S:1]] ?>",
        "a <!X [[S:1]]>",
        "a <![CDATA[ [[S:1]] ]]>",
        "<div title='[[S:1]]'>",
        "<div title='\n[[S:1]]'>",
        "<div><!-- [[S:1]] --></div>",
        "<div><pre>[[S:1]]</pre></div>",
        "<div><code>\n[[S:1]]\n</code></div>",
        "<div><script>\n[[S:1]]\n</script></div>",
        "<div><style>[[S:1]]",
        "<div><pre>\n\n[[S:1]]</pre>",
        "<div><script>\n\n[[S:1]]</script>",
        "a <pre>[[S:1]]</pre>",
        "a <code>[[S:1]]</code>",
        "a <KBD>**[[S:1]]**</KBD>",
        "a <script>[[S:1]]",
        "<code>\n[[S:1]]",
        "<pre>\n\n[[S:1]]",
        "<!-- a\n\n[[S:1]]",
        "\\[[S:1]]",
        "[\\[S:1]]",
        "[[S:1]\\]",
        "&#91;[S:1]]",
        "[S:1]: u\n\n[[S:1]]",
        "[d]: u\n\n[[S:1]][d]",
        "[S:1]: u\n\n[[S:1]][]",
    ],
)
def test_a_token_that_is_not_text_is_left_alone(text: str) -> None:
    assert shown(text) == cited(text) == cited_by_character(text) == []


def test_a_citation_in_an_html_block_becomes_html_and_one_in_a_paragraph_markdown() -> None:
    rewriter = CitationRewriter([{"sid": 1, "title": "<T>", "url": "https://e.example/?a&b"}])
    out = rewriter.feed("<div>a[[S:1]]</div>\n\n<b>x</b> [[S:1]] <a href='u'>[[S:1]]</a>\n") + rewriter.close()
    mark = '<a href="https://e.example/?a&amp;b" title="&lt;T&gt;">[1]</a>'
    assert out == (
        f'<div>a<sup class="cite" data-sids="1">{mark}</sup></div>\n\n'
        """<b>x</b> [\\[1\\]](https://e.example/?a&amp;b "&#60;T&#62;") <a href='u'>\\[1\\]</a>\n"""
    )
    assert rewritten("<div>[[S:700001]]</div>").startswith('<div><sup class="cite"')


def test_a_link_reference_that_is_defined_only_later_is_not_awaited() -> None:
    assert cited("[[S:1]][d]\n\n[d]: u") == [1]


def test_collapsed_and_shortcut_references_are_link_text() -> None:
    found = find_citations("[d]: u\n\n[a [[S:1]]][D] [d][] [d] [e [[S:2]]][e] [[S:3]][f [ [d\n]")
    assert [(citation.sids, citation.in_link) for citation in found] == [((1,), True), ((2,), False), ((3,), False)]


def test_a_token_is_decided_within_its_line_unless_the_line_may_still_be_code_or_html() -> None:
    rewriter = CitationRewriter([{"sid": 1}])
    assert rewriter.feed("> 1. a [[S:1]] b") == "> 1. a \\[1\\] b"
    assert rewriter.feed("\n\n# a [[S:1]] b") == "\n\n# a "
    assert rewriter.feed(" c") == ""
    assert rewriter.feed("\n~~~ [[S:1]] b") == "\\[1\\] b c\n~~~ "
    assert rewriter.feed("\n[[S:1]] b") == "[[S:1]] b\n[[S:1]] b"
    assert rewriter.feed("\n~~~\n<b> [[S:1]] b") == "\n~~~\n<b> "
    assert rewriter.close() == "\\[1\\] b"


def test_a_code_span_that_is_too_long_is_text() -> None:
    filling = "word " * (MAX_LOOKAHEAD_CHARS // 5)
    assert cited(f"`[[S:1]] {filling}` [[S:2]]") == [1, 2]
    assert cited(f"`[[S:1]] {filling[:-20]}` [[S:2]]") == [2]
    assert cited("a " + "`" * (MAX_LOOKAHEAD_CHARS + 5) + "[[S:1]]") == [1]


def test_a_bracket_that_is_open_for_too_long_is_text() -> None:
    filling = "word " * (MAX_LOOKAHEAD_CHARS // 5)
    (citation,) = find_citations(f"[a [[S:1]] {filling}](u)")
    assert not citation.in_link
    assert cited(f"a <!-- [[S:1]] {filling} --> [[S:2]]") == [1, 2]
    assert cited(f"[a](b '[[S:1]] {filling}')") == [1]


def test_a_definition_that_is_too_long_is_text() -> None:
    filling = "word " * (MAX_DEFINITION_CHARS // 5)
    assert cited(f"[d]: u '[[S:1]] {filling}'\n\n[[S:2]][d]") == [1, 2]
    assert cited(f"[d]: {'u' * MAX_DEFINITION_CHARS}\n\n[[S:2]][d]") == [2]
    assert cited(f"[d]: u\n\n[[S:1]][{'d' * 1_000}] [{'d' * 1_000}] [[S:2]]") == [1, 2]


def test_only_so_many_definitions_are_remembered() -> None:
    definitions = "".join(f"[d{n}]: u\n" for n in range(MAX_DEFINITIONS + 1))
    assert cited(f"{definitions}\n[[S:1]][d{MAX_DEFINITIONS - 1}] [[S:2]][d{MAX_DEFINITIONS}]") == [2]


def test_a_line_that_is_too_long_is_what_its_beginning_is() -> None:
    filling = "word " * (MAX_LOOKAHEAD_CHARS // 5)
    assert cited(f"# a [[S:1]] {filling} [[S:2]] #\n[[S:3]]") == [1, 2, 3]
    assert cited(f"<pre>{filling} [[S:1]] </pre>\n[[S:2]]") == [2]
    assert cited(f"<div>{filling} [[S:1]] </div>\n[[S:2]]\n\n[[S:3]]") == [1, 2, 3]
    assert cited(f"a <b x='{filling} [[S:1]]") == [1]


@pytest.mark.parametrize("marker", ["> ", "- "])
def test_containers_nest_only_so_deep(marker: str) -> None:
    assert cited(marker * MAX_DEPTH + "[[S:1]]") == [1]
    assert cited(marker * (MAX_DEPTH + 1) + "    [[S:1]]") == [1]
    assert cited(marker * MAX_DEPTH + "    [[S:1]]") == []


def test_a_long_paragraph_is_read_in_bounded_pieces() -> None:
    text = "".join(f"line {n} `[[S:1]]` [[S:{n}]] ``a` [[S:1]]`` \\\\ <b> ![x](y)\n" for n in range(1, 900))
    rewriter = CitationRewriter([{"sid": n} for n in range(1, 900)])
    out = "".join(rewriter.feed(text[at : at + 50]) for at in range(0, len(text), 50)) + rewriter.close()
    assert out == re.sub(r"([0-9]) `(.*?)` \[\[S:([0-9]+)\]\]", r"\1 `\2` \\[\3\\]", text)


def test_a_title_that_is_too_long_is_none() -> None:
    filling = "word " * (MAX_DEFINITION_CHARS // 5)
    text = f"[d]: u\n    '{filling} [[S:1]]\n[[S:2]]'\n    [[S:3]]"
    assert cited(text) == cited_by_character(text) == [2, 3]


@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "]",
        "`",
        "[[S:",
        "<",
        "> ",
        "- ",
        "](",
        "[a](b",
        '[a](b "',
        "x<!--",
        "<?",
        "[a]: b\n",
        "` `` ",
        "\n",
        "![",
        *TITLES,
    ],
)
def test_repeated_marks_are_text_and_take_one_pass(unit: str) -> None:
    text = unit * (20_000 // len(unit))
    assert rewritten(*(text[at : at + 16] for at in range(0, len(text), 16))) == text
