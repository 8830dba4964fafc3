"""Citations in HTML: tokens are marked in text only, and cutting the stream changes nothing."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timeloom.core.citations.rewriter import CitationRewriter

PARTS = [
    *["T"] * 8,
    *[
        "<a href='T'>",
        "</a>",
        '<b x="',
        '">',
        "<b>",
        "</b>",
        "<i x=T>",
        "<br/>",
        "<!-- ",
        " -->",
        "--!>",
        "<!-->",
        "<!-",
        "-",
        "!",
        "<!T>",
        "<?T>",
    ],
    *["<script>", "</script>", "</scr", "ipt>", "<pre>", "</pre>", "<code class=x>", "</code>", "</ T>", "<style >"],
    *[
        "</style>",
        "<textarea>",
        "</TextArea >",
        "<svg>",
        "</svg>",
        "<title>",
        "</title>",
        "<path/>",
        "<svg/>",
        "=",
        "/",
        ">",
    ],
    *["<", "</", "<1", "&lt;", " ", "\n", "x", "[[S:", "<aaaaaaaaaaaaaaaaaaaaaaaaaaa", "<a =", "<a x = y", "<a x = '"],
    *["<script", "<!--<script>", "<p ==", "<p a/=", '"', "'", "<plaintext>", "\v", "\f"],
]
SAFE = [
    *["T"] * 6,
    *[
        "<a href='T'>",
        "</a>",
        '<b x="T">',
        "<i x=T>",
        "<br/>",
        "<!-- T -->",
        "<!x T>",
        "<pre>",
        "</pre>",
        "<code>",
        "</code>",
    ],
    *["<script>T</script>", "<style>T</style>", "a < b", "&lt;", "x", "\n", "<b\nx = 'T>' y>"],
]


def numbered(parts: list[str]) -> str:
    """The parts as an HTML document, its tokens numbered."""
    pieces = "".join(parts).split("T")
    return "<p>" + "".join(piece + f"[[S:{n}]]" for n, piece in enumerate(pieces[:-1], 1)) + pieces[-1]


def rewritten(*pieces: str) -> str:
    rewriter = CitationRewriter([{"sid": n, "url": f"https://e.example/{n}"} for n in range(1, 60)], "html")
    return "".join(map(rewriter.feed, pieces)) + rewriter.close()


def marked(text: str) -> list[int]:
    return [int(sid) for sid in re.findall('data-sids="([0-9]+)"', rewritten(text))]


class Shown(HTMLParser):
    """The tokens in text outside code, as the standard library's parser sees the document."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tokens: list[int] = []
        self.open = {"pre": 0, "code": 0, "script": 0, "style": 0}
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.open:
            self.open[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            self.open[tag] = max(0, self.open[tag] - 1)

    def handle_data(self, data: str) -> None:
        if not any(self.open.values()):
            self.tokens += [int(sid) for sid in re.findall(r"\[\[S:([0-9]+)\]\]", data)]


@settings(max_examples=150)
@given(st.lists(st.sampled_from(SAFE), max_size=14).map(numbered))
def test_the_tokens_that_are_marked_are_those_in_text_outside_code(text: str) -> None:
    assert marked(text) == Shown(text).tokens


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PARTS), max_size=14).map(numbered), st.data())
def test_the_document_does_not_depend_on_how_it_was_cut(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    assert rewritten(text[:cut], text[cut:]) == rewritten(*text) == rewritten(text)


@pytest.mark.parametrize(
    "text",
    [
        "<p>[[S:1]]</p>",
        "a < b [[S:1]] <",
        "<3 [[S:1]]",
        "<pre>a</pre>[[S:1]]",
        "<code><code></code></code>[[S:1]]",
        "</code>[[S:1]]",
        "<!-- a -->[[S:1]]",
        "<!-->[[S:1]]",
        "<!--->[[S:1]]",
        "<!---->[[S:1]]",
        "<!-- x --!> [[S:1]]",
        "<!----!>[[S:1]]",
        "<!--x---->[[S:1]]",
        "<!--x---!>[[S:1]]",
        "<!doctype html>[[S:1]]",
        "</ a>[[S:1]]",
        "<script>'</scripts>'</script >[[S:1]]",
        "<code></code></code><code></code>[[S:1]]",
        "<svg/>[[S:1]]",
        "<svg><title/><code/></svg>[[S:1]]",
        "<b x='>'y=\">\" z=>[[S:1]]",
        "<b x=a/>[[S:1]]",
        '<p a/=">[[S:1]]',
        "<p a = b c>[[S:1]]",
        "<p =>[[S:1]]",
        '<p =">[[S:1]]',
        "<p/==a>[[S:1]]",
        "<svg a/>[[S:1]]",
        "<svg a />[[S:1]]",
        "<svg a='b'/>[[S:1]]",
        "<svg/ / />[[S:1]]",
        "<svg><plaintextual/></svg>[[S:1]]",
        "</plaintext>[[S:1]]",
        "<tag><name><value><comment><remark>[[S:1]]",
        "<script><!--</script>[[S:1]]",
        "<script><!--<script></script>--></script>[[S:1]]",
        "<script><!--><script></script>[[S:1]]",
        "<script><!--<scripts></script>[[S:1]]",
        "<script><!--<script>--></script>[[S:1]]",
        "<plaintext-like>[[S:1]]",
        "<" + "a" * 40 + ">[[S:1]]",
        "&#91;[[S:1]]",
    ],
)
def test_a_token_in_text_is_marked(text: str) -> None:
    assert marked(text) == [1]


@pytest.mark.parametrize(
    "text",
    [
        "<p title='[[S:1]]'>",
        "<p [[S:1]]>",
        "<p title=[[S:1]]>",
        "<p title = \"'>[[S:1]]",
        "<p [[S:1]]",
        "<!-- [[S:1]] -->",
        "<!-- [[S:1]]",
        "<!x [[S:1]]>",
        "<?x [[S:1]]>",
        "</ [[S:1]]>",
        "<script>[[S:1]]</script>",
        "<STYLE>[[S:1]]</style>",
        "<style></\u017ftyle>[[S:1]]",
        "<textarea><p>[[S:1]]</p></textarea>",
        "<title>[[S:1]]</title>",
        "<pre>[[S:1]]</pre>",
        "<p><code><b>[[S:1]]</b></code></p>",
        "<code/>[[S:1]]",
        "<svg><text>[[S:1]]</text></svg>",
        "<svg><style/><code/><text>[[S:1]]</text></svg>",
        '<p ==">[[S:1]]">',
        "<p a ==>[[S:1",
        '<p a=""==">[[S:1]]">',
        '<p/==">[[S:1]]">',
        "<p a b = '>[[S:1]]'>",
        "<svg a=/>[[S:1]]",
        "<svg a=b/>[[S:1]]",
        "<svg / a>[[S:1]]",
        "<!--!>[[S:1]]-->",
        "<!---!>[[S:1]]-->",
        "<!--x- -!>[[S:1]]-->",
        "<!--x--! >[[S:1]]",
        "<plaintext>[[S:1]]</plaintext>[[S:1]]",
        "<p><PlainText class=x/>[[S:1]]",
        "<svg><desc><plaintext></svg>[[S:1]]",
        "<script></script\v>[[S:1]]</script>",
        "<script><!--<Script ></Script >[[S:1]]</script>",
        "<script><!-- - -><script/></script/>[[S:1]]-->",
        "<p a=b\v'>'>[[S:1",
    ],
)
def test_a_token_in_markup_or_code_is_left_alone(text: str) -> None:
    assert rewritten(text) == text


def test_a_mark_inside_a_link_is_not_a_link() -> None:
    out = rewritten("<a href=x>[[S:1]]</a>[[S:2]]")
    assert out.count("<a ") == 2
    assert '<sup class="cite" data-sids="1">[1]</sup></a>' in out


def test_markup_flows_at_once() -> None:
    rewriter = CitationRewriter([], "html")
    assert [rewriter.feed(piece) for piece in ["<p x='[[S:", "1]]", "'>a", "[[S:1]] b"]] == [
        "<p x='",
        "[[S:1]]",
        "'>a",
        "[[S:1]] b",
    ]
