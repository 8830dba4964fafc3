"""The parts of the renderer: citations, blocks, slides, HTML and fonts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.documents import ROWS
from timeloom.core.sources import SourcesPool
from timeloom.tools.documents.citations import MarkupFormat, link_citations
from timeloom.tools.documents.guest.blocks import parse_blocks
from timeloom.tools.documents.guest.fonts import FOLDERS, warn_about_missing_fonts
from timeloom.tools.documents.guest.job import MAX_WARNINGS, Job, Source
from timeloom.tools.documents.guest.markdown import find_title, markdown_to_html
from timeloom.tools.documents.guest.markup import build_page, clean_html
from timeloom.tools.documents.guest.slides import split_slides

POOL = SourcesPool({row.sid: row for row in ROWS})


def make_job(content: str = "", *, title: str = "", sources_section: bool = True) -> Job:
    return Job(
        kind="pdf",
        format="markdown",
        content=content,
        title=title,
        landscape=False,
        sources_section=sources_section,
        sources=[Source(1, "Prices", "https://prices.example/"), Source(3, "", "")],
        assets={},
        width=100,
        scale=1.0,
    )


@pytest.mark.parametrize(
    ("text", "format", "linked"),
    [
        ("a [[S:1]]", "markdown", r"a [\[1\]](#source-1)"),
        ("a[[S:1-2]]", "markdown", r"a[\[1\]](#source-1)[\[2\]](#source-2)"),
        ("![[S:1]]", "markdown", r"! [\[1\]](#source-1)"),
        ("[see [[S:1]]](https://a.example)", "markdown", r"[see \[1\]](https://a.example)"),
        ("`[[S:1]]` [[S:7]]", "markdown", "`[[S:1]]` [[S:7]]"),
        ("<p>a [[S:1]]</p>", "html", '<p>a <a href="#source-1">[1]</a></p>'),
        ("<p title='[[S:1]]'>a</p>", "html", "<p title='[[S:1]]'>a</p>"),
    ],
)
def test_citations_become_links(text: str, format: MarkupFormat, linked: str) -> None:
    assert link_citations(text, format, POOL).text == linked


def test_sources_come_once_in_the_order_of_first_use() -> None:
    cited = link_citations("[[S:3]] [[S:9,1]] [[S:3]]", "markdown", POOL)
    assert ([row.sid for row in cited.rows], cited.unknown) == ([3, 1], (9,))


def test_a_page_lists_its_sources_or_links_them() -> None:
    content = r"a [\[1\]](#source-1) b [\[3\]](#source-3)"
    listed = build_page(make_job(content, title="T"))
    assert '<sup class="cite"><a href="#source-1">[1]</a></sup>' in listed
    assert 'id="source-3"><b>[3]</b> untitled' in listed
    linked = build_page(make_job(content, sources_section=False))
    assert '<a href="https://prices.example/">[1]</a></sup> b <sup class="cite">[3]</sup>' in linked


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        '<p onclick="alert(1)">',
        '<a href="javascript:alert(1)">',
        '<a href="file:///etc/passwd">',
        '<iframe src="alert(1)"></iframe>',
        '<link rel="stylesheet" href="http://alert">',
        '<meta http-equiv="refresh" content="0;url=alert">',
        '<object data="alert"></object>',
        "<style></style><script>alert(1)</script>",
    ],
)
def test_cleaned_html_keeps_no_script_and_no_link_to_a_file(hostile: str) -> None:
    cleaned = clean_html(f"<b>text</b>{hostile}")
    assert "<b>text</b>" in cleaned
    assert "alert" not in cleaned
    assert "passwd" not in cleaned


def test_a_note_stands_at_its_first_reference() -> None:
    html = markdown_to_html("a[^x] b[^x]\n\n[^x]: a *note*\n")
    assert html.count("<em>note</em>") == 1
    assert "<sup>1</sup>" in html


def test_the_first_heading_is_the_title() -> None:
    assert find_title("text\n\n# A `code` *title*\n\n# Other") == "A code title"
    assert find_title("## Second") == ""


def test_blocks_keep_lists_tables_and_styles() -> None:
    blocks = parse_blocks("3. **a** ~~b~~\n   - c\n\n| h |\n|---|\n| x |\n\n---\n\n![d](e.png) f  \ng\n\n<i>raw</i>\n")
    kinds = [(each.kind, each.text, each.level, each.number) for each in blocks]
    assert kinds == [
        ("item", "a b", 0, 3),
        ("item", "c", 1, 0),
        ("table", "", 0, 0),
        ("rule", "", 0, 0),
        ("image", "d", 0, 0),
        ("paragraph", " f\ng", 0, 0),
        ("paragraph", "raw", 0, 0),
    ]
    assert [(run.text, run.bold, run.strike) for run in blocks[0].runs if run.text.strip()] == [
        ("a", True, False),
        ("b", False, True),
    ]


@given(st.text(alphabet="#*_-[]()!`|<>^: \n1aä", max_size=200))
def test_any_text_has_blocks_html_and_slides(text: str) -> None:
    job = make_job(text)
    assert build_page(job).startswith("<!doctype html>")
    split_slides(parse_blocks(text), job)


def test_a_heading_of_level_one_opens_and_text_before_headings_is_kept() -> None:
    deck = split_slides(parse_blocks("# T\n\na\n\n## B\n\nb\n\n# C\n"), make_job())
    titles = ["".join(run.text for run in slide.title) for slide in deck]
    assert titles == ["T", "B", "C", "Sources"]
    assert deck[0].is_opening
    (first, *_) = split_slides(parse_blocks("a\n\n## B"), make_job())
    assert [block.text for block in first.blocks] == ["a"]


def test_a_script_without_a_font_is_named_with_a_package(tmp_path: Path) -> None:
    job = make_job("日本 ferry")
    warn_about_missing_fonts(job, [str(tmp_path)])
    assert job.warnings == [
        "no font for Chinese, Japanese or Korean is installed; install fonts-noto-cjk",
        "no font for Latin, Greek or Cyrillic is installed; install fonts-dejavu-core",
    ]
    latin = make_job("ferry Ελλάδα")
    warn_about_missing_fonts(latin, FOLDERS)
    assert latin.warnings == []


def test_warnings_are_few_and_short() -> None:
    job = make_job()
    for number in range(100):
        job.warn(f"{number} " + "x" * 1000)
    assert len(job.warnings) == MAX_WARNINGS
    assert max(map(len, job.warnings)) == 200
