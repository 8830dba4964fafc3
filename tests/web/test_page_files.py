"""Files that an agent makes, each shown as its type is best looked at, beside the chat and while it is written."""

import re

from playwright.sync_api import Locator, expect

from tests.harness.replies import answers, calls, slow_reply
from tests.web.web_harness import PageVisit, conversation_script, title_reply

PROGRAM = """<channel:code>
import struct, zlib

def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))

rows = b''.join(b'\\0' + bytes((79, 70, 229)) * 40 for _ in range(20))
png = b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 40, 20, 8, 2, 0, 0, 0))
(OUT_DIR / 'chart.png').write_bytes(png + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))

words = b'BT /F1 24 Tf 40 100 Td (Fares of the islands) Tj ET'
objects = [
    b'<< /Type /Catalog /Pages 2 0 R /OpenAction << /S /JavaScript /JS (app.alert\\\\(1\\\\)) >> >>',
    b'<< /Type /Pages /Kids [3 0 R 3 0 R] /Count 2 >>',
    b'<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
    b'<< /Length %d >>\\nstream\\n%s\\nendstream' % (len(words), words),
    b'<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
]
pdf, places = b'%PDF-1.4\\n', []
for n, each in enumerate(objects, 1):
    places.append(len(pdf))
    pdf += b'%d 0 obj\\n%s\\nendobj\\n' % (n, each)
table = b''.join(b'%010d 00000 n \\n' % at for at in places)
end = b'trailer << /Size 6 /Root 1 0 R >>\\nstartxref\\n%d\\n%%%%EOF' % len(pdf)
(OUT_DIR / 'report.pdf').write_bytes(pdf + b'xref\\n0 6\\n0000000000 65535 f \\n' + table + end)
</channel:code>"""
NOTES = "# Notes\n\n" + "The ferry leaves at **nine**.\n\n" * 30

WIDTH = 1440

PLAYS = (
    conversation_script(
        "make",
        calls("exec_tools.execute_code_python", contract=[{"filename": "report.pdf"}, {"filename": "chart.png"}])
        + PROGRAM,
        calls("react.write", path="fares.json", content='{"morning": [12.5, null]}'),
        calls("react.write", path="fares.py", content="def fare(trips):\n    return 12.5 * trips\n"),
        answers("All made."),
        title_reply("Files"),
    ),
    conversation_script(
        "write",
        slow_reply(calls("react.write", path="notes.md", content=NOTES), delay_ms=40),
        answers("Written."),
        title_reply("Notes"),
    ),
)


def test_every_type_is_shown_as_it_is_best_looked_at(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("Please make files.")
    expect(page.get_by_text("All made.")).to_be_visible()
    page.get_by_role("button", name=re.compile("^report.pdf")).click()
    panel = page.get_by_role("complementary", name="Files")
    sheets = panel.get_by_role("img", name=re.compile(r"page \d: Fares of the islands"))
    expect(sheets).to_have_count(2)
    assert drawn(sheets.first)
    expect(panel.get_by_role("button", name="Source")).to_have_count(0)
    with page.expect_download() as kept:
        panel.get_by_role("link", name="Download").click()
    assert kept.value.path().read_bytes().startswith(b"%PDF-1.4")

    page.get_by_role("button", name=re.compile("^chart.png")).click()
    picture = panel.get_by_role("img", name="chart.png")
    expect(picture).to_be_visible()
    expect(picture).to_have_js_property("naturalWidth", 40)

    page.get_by_role("button", name=re.compile("^fares.json")).click()
    expect(panel.locator("pre [class^=tk-]").first).to_be_visible()
    expect(panel.locator("pre")).to_contain_text('"morning"')

    page.get_by_role("button", name=re.compile("^fares.py")).click()
    expect(panel.locator("pre [class^=tk-keyword]").first).to_have_text("def")
    panel.get_by_role("button", name="All files").click()
    expect(panel.get_by_role("listitem")).to_have_count(4)


def test_a_file_is_seen_beside_the_chat_while_it_is_written(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("Please write notes.")
    panel = page.get_by_role("complementary", name="Files")
    expect(panel.get_by_role("region", name="File in progress")).to_contain_text("The ferry leaves")
    expect(page.get_by_text("Written.")).to_be_hidden()
    expect(panel.get_by_role("heading", name="Notes")).to_be_visible()
    expect(page.get_by_text("Written.")).to_be_visible()
    chat, beside = page.locator(".message-list").bounding_box(), panel.bounding_box()
    assert chat
    assert beside
    assert chat["x"] + chat["width"] <= beside["x"]


def drawn(canvas: Locator) -> bool:
    """Whether there is ink on it."""
    return canvas.evaluate(
        """(canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
            .some((value, at) => at % 4 === 0 && value < 100)"""
    )
