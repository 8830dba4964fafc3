"""Renders one document in a sandbox."""

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.sources import SourceRow
from timeloom.platform.open_beneath import BeneathError, open_beneath
from timeloom.ports.sandbox import MIB, ExecutionLimits, Program, ProgramResult, Sandbox
from timeloom.tools.workspace import MAX_FILE_BYTES

DocumentKind = Literal["pdf", "docx", "pptx", "png"]

LIMITS: Final = ExecutionLimits(wall_s=60.0, cpu_s=60.0, memory_bytes=1024 * MIB, growth_bytes=256 * MIB)
"""The resources of one document."""

MAX_REPORT_BYTES: Final = 64 * 1024

_GUEST: Final = Path(__file__).with_name("guest")
_FOLDER: Final = "renderer"
_PACKAGES: Final = ("timeloom", "timeloom/tools", "timeloom/tools/documents")
_CODE: Final = f"""
import sys
sys.path.insert(0, str(OUT_DIR / "{_FOLDER}"))
from timeloom.tools.documents.guest.render import main
main(str(OUT_DIR))
"""
_SIGNATURES: Final[Mapping[DocumentKind, bytes]] = {
    "pdf": b"%PDF-",
    "docx": b"PK\x03\x04",
    "pptx": b"PK\x03\x04",
    "png": b"\x89PNG\r\n\x1a\n",
}


class _JobSource(msgspec.Struct, frozen=True):
    sid: int
    title: str
    url: str


class RenderJob(msgspec.Struct, frozen=True, kw_only=True):
    """A document to render."""

    kind: DocumentKind
    format: Literal["markdown", "html", "svg"]
    content: str
    title: str = ""
    landscape: bool = False
    sources_section: bool = True
    sources: tuple[_JobSource, ...] = ()
    assets: Mapping[str, str] = {}
    """The files of the document by the names in its text, relative to OUT_DIR."""
    width: int = 1200
    scale: float = 2.0


class RenderedDocument(msgspec.Struct, frozen=True):
    """The bytes of a document, and sentences about its parts that could not be drawn."""

    data: bytes
    warnings: tuple[str, ...] = ()


class _Report(msgspec.Struct, frozen=True):
    error: str = ""
    warnings: tuple[str, ...] = ()


class _NoTools:
    """Refuses every request: a renderer calls nothing."""

    async def call(self, tool_id: str, params: str) -> str:
        return '{"ok":false,"error":{"code":"unknown_tool","message":"a renderer calls no tools"},"ret":null}'

    async def fetch(self, path: str) -> str:
        return await self.call(path, "")


def to_job_sources(rows: Sequence[SourceRow]) -> tuple[_JobSource, ...]:
    """Return what a document shows of its sources; only web addresses become links."""
    return tuple(
        _JobSource(
            row.sid,
            row.title or Path(row.physical_path).name,
            row.url if row.url.lower().startswith(("http://", "https://")) else "",
        )
        for row in rows
    )


async def render_document(
    job: RenderJob, files: Mapping[str, Path], sandbox: Sandbox, execution_id: str, limits: ExecutionLimits = LIMITS
) -> RenderedDocument:
    """Return the rendered document; raise a coded error if there is none.

    The renderer gets the job and these files by their places in OUT_DIR, and nothing else of this machine.
    """
    with TemporaryDirectory(prefix="timeloom-document-") as folder:
        job_file = Path(folder) / "job.json"
        await asyncio.to_thread(job_file.write_bytes, msgspec.json.encode(job))
        program = Program(
            code=_CODE,
            execution_id=execution_id,
            name="renderer",
            inputs={**dict(_guest_files()), **files, "job.json": job_file},
            limits=limits,
        )
        async with sandbox.run(program, _NoTools(), lambda _stream, _text: None) as ran:
            return await asyncio.to_thread(_collect, ran, job.kind)


def _guest_files() -> Iterator[tuple[str, Path]]:
    for file in sorted(_GUEST.iterdir()):
        if file.suffix in (".py", ".css"):
            yield f"{_FOLDER}/timeloom/tools/documents/guest/{file.name}", file
    for package in _PACKAGES:
        # The guest sees none of timeloom's other modules, so these packages are empty.
        yield f"{_FOLDER}/{package}/__init__.py", _GUEST / "__init__.py"


def _collect(ran: ProgramResult, kind: DocumentKind) -> RenderedDocument:
    if ran.ending != "exited":
        detail = ran.detail or f"it ended by {ran.ending}"
        raise CodedError("execution_limit", f"rendering was stopped: {detail}; make the document smaller")
    try:
        report = msgspec.json.decode(_read(ran.out_dir, "report.json", MAX_REPORT_BYTES), type=_Report)
    except (OSError, BeneathError, msgspec.MsgspecError, RecursionError):
        last = ran.stderr_tail.strip().rpartition("\n")[2][:300]
        raise CodedError("tool_result_error", f"the renderer left no report: {last or 'it printed nothing'}") from None
    if report.error:
        raise CodedError("tool_result_error", f"the document cannot be rendered: {report.error}")
    with contextlib.suppress(OSError, BeneathError):
        data = _read(ran.out_dir, "result", MAX_FILE_BYTES)
        if data.startswith(_SIGNATURES[kind]):
            return RenderedDocument(data, report.warnings)
    raise CodedError("tool_result_error", f"the renderer left no valid {kind.upper()}")


def _read(root: Path, name: str, most: int) -> bytes:
    with os.fdopen(open_beneath(root, [name]), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise CodedError("file_too_large", f"the renderer wrote a file of more than {most} bytes")
    return data
