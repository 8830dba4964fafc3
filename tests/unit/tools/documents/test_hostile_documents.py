"""Hostile content reaches no file, no address and no script, and costs at most the limits of the sandbox."""

import socket
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.documents import DocumentHarness, open_document_harness, open_pdf, pages_of
from tests.harness.exec import PlainSandbox
from timeloom.core.codes import CodedError
from timeloom.ports.sandbox import MIB, ExecutionLimits
from timeloom.sandbox.local.sandbox import LocalSandbox
from timeloom.sandbox.local.settings import LocalSettings
from timeloom.tools.documents.references import find_references
from timeloom.tools.documents.renderer import RenderJob, render_document

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

HOSTILE = """
<script>document.write("scripted")</script>
<style>@import url(http://127.0.0.1:{port}/a.css); body {{ background: url(file:///etc/passwd) }}</style>
<h1 onclick="steal()">Report</h1>
<img src="file:///etc/passwd"><img src="http://127.0.0.1:{port}/b.png"><img src="../../../etc/hostname">
<iframe src="http://127.0.0.1:{port}/c"></iframe><object data="file:///etc/passwd"></object>
<a rel="attachment" href="file:///etc/passwd">attached</a><link rel="stylesheet" href="http://127.0.0.1:{port}/d.css">
<svg><image href="file:///etc/passwd"/></svg>
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def documents(tmp_path: Path) -> AsyncGenerator[DocumentHarness]:
    async with open_document_harness(tmp_path / "out") as harness:
        yield harness


@pytest.mark.parametrize(("tool", "format"), [("pdf", "html"), ("pdf", "markdown"), ("png", "html"), ("docx", "")])
async def test_hostile_content_reaches_nothing(documents: DocumentHarness, tool: str, format: str) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.setblocking(False)
        content = HOSTILE.format(port=server.getsockname()[1]).replace("../../../etc/hostname", "data:,x")
        outcome = await documents.write(tool, content, "x", **({"format": format} if format else {}))
        assert outcome.error is None
        with pytest.raises(BlockingIOError):
            server.accept()
    data = documents.file(f"turn_1/files/x.{tool}").read_bytes()
    assert b"root:" not in data
    if tool == "pdf":
        document = open_pdf(data)
        text = "".join(pages_of(data))
        assert "Report" in text
        assert "scripted" not in text
        assert document.count_attachments() == 0
        document.close()
        assert {notice.code for notice in outcome.notices} == {"tool_call_warning.document_incomplete"}


async def test_a_path_out_of_the_conversation_is_a_missing_file(documents: DocumentHarness) -> None:
    outcome = await documents.write("pdf", "![x](../../../etc/hostname)", "x.pdf")
    assert outcome.error is not None
    assert outcome.error.code == "tool_call_error.missing_assets"


async def test_a_picture_without_its_content_type_is_not_drawn(documents: DocumentHarness) -> None:
    documents.file("turn_1/files").mkdir(parents=True)
    documents.file("turn_1/files/a.png").write_bytes(b"no picture")
    for tool in ("pdf", "docx", "pptx"):
        outcome = await documents.write(tool, "Text\n\n![a](files/a.png)", "x")
        assert outcome.error is None


@pytest.mark.parametrize(
    "limits", [ExecutionLimits(wall_s=2), ExecutionLimits(cpu_s=1), ExecutionLimits(memory_bytes=150 * MIB)]
)
async def test_a_huge_table_ends_at_the_limits(limits: ExecutionLimits) -> None:
    content = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 200_000
    sandbox = LocalSandbox(LocalSettings(warm=0))
    try:
        with pytest.raises(CodedError) as caught:
            await render_document(RenderJob(kind="pdf", format="markdown", content=content), {}, sandbox, "t", limits)
    finally:
        await sandbox.close()
    assert caught.value.code in ("execution_limit", "tool_result_error")


@pytest.mark.parametrize(
    ("name", "data"),
    [("result", None), ("result", b""), ("result", b"%PD"), ("report.json", None), ("report.json", b"[")],
)
async def test_a_result_that_is_missing_or_of_another_type_is_an_error(name: str, data: bytes | None) -> None:
    def spoil(folder: Path) -> None:
        (folder / name).unlink() if data is None else (folder / name).write_bytes(data)

    job = RenderJob(kind="pdf", format="markdown", content="text")
    with pytest.raises(CodedError) as caught:
        await render_document(job, {}, PlainSandbox(spoil), "t")
    assert caught.value.code == "tool_result_error"


async def test_a_link_in_place_of_the_result_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.pdf"
    secret.write_bytes(b"%PDF-1.7 secret")

    def link(folder: Path) -> None:
        (folder / "result").unlink()
        (folder / "result").symlink_to(secret)

    job = RenderJob(kind="pdf", format="markdown", content="text")
    with pytest.raises(CodedError, match="no valid PDF"):
        await render_document(job, {}, PlainSandbox(link), "t")


def test_references_are_what_a_document_shows_or_links() -> None:
    content = (
        "![a](a.png) ![b](<b c.png>) [l](other.md) [t](t3/files/d.csv) ![w](https://x.example/a.png) "
        "![d](data:image/png)"
        "<img src='e.png'> <a href=\"fi:turn_1.files/f.csv\"> <a href='page.html'> url(g.png) turn_1/files/prose.md"
    )
    assert list(find_references(content)) == [
        *("a.png", "b c.png", "t3/files/d.csv", "e.png", "fi:turn_1.files/f.csv", "g.png")
    ]
    assert len(list(find_references("[" * 100_000 + "![](" * 100_000 + 'src="' * 100_000))) < 3
