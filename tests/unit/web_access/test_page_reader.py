"""A page is read into text, or has a state that says why not."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Mapping

import pytest

from tests.harness.context import ManualClock
from tests.unit.web_access.web_harness import Answer, FixedResolver, always, reply, web_server
from timeloom.platform.worker_pool import WorkerLimits, WorkerPool
from timeloom.ports.web import WebPage
from timeloom.web_access.download import Downloader, DownloadLimits
from timeloom.web_access.page_reader import EXTRACT_LIMITS, EXTRACT_WORKER, PageReader
from timeloom.web_access.robots import Robots
from timeloom.web_access.web_address import AllowedHosts

ARTICLE = """<!doctype html><html lang=en><head><title>Rain in Bergen</title>
<meta property="article:published_time" content="2024-03-05T10:00:00Z"><meta name=dateModified content="2024-04-01">
<link rel=canonical href="/rain"><link rel="icon" href="/i.png"></head><body><nav><a href=/>Home</a></nav><article>
<h1>Rain in Bergen</h1><p>It rained for many days in Bergen last year, and this text says how much water fell.</p>
<h2>Numbers</h2><table><tr><th>Month</th><th>mm</th></tr><tr><td>May</td><td>120</td></tr></table>
<p>The wettest month of all was the month of December, in which it rained every single day.</p>
</article><footer>Cookies</footer></body></html>"""


def read(
    answer: Answer, target: str = "/rain?x=1", *, robots: bool = False, limits: WorkerLimits = EXTRACT_LIMITS
) -> WebPage:
    async def use(reader: PageReader, base: str) -> WebPage:
        return await reader.fetch(base + target, "acme")

    return with_reader(answer, use, robots=robots, limits=limits)


def with_reader(
    answer: Answer,
    use: Callable[[PageReader, str], Awaitable[WebPage]],
    *,
    clock: ManualClock | None = None,
    robots: bool = False,
    limits: WorkerLimits = EXTRACT_LIMITS,
) -> WebPage:
    async def run() -> WebPage:
        async with web_server(answer) as port, WorkerPool(EXTRACT_WORKER, limits) as workers:
            resolver = FixedResolver({"site.example": [["127.0.0.1"]], "other.example": [["127.0.0.1"]]})
            allowed = AllowedHosts([f"site.example:{port}", f"other.example:{port}"])
            limits_ = DownloadLimits(total_s=10, wire_bytes=200_000)
            async with Downloader(resolve=resolver, allowed=allowed, limits=limits_) as downloader:
                asked = Robots(downloader, ManualClock()) if robots else None
                reader = PageReader(downloader, workers, clock or ManualClock(), robots=asked, max_pages=2)
                return await use(reader, f"http://site.example:{port}")

    return asyncio.run(run())


def make_pdf(pages: int) -> bytes:
    """Return a PDF file whose pages have one line of text each."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(pages))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for at in range(pages):
        content = f"BT /F1 24 Tf 72 700 Td (Line of page {at + 1}) Tj ET".encode()
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            + f"/Contents {5 + 2 * at} 0 R >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content))
    objects.append(b"<< /Title (Report) /CreationDate (D:20240305101500+01'00') >>")
    out, offsets = io.BytesIO(), list[int]()
    out.write(b"%PDF-1.4\n")
    for number, body in enumerate(objects, 1):
        offsets.append(out.tell())
        out.write(b"%d 0 obj\n%b\nendobj\n" % (number, body))
    start = out.tell()
    rows = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\n" % (len(objects) + 1, len(objects))
    out.write(b"xref\n0 %d\n0000000000 65535 f \n%b%bstartxref\n%d\n%%%%EOF" % (len(objects) + 1, rows, trailer, start))
    return out.getvalue()


