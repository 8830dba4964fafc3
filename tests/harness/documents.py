"""Harness for the document tools: one sandbox of this machine, and calls that render in it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from PIL import Image

from tests.harness.react_tools import ToolHarness, open_tool_harness
from timeloom.core.blocks import SourcesAdded
from timeloom.core.ids import CallId
from timeloom.core.sources import SourceRow
from timeloom.ports.sandbox import Sandbox
from timeloom.ports.tool import Outcome, ToolContext
from timeloom.sandbox.local.sandbox import LocalSandbox
from timeloom.sandbox.local.settings import LocalSettings
from timeloom.tools.documents.tools import make_document_tools
from timeloom.tools.registry import ToolRegistry

ROWS = (
    SourceRow(sid=1, title="Prices", url="https://prices.example/a?b=c&d=e"),
    SourceRow(sid=2, title="Ferries & ports", url="https://ferries.example/"),
    SourceRow(sid=3, source_type="manual", title="A note"),
)


class DocumentHarness:
    """A conversation with sources, and the document tools."""

    def __init__(self, stage: ToolHarness, sandbox: Sandbox) -> None:
        self.stage = stage
        self.tools = ToolRegistry(make_document_tools(sandbox))

    async def write(self, tool: str, content: str, path: str = "out", **params: object) -> Outcome:
        """Call `rendering_tools.write_<tool>` in the first turn."""
        return await self.write_in(self.stage.context(), tool, content, path, **params)

    async def write_in(self, context: ToolContext, tool: str, content: str, path: str, **params: object) -> Outcome:
        """Call the tool with that context."""
        text = msgspec.json.encode({"path": path, "content": content, **params}).decode()
        return await self.tools.resolve(f"rendering_tools.write_{tool}").call(text, context)

    def file(self, place: str) -> Path:
        """Return a file of the workspace."""
        return self.stage.out_dir / place


@asynccontextmanager
async def open_document_harness(out_dir: Path) -> AsyncGenerator[DocumentHarness]:
    """Yield a harness whose documents are rendered in the local sandbox."""
    stage = await open_tool_harness(out_dir)
    await stage.append(SourcesAdded(rows=ROWS, tool_call_id=CallId("search")))
    sandbox = LocalSandbox(LocalSettings(warm=0))
    try:
        yield DocumentHarness(stage, sandbox)
    finally:
        await sandbox.close()


def make_png(path: Path, width: int = 60, height: int = 30) -> bytes:
    """Return a picture in one colour, written to the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, height), "#2f5d8a").save(path)
    return path.read_bytes()


def open_pdf(data: object) -> Any:
    """Return pypdfium2's document of these bytes; the library has no types."""
    assert isinstance(data, bytes)
    return import_module("pypdfium2").PdfDocument(data)


def pages_of(data: object) -> list[str]:
    """Return the text of each page of a PDF."""
    document = open_pdf(data)
    texts = [page.get_textpage().get_text_bounded() for page in document]
    document.close()
    return texts


def open_docx(path: Path) -> Any:
    """Return python-docx's document of that file."""
    return import_module("docx").Document(str(path))


def open_pptx(path: Path) -> Any:
    """Return python-pptx's presentation of that file."""
    return import_module("pptx").Presentation(str(path))
