"""Citation tokens: grammar, output forms, known and unknown sources, plain text."""

import html
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from timeloom.core.citations.formats import MAX_TITLE_CHARS, MAX_URL_CHARS, CitationFormat
from timeloom.core.citations.rewriter import (
    MAX_UNKNOWN,
    MAX_UNREAD_CHARS,
    CitationRewriter,
    describe_unknown_sids,
    find_citations,
    find_cited_sids,
    find_unknown_sids,
)
from timeloom.core.citations.tokens import MAX_SID, MAX_TOKEN_CHARS, MAX_TOKEN_SIDS
from timeloom.core.codes import CodedError

ROWS = [
    {"sid": 1, "title": "One", "url": "https://one.example/a"},
    {"sid": 2, "title": "", "url": "http://two.example"},
    {"sid": 3, "title": "A file", "url": "fi:turn_1.files/report.pdf"},
    {"sid": 4},
]
ONE = r'[\[1\]](https://one.example/a "One")'
TWO = r"[\[2\]](http://two.example)"


class Row(msgspec.Struct, frozen=True):
    sid: int
    title: str = ""
    url: str = ""


def rewritten(text: str, form: CitationFormat = "markdown") -> str:
    rewriter = CitationRewriter(ROWS, form)
    return rewriter.feed(text) + rewriter.close()


@pytest.mark.parametrize(
    ("token", "sids"),
    [
        ("[[S:1]]", (1,)),
        ("[[S:1,3]]", (1, 3)),
        ("[[S:2-4]]", (2, 3, 4)),
        ("[[S:1,3-5]]", (1, 3, 4, 5)),
        ("[[S:3,1]]", (3, 1)),
        ("[[S:3,1-4,3]]", (3, 1, 2, 4)),
        ("[[S: 1 , 3 - 5 ]]", (1, 3, 4, 5)),
        ("[[S:7-7]]", (7,)),
        (f"[[S:{MAX_SID}]]", (MAX_SID,)),
        (f"[[S:1-{MAX_TOKEN_SIDS}]]", tuple(range(1, MAX_TOKEN_SIDS + 1))),
    ],
)
def test_a_token_names_ids_lists_and_ranges(token: str, sids: tuple[int, ...]) -> None:
    (citation,) = find_citations(f"so {token} it is")
    assert (citation.start, citation.end, citation.sids) == (3, 3 + len(token), sids)


@pytest.mark.parametrize(
    "text",
    [
        "[[S:]]",
        "[[S: ]]",
        "[[S:0]]",
        "[[S:01]]",
        "[[S:-1]]",
        "[[S:1-]]",
        "[[S:4-2]]",
        "[[S:1,]]",
        "[[S:1 2]]",
        "[[S:1-2-3]]",
        "[[S:a]]",
        "[~~[S:1]]",
        "[~S:1]]",
        "[[S~:1]]",
        "[[S:1\u2013]]",
        "[[S:2\u20141]]",
        "[[S:١]]",
        "[[S:1]",
        "[S:1]",
        "[[ S:1]]",
        "[[S:1\n]]",
        "[[S:1] ]",
        f"[[S:{MAX_SID + 1}]]",
        f"[[S:1-{MAX_TOKEN_SIDS + 1}]]",
        f"[[S:1-60,1-{MAX_TOKEN_SIDS - 59}]]",
        "[[S:1" + " " * MAX_TOKEN_CHARS + "]]",
    ],
)
@pytest.mark.parametrize("form", ["markdown", "html", "text"])
def test_what_is_no_token_stays_as_it_is(text: str, form: CitationFormat) -> None:
    assert rewritten(text, form) == text


def test_each_source_is_linked_in_markdown() -> None:
    assert rewritten("so [[S:1,2]].") == f"so {ONE}{TWO}."


def test_rows_by_their_ids_are_looked_up_and_not_walked_through() -> None:
    class Pool(dict[int, Row]):
        def __iter__(self) -> Iterator[int]:
            raise AssertionError

    rewriter = CitationRewriter(Pool({1: Row(1, "One", "https://one.example/a")}))
    assert rewriter.feed("Yes [[S:1]], no [[S:2]].") + rewriter.close() == f"Yes {ONE}, no [[S:2]]."
    assert (rewriter.sources_used, rewriter.unknown) == ((1,), (2,))


