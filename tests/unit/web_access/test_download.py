"""A download is bounded in time, size and redirects, and says why it failed."""

import asyncio
import gzip
import zlib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.web_access.web_harness import Answer, FixedResolver, always, reply, web_server
from timeloom.web_access.decompress import BodyDamagedError, BodyDecoder, BodyTooLargeError
from timeloom.web_access.download import Download, Downloader, DownloadError, DownloadLimits
from timeloom.web_access.web_address import AllowedHosts

SMALL = DownloadLimits(total_s=5, wire_bytes=2_000, body_bytes=5_000, redirects=2)


def get(answer: Answer, target: str = "/", limits: DownloadLimits = SMALL) -> Download:
    async def run() -> Download:
        async with web_server(answer) as port:
            resolver = FixedResolver({"site.example": [["127.0.0.1"]]})
            allowed = AllowedHosts([f"site.example:{port}"])
            async with Downloader(resolve=resolver, allowed=allowed, limits=limits) as downloader:
                return await downloader.get(f"http://site.example:{port}{target}", {"if-none-match": '"1"'})

    return asyncio.run(run())


def failure(answer: Answer, target: str = "/", limits: DownloadLimits = SMALL) -> str:
    with pytest.raises(DownloadError) as raised:
        get(answer, target, limits)
    return raised.value.failure


def test_a_page_comes_with_its_status_headers_and_body() -> None:
    page = get(lambda _, headers: reply(headers["if-none-match"], "404 Not Found", etag='"2"'))
    assert (page.status, page.headers["etag"], page.body, page.redirects) == (404, '"2"', b'"1"', ())


def test_redirects_are_followed_and_listed() -> None:
    def answer(target: str, _: Mapping[str, str]) -> bytes:
        return reply(status="301 Moved", location="b?c=1") if target == "/a/a" else reply(target)

    page = get(answer, "/a/a")
    assert (page.address.target, page.body) == ("/a/b?c=1", b"/a/b?c=1")
    assert [url.rpartition("/")[2] for url in page.redirects] == ["a"]


def test_a_redirect_in_utf_8_reaches_its_page() -> None:
    def answer(target: str, _: Mapping[str, str]) -> bytes:
        return reply(status="302 Found", location="/ü".encode().decode("latin-1")) if target == "/" else reply(target)

    assert get(answer).body == b"/%C3%BC"


def test_endless_redirects_end() -> None:
    assert failure(always(reply(status="302 Found", location="/"))) == "too_many_redirects"


def test_the_body_of_a_redirect_is_not_read() -> None:
    def answer(target: str, _: Mapping[str, str]) -> bytes:
        return reply(b"x" * 9_000, "302 Found", location="/b") if target == "/" else reply("b")

    assert get(answer).body == b"b"


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "raw", "identity", "gzip, gzip"])
def test_bodies_are_decompressed(encoding: str) -> None:
    text = b"text " * 99
    raw = zlib.compressobj(wbits=-15)
    body = {
        "deflate": zlib.compress(text),
        "raw": raw.compress(text) + raw.flush(),
        "identity": text,
        "gzip, gzip": gzip.compress(gzip.compress(text)),
    }.get(encoding, gzip.compress(text))
    name = "deflate" if encoding == "raw" else encoding
    assert get(always(reply(body, content_encoding=name))).body == text


@pytest.mark.parametrize(
    "answer",
    [
        always(reply(b"x" * 2_001)),
        always(reply(b"x", content_length="99999999999999999999")),
        always(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 9_000),
        always(reply(gzip.compress(b"x" * 5_001), content_encoding="gzip")),
        always(reply(gzip.compress(gzip.compress(b"x" * 99_999_999)), content_encoding="gzip, gzip")),
    ],
)
def test_bodies_over_a_limit_are_too_large(answer: Answer) -> None:
    assert failure(answer) == "too_large"


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"text", "gzip"),
        (gzip.compress(b"text" * 99, mtime=0)[:-12], "gzip"),
        (b"x", "gzip"),
        (b"x", "br"),
        (b"x", "gzip, gzip, gzip"),
        (gzip.compress(b"text", mtime=0) + b"rest", "gzip"),
    ],
)
def test_damaged_and_unknown_encodings_are_damaged(body: bytes, encoding: str) -> None:
    assert failure(always(reply(body, content_encoding=encoding))) == "damaged"


@pytest.mark.parametrize(
    "raw", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", b"HTTP/1.1 200"]
)
def test_broken_responses_are_unreachable(raw: bytes) -> None:
    assert failure(always(raw)) == "unreachable"


def test_a_silent_server_ends_in_a_timeout() -> None:
    assert failure(always(None), limits=DownloadLimits(total_s=0.05)) == "timeout"


def test_a_name_without_an_address_is_unreachable() -> None:
    async def check() -> None:
        async with Downloader(resolve=FixedResolver({})) as downloader:
            for url in ("http://nowhere.example/", f"http://{'a' * 64}.example/"):
                with pytest.raises(DownloadError) as raised:
                    await downloader.get(url)
                assert raised.value.failure == "unreachable"

    asyncio.run(check())


@given(st.binary(max_size=400), st.lists(st.integers(1, 40)), st.sampled_from(["gzip", "zlib", "raw", "members"]))
def test_the_cut_of_a_compressed_body_does_not_matter(text: bytes, cuts: list[int], form: str) -> None:
    raw = zlib.compressobj(wbits=-15)
    body = {
        "gzip": gzip.compress(text),
        "zlib": zlib.compress(text),
        "raw": raw.compress(text) + raw.flush(),
        "members": gzip.compress(text[:50]) + gzip.compress(text[50:]) + b"\0\0",
    }[form]
    decoder, decoded = BodyDecoder("gzip", 1_000), b""
    for cut in [*cuts, len(body)]:
        decoded += decoder.feed(body[:cut])
        body = body[cut:]
    decoder.close()
    assert decoded == text


@given(st.binary(max_size=99))
def test_any_bytes_decode_or_are_damaged_or_too_large(body: bytes) -> None:
    decoder = BodyDecoder("gzip", 1_000)
    try:
        decoder.feed(body)
        decoder.close()
    except (BodyDamagedError, BodyTooLargeError):
        pass