def test_the_main_text_of_a_page_comes_as_markdown_with_what_its_head_says() -> None:
    page = read(always(reply(ARTICLE, cache_control="no-store")))
    assert page.state == "ok"
    assert page.title == "Rain in Bergen"
    assert "## Numbers" in page.text
    assert "| May | 120 |" in page.text
    assert "Cookies" not in page.text
    assert (page.published_time_iso, page.modified_time_iso) == ("2024-03-05T10:00:00Z", "2024-04-01")
    assert page.canonical_url.endswith("/rain")
    assert page.favicon.endswith("/i.png")
    assert page.fetched_time_iso
    assert (page.mime, page.size_bytes) == ("text/html", len(ARTICLE))


def test_a_page_that_says_no_date_has_none() -> None:
    plain = ARTICLE.replace("article:published_time", "x").replace("dateModified", "y")
    page = read(always(reply(plain.replace("<p>It", "<p>On March 3, 2021, it"))))
    assert (page.published_time_iso, page.modified_time_iso) == ("", "")


def test_the_text_of_a_pdf_file_has_its_page_numbers() -> None:
    page = read(always(reply(make_pdf(2), content_type="application/octet-stream")))
    assert (page.state, page.title, page.pages, page.is_cut) == ("ok", "Report", 2, False)
    assert page.text == "[page 1]\nLine of page 1\n\n[page 2]\nLine of page 2"
    assert page.published_time_iso == "2024-03-05T10:15:00+01:00"


def test_pages_of_a_pdf_file_beyond_the_limit_are_left_out() -> None:
    page = read(always(reply(make_pdf(3), content_type="application/pdf")))
    assert (page.pages, page.is_cut, "page 3" in page.text) == (3, True, False)


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        (reply("x", "404 Not Found"), "not_found"),
        (reply("x", "410 Gone"), "not_found"),
        (reply("x", "402 Payment Required"), "paywall"),
        (reply("x", "403 Forbidden"), "blocked"),
        (reply("x", "500 Oops"), "blocked"),
        (reply(b"\x89PNG", content_type="image/png"), "not_text"),
        (reply(b"%PDF-1.4 nonsense", content_type="application/pdf"), "not_text"),
        (reply("<html><body></body></html>"), "not_text"),
        (reply("x" * 200_001), "too_large"),
        (reply("x", content_encoding="br"), "not_text"),
        (b"nonsense", "not_found"),
        (reply(ARTICLE.replace("</head>", '<script>{"isAccessibleForFree": false}</script></head>')), "paywall"),
        (reply(status="302 Found", location="http://10.0.0.1/"), "refused"),
        (reply(status="302 Found", location="/rain?x=1"), "redirected_away"),
    ],
)
def test_each_failure_has_a_state_and_a_reason(raw: bytes, state: str) -> None:
    page = read(always(raw))
    assert page.state == state
    assert page.reason


def test_a_redirect_to_a_start_page_leads_away() -> None:
    def answer(target: str, _: Mapping[str, str]) -> bytes:
        return reply(ARTICLE) if target == "/" else reply(status="301 Moved", location="/")

    assert read(answer).state == "redirected_away"


def test_a_page_cannot_call_itself_a_page_of_another_site() -> None:
    page = read(always(reply(ARTICLE.replace("/rain", "https://bank.example/login"))))
    assert (page.state, page.canonical_url) == ("ok", "")


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        ("Käse".encode("cp1252"), "text/plain; charset=ISO-8859-1", "Käse"),
        ("Käse".encode(), "text/plain", "Käse"),
        ("Käse".encode("cp1252"), "text/plain", "Käse"),
        ("\ufeffKäse".encode(), "text/plain; charset=latin1", "Käse"),
        ("Käse".encode("utf-16"), "text/plain", "Käse"),
        (b"K+AOQ-se", "text/plain; charset=utf-7", "K+AOQ-se"),
        (b"Kse-jia", "text/plain; charset=punycode", "Kse-jia"),
        (b"4b", "text/plain; charset=hex", "4b"),
        (b'{"a": 1}', "application/json", '{"a": 1}'),
        (b"<a>x</a>", "application/rss+xml", "<a>x</a>"),
        ("чай".encode("koi8-r"), 'text/plain; charset="koi8-r"', "чай"),
    ],
)
def test_text_is_decoded_as_browsers_decode_it(body: bytes, content_type: str, expected: str) -> None:
    assert read(always(reply(body, content_type=content_type))).text == expected