def test_a_source_without_a_web_address_is_named_but_not_linked() -> None:
    assert rewritten("so [[S:3]][[S:4]].") == r"so \[3\]\[4\]."
    assert rewritten("[[S:3]]", "html") == '<sup class="cite" data-sids="3">[3]</sup>'


@pytest.mark.parametrize("token", ["[[s:1]]", "[~[S:1]]", "[~[s:1]]"])
@pytest.mark.parametrize("form", ["markdown", "html", "text"])
def test_a_token_as_models_copy_or_spell_it_is_a_citation(token: str, form: CitationFormat) -> None:
    expected = rewritten("a [[S:1]] b", form)
    assert rewritten(f"a {token} b", form) == expected
    for cut in range(len(token)):
        rewriter = CitationRewriter(ROWS, form)
        assert rewriter.feed(f"a {token[:cut]}") + rewriter.feed(f"{token[cut:]} b") + rewriter.close() == expected


@pytest.mark.parametrize("dash", "-\u2010\u2011\u2012\u2013\u2014\u2212")
def test_a_range_may_have_any_dash(dash: str) -> None:
    assert find_cited_sids(f"[[S:1{dash}3, 5 {dash} 6]]") == (1, 2, 3, 5, 6)


def test_html_marks_carry_their_ids() -> None:
    assert rewritten("so [[S:1-2]].", "html") == (
        'so <sup class="cite" data-sids="1,2"><a href="https://one.example/a" title="One">[1]</a>'
        '<a href="http://two.example">[2]</a></sup>.'
    )


@pytest.mark.parametrize("form", ["markdown", "html", "text"])
@pytest.mark.parametrize(
    "text",
    [
        "`a [[S:1]]`",
        "```\n[[S:1]]\n```\n",
        "a\n\n    [[S:1]]\n",
        "[x]([[S:1]])",
        "a <http://x/[[S:1]]>",
        'a <b x="[[S:1]]">',
    ],
)
def test_code_destinations_and_attributes_of_markdown_stay_as_they_are_in_every_format(
    text: str, form: CitationFormat
) -> None:
    assert rewritten(text, form) == text


def test_a_document_that_begins_like_html_is_read_as_html() -> None:
    text = " \n<div>\n\n    <p>a [[S:3]]</p> <code>[[S:3]]</code></div>"
    marked = text.replace("a [[S:3]]", 'a <sup class="cite" data-sids="3">[3]</sup>')
    assert rewritten(text, "html") == marked
    rewriter = CitationRewriter(ROWS, "html")
    assert "".join(rewriter.feed(char) for char in text) + rewriter.close() == marked


def test_a_document_of_white_space_has_no_citations() -> None:
    rewriter = CitationRewriter(ROWS, "html")
    assert rewriter.feed(" ") + rewriter.feed("\n") + rewriter.close() == " \n"


@pytest.mark.parametrize("form", ["markdown", "html", "text"])
def test_a_token_of_unknown_sources_stays_and_is_reported(form: CitationFormat) -> None:
    rewriter = CitationRewriter(ROWS, form)
    text = "so [[S: 9,8]] and [[S:9]]."
    assert rewriter.feed(text) + rewriter.close() == text
    assert (rewriter.sources_used, rewriter.unknown) == ((), (9, 8))


def test_the_unknown_sources_of_a_token_stay_beside_the_known() -> None:
    rewriter = CitationRewriter(ROWS)
    assert rewriter.feed("so [[S:9,1,7-8]].") + rewriter.close() == f"so {ONE}[[S:9,7,8]]."
    assert (rewriter.sources_used, rewriter.unknown) == ((1,), (9, 7, 8))
    assert rewritten("[[S:9,1]]", "text") == "[1][[S:9]]"


def test_sources_used_are_in_the_order_of_their_first_use() -> None:
    rewriter = CitationRewriter(ROWS)
    rewriter.feed("[[S:3]] [[S:1,3]] `[[S:2]]`\n")
    rewriter.close()
    assert rewriter.sources_used == (3, 1)
    assert find_cited_sids("[[S:3]] [[S:9,3]] `[[S:2]]`\n") == (3, 9)


