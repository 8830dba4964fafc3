"""The document tools write files that their readers open, from text, sources and files of the conversation."""

import base64
import ctypes
import io
from collections.abc import AsyncGenerator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops

from tests.harness.documents import (
    DocumentHarness,
    make_png,
    open_document_harness,
    open_docx,
    open_pdf,
    open_pptx,
    pages_of,
)
from tests.harness.react_tools import T2
from timeloom.core.ids import TurnId
from timeloom.ports.tool import Outcome

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

REFERENCE = Path(__file__).parents[3] / "golden" / "documents" / "report.png"

IMAGE = 3
"""The number of pictures among the objects of a page, `FPDF_PAGEOBJ_IMAGE`."""

REPORT = """# Ferries

Fares rose[[S:2]], and dogs ride free[[S:1,2]].[^1] A note says so[[S:3]]. Unknown: [[S:9]].

## Fares

1. Adults pay **28 euros**
2. Children pay *half*
   - below six nothing

| Route | Fare |
|---|---|
| Norddeich | 28 € |

```python
print("a line of code " * 20)
```

> A quotation.

[^1]: On a leash.
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def documents(tmp_path: Path) -> AsyncGenerator[DocumentHarness]:
    async with open_document_harness(tmp_path / "out") as harness:
        yield harness


def links_of(data: object) -> list[bytes]:
    """Return the addresses that the first page links, each once."""
    document, raw = open_pdf(data), import_module("pypdfium2.raw")
    page: Any = document[0]
    found: dict[bytes, None] = {}
    place, link = ctypes.c_int(0), raw.FPDF_LINK()
    while raw.FPDFLink_Enumerate(page, ctypes.byref(place), ctypes.byref(link)):
        buffer = ctypes.create_string_buffer(1000)
        action = raw.FPDFLink_GetAction(link)
        if action and raw.FPDFAction_GetURIPath(document, action, buffer, len(buffer)):
            found[buffer.value] = None
    document.close()
    return list(found)


def error_of(outcome: Outcome) -> tuple[str, str]:
    assert outcome.error is not None
    return outcome.error.code, outcome.error.message


async def test_a_pdf_has_its_text_notes_and_sources(documents: DocumentHarness) -> None:
    outcome = await documents.write("pdf", REPORT, "files/report")
    assert outcome.error is None
    (artifact,) = outcome.artifacts
    assert (artifact.path, artifact.physical_path) == ("fi:turn_1.files/report.pdf", "turn_1/files/report.pdf")
    assert (artifact.mime, artifact.kind, artifact.visibility) == ("application/pdf", "file", "external")
    assert artifact.sources_used == (2, 1, 3)
    assert artifact.data == documents.file("turn_1/files/report.pdf").read_bytes()
    assert [notice.code for notice in outcome.notices] == ["tool_call_warning.missing_sources"]
    (text,) = pages_of(artifact.data)
    assert "1 / 1" in text
    assert "On a leash" in text
    sources = text.partition("Sources")[2]
    assert sources.index("[2] Ferries & ports") < sources.index("[1] Prices") < sources.index("[3] A note")
    assert sources.count("[2]") == 1
    assert "[[S:9]]" in text


async def test_a_pdf_without_its_list_links_sources_themselves(documents: DocumentHarness) -> None:
    outcome = await documents.write("pdf", REPORT, "report.pdf", include_sources_section=False, title="Ferry fares")
    (text,) = pages_of(outcome.artifacts[0].data)
    assert text.startswith("Ferry fares")
    assert "Sources" not in text
    assert links_of(outcome.artifacts[0].data) == [b"https://ferries.example/", b"https://prices.example/a?b=c&d=e"]


async def test_a_landscape_pdf_repeats_the_head_of_its_table(documents: DocumentHarness) -> None:
    rows = "".join(f"| {n} | x |\n" for n in range(80))
    outcome = await documents.write("pdf", f"| Number | Mark |\n|---|---|\n{rows}", "t.pdf", landscape=True)
    data = outcome.artifacts[0].data
    texts = pages_of(data)
    assert len(texts) > 2
    assert all("Number" in text for text in texts)
    width, height = open_pdf(data)[0].get_size()
    assert width > height


async def test_html_becomes_a_pdf_with_citations(documents: DocumentHarness) -> None:
    outcome = await documents.write("pdf", "<h1>Fares</h1><p>They rose [[S:1]].</p>", "f.pdf", format="html")
    (text,) = pages_of(outcome.artifacts[0].data)
    assert "They rose [1]" in text
    assert "[1] Prices" in text


async def test_a_page_looks_like_its_reference(documents: DocumentHarness) -> None:
    outcome = await documents.write("pdf", REPORT, "report.pdf")
    page: Image.Image = open_pdf(outcome.artifacts[0].data)[0].render(scale=0.5).to_pil().convert("L")
    reference = Image.open(REFERENCE).convert("L")
    assert page.size == reference.size
    # The mean difference of blurred pixels: another version of a library moves glyphs a little.
    small = [image.resize((page.width // 8, page.height // 8)) for image in (page, reference)]
    difference = ImageChops.difference(*small).histogram()
    assert sum(value * count for value, count in enumerate(difference)) / sum(difference) < 4


async def test_a_docx_has_headings_tables_links_and_sources(documents: DocumentHarness) -> None:
    outcome = await documents.write("docx", REPORT, "report.docx", title="All fares")
    (artifact,) = outcome.artifacts
    assert outcome.error is None
    assert artifact.data is None
    assert artifact.mime.endswith("wordprocessingml.document")
    document = open_docx(documents.file("turn_1/files/report.docx"))
    headings = [each.text for each in document.paragraphs if each.style and each.style.name.startswith("Heading")]
    assert headings == ["All fares", "Ferries", "Fares", "Notes", "Sources"]
    assert [cell.text for cell in document.tables[0].rows[1].cells] == ["Norddeich", "28 €"]
    assert "w:tblHeader" in document.tables[0].rows[0]._tr.xml
    xml = document.element.xml
    assert 'w:anchor="source-2"' in xml
    assert 'w:name="source-2"' in xml
    targets = [each.target_ref for each in document.part.rels.values() if each.is_external]
    assert "https://ferries.example/" in targets


async def test_slides_follow_the_headings(documents: DocumentHarness) -> None:
    content = (
        "# Ferries\n\nAn overview\n\n## Fares\n\n- 28 euros[[S:1]]\n\n## Table\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    outcome = await documents.write("pptx", content, "talk.pptx")
    assert outcome.error is None
    deck = open_pptx(documents.file("turn_1/files/talk.pptx"))
    titles = [slide.shapes.title.text_frame.text for slide in deck.slides if slide.shapes.title is not None]
    assert titles == ["Ferries", "Fares", "Table", "Sources"]
    assert round(deck.slide_width / deck.slide_height, 2) == 1.78
    assert any(shape.has_table for shape in deck.slides[2].shapes)


async def test_text_and_rows_that_do_not_fit_continue_on_the_next_slide(documents: DocumentHarness) -> None:
    rows = "".join(f"| {n} | x |\n" for n in range(60))
    items = "".join(f"- item {n}\n" for n in range(40))
    content = f"## Items\n\n{items}\n## Rows\n\n| n | x |\n|---|---|\n{rows}\n## Text\n\n{'long ' * 2000}"
    await documents.write("pptx", content, "talk.pptx")
    deck = open_pptx(documents.file("turn_1/files/talk.pptx"))
    assert len(deck.slides) > 6
    for slide in deck.slides:
        assert all(shape.top + shape.height <= deck.slide_height for shape in slide.shapes if shape.has_text_frame)
    texts = [shape.text_frame.text for slide in deck.slides for shape in slide.shapes if shape.has_text_frame]
    assert any("item 39" in text for text in texts)


async def test_html_and_svg_become_pictures(documents: DocumentHarness) -> None:
    html = await documents.write("png", "<div style='height:100px'>Card</div>", "card.png", width=300, scale=2)
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20"><rect width="40" height="20" fill="#f00"/></svg>'
    drawn = await documents.write("png", svg, "red.png", format="svg", width=200, scale=1)
    assert isinstance(html.artifacts[0].data, bytes)
    assert isinstance(drawn.artifacts[0].data, bytes)
    assert Image.open(io.BytesIO(html.artifacts[0].data)).size == (600, 296)
    red = Image.open(io.BytesIO(drawn.artifacts[0].data)).convert("RGB")
    assert red.size == (200, 100)
    assert red.getpixel((100, 50)) == (255, 0, 0)


async def test_files_of_other_turns_and_attachments_are_pulled(documents: DocumentHarness, tmp_path: Path) -> None:
    await documents.stage.attach("photo one.png", "image/png", make_png(tmp_path / "a.png"), turn=TurnId("turn_1"))
    make_png(documents.file("turn_2/files/chart.png"))
    content = (
        "![a](<turn_1/attachments/photo one.png>) ![b](files/chart.png)\n\n![c](turn_1/attachments/photo%20one.png)"
    )
    for tool in ("pdf", "docx", "pptx"):
        context = documents.stage.context(T2)
        outcome = await documents.write_in(context, tool, content, "album")
        assert (outcome.error, outcome.notices) == (None, ())
    assert len(open_docx(documents.file("turn_2/files/album.docx")).inline_shapes) == 3
    data = documents.file("turn_2/files/album.pdf").read_bytes()
    images = open_pdf(data)[0].get_objects(filter=[IMAGE])
    assert len(list(images)) == 3


async def test_a_picture_in_the_text_is_drawn(documents: DocumentHarness, tmp_path: Path) -> None:
    encoded = base64.b64encode(make_png(tmp_path / "a.png")).decode()
    content = f"![a](data:image/png;base64,{encoded})\n\n![b](data:image/png;base64,x)"
    outcome = await documents.write("docx", content, "a.docx")
    assert len(open_docx(documents.file("turn_1/files/a.docx")).inline_shapes) == 1
    assert [notice.code for notice in outcome.notices] == ["tool_call_warning.document_incomplete"]
    drawn = await documents.write("pdf", content, "a.pdf")
    images = open_pdf(drawn.artifacts[0].data)[0].get_objects(filter=[IMAGE])
    assert len(list(images)) == 1


async def test_missing_files_are_an_error_that_names_them(documents: DocumentHarness) -> None:
    content = "![a](turn_1/files/none.png) [data](turn_1/files/data.csv) ![c](chart.png) [page](https://a.example/x)"
    outcome = await documents.write("pdf", content, "a.pdf")
    code, message = error_of(outcome)
    assert code == "tool_call_error.missing_assets"
    assert "turn_1/files/none.png, turn_1/files/data.csv, chart.png;" in message
    assert not documents.file("turn_1/files/a.pdf").exists()
    assert [each.error for each in outcome.artifacts] == [outcome.error]


@pytest.mark.parametrize(
    ("tool", "content", "path", "code"),
    [
        ("pdf", "  \n ", "a.pdf", "tool_result_error"),
        ("pdf", "text", "a.docx", "tool_params_invalid"),
        ("pdf", "text", "turn_1/attachments/a.pdf", "path_read_only"),
        ("pptx", "***", "a.pptx", "tool_result_error"),
        ("png", "", "a.png", "tool_params_invalid"),
    ],
)
async def test_what_makes_no_document_is_an_error(
    documents: DocumentHarness, tool: str, content: str, path: str, code: str
) -> None:
    assert error_of(await documents.write(tool, content, path))[0] == code