def test_a_page_that_exceeds_the_worker_costs_that_page_alone() -> None:
    async def use(reader: PageReader, base: str) -> WebPage:
        failed = await reader.fetch(f"{base}/deep", "acme")
        assert failed.state in ("not_text", "ok")
        return await reader.fetch(f"{base}/rain", "acme")

    def answer(target: str, _: Mapping[str, str]) -> bytes:
        return reply("<div>" * 39_000 if target == "/deep" else ARTICLE)

    assert with_reader(answer, use).state == "ok"


def test_a_worker_that_takes_too_long_is_ended() -> None:
    page = read(always(reply(ARTICLE)), limits=WorkerLimits(request_s=0.001, memory_bytes=0))
    assert (page.state, "timeout" in page.reason) == ("not_text", True)


def test_known_pages_are_used_while_fresh_and_revalidated_afterwards() -> None:
    asked: list[str] = []

    def answer(_: str, headers: Mapping[str, str]) -> bytes:
        asked.append(headers.get("if-none-match", ""))
        if headers.get("if-none-match"):
            return reply(status="304 Not Modified", cache_control="max-age=60")
        return reply(ARTICLE, etag='"1"', cache_control="max-age=60")

    clock = ManualClock()

    async def use(reader: PageReader, base: str) -> WebPage:
        first = await reader.fetch(f"{base}/rain", "acme")
        assert await reader.fetch(f"{base}/rain", "acme") == first
        assert (await reader.fetch(f"{base}/rain", "other")).state == "ok"
        clock.advance(61)
        again = await reader.fetch(f"{base}/rain", "acme")
        assert again.text == first.text
        assert again.fetched_time_iso > first.fetched_time_iso
        return await reader.fetch(f"{base}/rain", "acme")

    assert with_reader(answer, use, clock=clock).state == "ok"
    assert asked == ["", "", '"1"']


@pytest.mark.parametrize(
    ("rules", "state"),
    [
        (reply("User-agent: *\nDisallow: /rain"), "robots"),
        (reply("User-agent: timeloom\nDisallow: /*?x="), "robots"),
        (reply("User-agent: other\nDisallow: /"), "ok"),
        (reply("User-agent: *\nDisallow: /\n\nUser-agent: timeloom\nAllow: /"), "ok"),
        (reply("no", "404 Not Found"), "ok"),
        (reply("no", "503 Busy"), "robots"),
        (b"nonsense", "ok"),
    ],
)
def test_the_rules_of_a_site_are_followed(rules: bytes, state: str) -> None:
    asked: list[str] = []

    def answer(target: str, _: Mapping[str, str]) -> bytes:
        asked.append(target)
        return rules if target == "/robots.txt" else reply(ARTICLE)

    async def use(reader: PageReader, base: str) -> WebPage:
        pages = await asyncio.gather(*(reader.fetch(f"{base}/rain?x={at}", "acme") for at in range(3)))
        assert {page.state for page in pages} == {state}
        return pages[0]

    with_reader(answer, use, robots=True)
    assert asked.count("/robots.txt") == 1


def test_the_rules_of_the_site_that_a_redirect_names_are_followed() -> None:
    def answer(target: str, headers: Mapping[str, str]) -> bytes:
        if target == "/robots.txt":
            return reply("User-agent: *\nDisallow: /secret") if "other" in headers["host"] else reply("")
        port = headers["host"].rpartition(":")[2]
        return reply(status="302 Found", location=f"http://other.example:{port}/secret")

    assert read(answer, robots=True).state == "robots"