def test_the_report_of_unknown_sources_is_bounded() -> None:
    rewriter = CitationRewriter([], "text")
    for first in range(1, 2 * MAX_UNKNOWN, 70):
        rewriter.feed(f"[[S:{first}-{first + 69}]]")
    assert rewriter.unknown == tuple(range(1, MAX_UNKNOWN + 1))


def test_rows_may_be_values_with_attributes() -> None:
    rewriter = CitationRewriter([Row(1, "One", "https://one.example/a"), Row(2)])
    assert rewriter.feed("[[S:1]] [[S:2]]\n") == rf"{ONE} \[2\]" + "\n"


@pytest.mark.parametrize("sid", [None, "1", True, 1.0])
def test_a_row_without_a_whole_number_as_its_id_is_refused(sid: object) -> None:
    with pytest.raises(CodedError, match="whole number") as refused:
        CitationRewriter([{"sid": sid}])
    assert refused.value.code == "source_malformed"


@pytest.mark.parametrize("before", ["!", "]"])
def test_a_link_keeps_clear_of_a_mark_that_would_change_it(before: str) -> None:
    assert rewritten(f"wow{before}[[S:1]][[S:2]]") == f"wow{before} {ONE}{TWO}"


def test_an_unlinked_mark_is_put_inside_a_link() -> None:
    assert rewritten("[see [[S:1]]](u) [[S:1]]\n") == rf"[see \[1\]](u) {ONE}" + "\n"
    assert rewritten("<a href=u>see [[S:1]]</a>", "html") == (
        '<a href=u>see <sup class="cite" data-sids="1">[1]</sup></a>'
    )


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        " https://a.example",
        "https://a.example/\n[x](javascript:1)",
        "https:a",
        "https:///a",
        "//a.example",
        "ftp://a.example",
        "mailto:a@b.example",
        "data:text/html,x",
        "https://a.example\\@b.example",
        "https://a.example/\ud800",
        "https://a.example/" + "a" * MAX_URL_CHARS,
    ],
)
def test_what_is_no_clean_web_address_is_not_linked(url: str) -> None:
    rewriter = CitationRewriter([{"sid": 1, "title": "t", "url": url}])
    assert rewriter.feed("[[S:1]]\n") == r"\[1\]" + "\n"


def test_addresses_and_titles_are_escaped_in_markdown() -> None:
    row = Row(1, 'a "b" [c](d)\n`e` <f> & \\ |', "https://a.example/b c(d)?e=[f]&copy=`\"<>'é|")
    rewriter = CitationRewriter([row])
    out = rewriter.feed("[[S:1]]\n")
    assert re.findall(r"""[<>`|'\n]""", out) == ["\n"]
    rendered = MarkdownIt("commonmark").render(out)
    assert rendered == (
        '<p><a href="https://a.example/b%20c(d)?e=%5Bf%5D&amp;copy=%60%22%3C%3E%27%C3%A9%7C" '
        'title="a &quot;b&quot; [c](d) `e` &lt;f&gt; &amp; \\ |">[1]</a></p>\n'
    )


def test_a_long_title_is_cut() -> None:
    rewriter = CitationRewriter([Row(1, "word " * 100, "https://a.example")], "html")
    (title,) = re.findall('title="([^"]*)"', rewriter.feed("[[S:1]]") + rewriter.close())
    assert len(title) <= MAX_TITLE_CHARS
    assert title.startswith("word word")


class Elements(HTMLParser):
    """The elements with their attributes' names, and the text, of a document."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.hrefs: list[str] = []
        self.text = ""
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.hrefs += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = st.text(st.sampled_from("\"'<>()[]{}\\`*_~|&;:/=!#$-.%?@ \t\n\r\0ab1é\u2028\u202e"), max_size=24)
URLS = st.builds("".join, st.tuples(st.sampled_from(["http://a.example/", "https://b", "javascript:", ""]), HOSTILE))


@given(HOSTILE, URLS)
def test_a_hostile_row_cannot_put_markup_into_markdown(title: str, url: str) -> None:
    rewriter = CitationRewriter([Row(1, title, url)])
    out = rewriter.feed("a *b [[S:1]] c* d\n") + rewriter.close()
    seen = Elements(MarkdownIt("commonmark").render(out))
    assert seen.text == "a b [1] c d\n"
    assert set(seen.elements) <= {("p", ()), ("em", ()), ("a", ("href",)), ("a", ("href", "title"))}
    assert all(href.lower().startswith(("http://", "https://")) for href in seen.hrefs)


@given(HOSTILE, URLS)
def test_a_hostile_row_cannot_put_markup_into_html(title: str, url: str) -> None:
    rewriter = CitationRewriter([Row(1, title, url)], "html")
    seen = Elements(rewriter.feed("<p>a [[S:1]] b</p>") + rewriter.close())
    assert seen.text == "a [1] b"
    assert set(seen.elements) <= {
        ("p", ()),
        ("sup", ("class", "data-sids")),
        ("a", ("href",)),
        ("a", ("href", "title")),
    }
    assert all(href.lower().startswith(("http://", "https://")) for href in seen.hrefs)


@given(st.text(st.sampled_from("[]S:1, -x\\"), max_size=30), st.data())
def test_plain_text_does_not_depend_on_how_it_was_cut(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    rewriter = CitationRewriter(ROWS, "text")
    assert rewriter.feed(text[:cut]) + rewriter.feed(text[cut:]) + rewriter.close() == rewritten(text, "text")


def test_text_without_a_token_flows_at_once() -> None:
    rewriter = CitationRewriter(ROWS)
    for piece in ["Now ", "`a", " <b x=", "\n[c](", "1. d\n```\ne", "\n> [", "f"]:
        held = len(piece) if piece.endswith("[") else 0
        assert rewriter.feed(piece) == ("[f" if piece == "f" else piece[: -1 if held else None])


def test_a_token_waits_for_one_character() -> None:
    rewriter = CitationRewriter(ROWS)
    assert rewriter.feed("- so [[S:1]]") == "- so "
    assert rewriter.feed(" and") == f"{ONE} and"
    assert rewriter.feed(" so [[S:2]].") == f" so {TWO}."


def test_a_token_after_an_open_backtick_waits_for_the_other() -> None:
    rewriter = CitationRewriter(ROWS)
    assert rewriter.feed("a ` b [[S:1]] c") == "a ` b "
    assert rewriter.feed(" d") == ""
    assert rewriter.feed("\n\ne") == f"{ONE} c d\n\ne"


def test_what_is_held_back_is_bounded() -> None:
    rewriter = CitationRewriter(ROWS)
    assert rewriter.feed("a ` b [[S:1]] ") == "a ` b "
    shown = "".join(rewriter.feed("word ") for _ in range(4_000))
    assert shown.startswith(ONE)
    assert len(shown) > 15_000


def test_escaped_html_is_what_the_forms_escape() -> None:
    assert html.unescape(Elements(rewritten("&lt;b&gt; [[S:1]]", "html")).text) == "<b> [1]"


@pytest.mark.parametrize("words", [1, MAX_UNREAD_CHARS])
def test_text_without_tokens_passes_at_once_and_still_decides_what_later_tokens_are(words: int) -> None:
    rewriter = CitationRewriter(ROWS)
    before = ["```\n", *("word\n" for _ in range(words))]
    assert [rewriter.feed(piece) for piece in before] == before
    assert rewriter.feed("[[S:1]]\n```\n") == "[[S:1]]\n```\n"
    assert rewriter.feed("so [[S:1]] it is") + rewriter.close() == f"so {ONE} it is"
    assert rewriter.sources_used == (1,)


@pytest.mark.parametrize(
    ("form", "text", "unknown"),
    [("markdown", "[[S:1,9]] `[[S:8]]`", (9,)), ("html", "<p>[[S:9]]<code>[[S:8]]", (9,)), ("text", "[[S:1]]", ())],
)
def test_unknown_ids_are_those_without_a_row(form: CitationFormat, text: str, unknown: tuple[int, ...]) -> None:
    assert find_unknown_sids(text, form, {1: Row(1, "One", "")}) == unknown


def test_a_notice_names_a_few_unknown_ids() -> None:
    assert "not in the pool: 7, 9; " in describe_unknown_sids("answer", (7, 9))
    assert "3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more; " in describe_unknown_sids("file", range(3, 15))
