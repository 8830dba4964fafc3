"""The tools `rendering_tools.write_pdf`, `write_docx`, `write_pptx` and `write_png`."""

import asyncio
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from timeloom.core.blocks import ToolError, ToolTraits
from timeloom.core.citations.rewriter import describe_unknown_sids
from timeloom.core.codes import CodedError
from timeloom.core.paths import RewrittenPath
from timeloom.core.view.aliases import rewrite_in
from timeloom.ports.sandbox import Sandbox
from timeloom.ports.tool import Artifact, Outcome, ToolContext, ToolNotice
from timeloom.tools.binding import WritePath
from timeloom.tools.define import FunctionTool, tool
from timeloom.tools.documents.citations import CitedText, link_citations
from timeloom.tools.documents.references import describe_missing, load_document_files
from timeloom.tools.documents.renderer import DocumentKind, RenderedDocument, RenderJob, render_document, to_job_sources
from timeloom.tools.exec.content import to_timeline_content
from timeloom.tools.exec.settings import ExecSettings
from timeloom.tools.mime import SUFFIX_TYPES
from timeloom.tools.react.write import resolve_write_target
from timeloom.tools.workspace import Workspace

DEADLINE_S: Final = 120.0
"""Most time of a call: the limit of the renderer, and copying files before and after it."""

MAX_CONTENT_CHARS: Final = 2_000_000
"""Longest content. A book has a million characters."""

Title = Annotated[str, Meta(max_length=300)]
Content = Annotated[str, Meta(min_length=1, max_length=MAX_CONTENT_CHARS)]
Width = Annotated[int, Meta(ge=16, le=4000)]
Scale = Annotated[float, Meta(ge=0.5, le=4.0)]

_TRAITS: Final = ToolTraits(result_text="own", path_param="path", content_param="content", conversation_only=True)


def make_document_tools(sandbox: Sandbox, *, has_pango: bool = True) -> tuple[FunctionTool, ...]:
    """Return the tools, which render in that sandbox; PDF and PNG need the library Pango there."""
    office = (_make_docx_tool(sandbox), _make_pptx_tool(sandbox))
    return (_make_pdf_tool(sandbox), *office, _make_png_tool(sandbox)) if has_pango else office


def _make_pdf_tool(sandbox: Sandbox) -> FunctionTool:
    @tool("rendering_tools.write_pdf", effect="idempotent", deadline_s=DEADLINE_S, traits=_TRAITS)
    async def write_pdf(
        context: ToolContext,
        path: Annotated[str, WritePath],
        content: Content,
        format: Literal["markdown", "html"] = "markdown",
        title: Title = "",
        include_sources_section: bool = True,
        landscape: bool = False,
    ) -> Outcome:
        """Write a PDF file of the current turn from Markdown or HTML.

        Cite sources as [[S:1]]. Show pictures by their paths: ![chart](t1/files/chart.png). Markdown may have tables,
        code and footnotes ([^1]). Scripts and addresses of the web are left out.

        path: such as files/report.pdf
        content: the whole text
        format: markdown or html
        title: set above the text if that does not begin with it
        include_sources_section: false leaves out the list of cited sources
        landscape: true turns the pages
        """
        job = RenderJob(
            kind="pdf",
            format=format,
            content=content,
            title=title,
            sources_section=include_sources_section,
            landscape=landscape,
        )
        return await _write(job, path, context, sandbox)

    return write_pdf


def _make_docx_tool(sandbox: Sandbox) -> FunctionTool:
    @tool("rendering_tools.write_docx", effect="idempotent", deadline_s=DEADLINE_S, traits=_TRAITS)
    async def write_docx(
        context: ToolContext,
        path: Annotated[str, WritePath],
        content: Content,
        title: Title = "",
        include_sources_section: bool = True,
    ) -> Outcome:
        """Write a Word file (DOCX) of the current turn from Markdown.

        Cite sources as [[S:1]]. Show PNG and JPEG pictures by their paths: ![chart](t1/files/chart.png).

        path: such as files/report.docx
        content: the whole text as Markdown
        title: set above the text if that does not begin with it
        include_sources_section: false leaves out the list of cited sources
        """
        job = RenderJob(
            kind="docx", format="markdown", content=content, title=title, sources_section=include_sources_section
        )
        return await _write(job, path, context, sandbox)

    return write_docx


def _make_pptx_tool(sandbox: Sandbox) -> FunctionTool:
    @tool("rendering_tools.write_pptx", effect="idempotent", deadline_s=DEADLINE_S, traits=_TRAITS)
    async def write_pptx(
        context: ToolContext,
        path: Annotated[str, WritePath],
        content: Content,
        title: Title = "",
        include_sources_section: bool = True,
    ) -> Outcome:
        """Write slides (PPTX) of the current turn from Markdown: a slide for each `##`.

        `#` is the opening slide. Keep a slide to a few items, a table or a picture. Cite sources as [[S:1]].

        path: such as files/talk.pptx
        content: all slides as Markdown
        title: the title of the opening slide
        include_sources_section: false leaves out the slide of cited sources
        """
        job = RenderJob(
            kind="pptx", format="markdown", content=content, title=title, sources_section=include_sources_section
        )
        return await _write(job, path, context, sandbox)

    return write_pptx


def _make_png_tool(sandbox: Sandbox) -> FunctionTool:
    @tool("rendering_tools.write_png", effect="idempotent", deadline_s=DEADLINE_S, traits=_TRAITS)
    async def write_png(
        context: ToolContext,
        path: Annotated[str, WritePath],
        content: Content,
        format: Literal["html", "svg"] = "html",
        width: Width = 1200,
        scale: Scale = 2.0,
    ) -> Outcome:
        """Draw HTML or SVG as a PNG picture of the current turn.

        Scripts and addresses of the web are left out. The height follows from the content.

        path: such as files/card.png
        content: the whole HTML or SVG
        format: html or svg
        width: width of the layout in CSS pixels
        scale: pixels of the picture per CSS pixel
        """
        job = RenderJob(kind="png", format=format, content=content, sources_section=False, width=width, scale=scale)
        return await _write(job, path, context, sandbox)

    return write_png


async def _write(job: RenderJob, path: str, context: ToolContext, sandbox: Sandbox) -> Outcome:
    """Render the document and return it as a file of the current turn."""
    target = _resolve_target(path, job.kind, context)
    cited = await asyncio.to_thread(_link, job, context)
    notices = _source_notices(cited)
    intended = Artifact(
        path=str(target.path),
        mime=SUFFIX_TYPES[job.kind],
        kind="file",
        visibility="external",
        physical_path=str(target.physical),
        sources_used=tuple(row.sid for row in cited.rows),
    )
    try:
        done = await _render(job, cited, context, sandbox)
        await asyncio.to_thread(Workspace(context.out_dir).write, target.physical, done.data)
    except CodedError as failure:
        error = ToolError(code=failure.code, message=str(failure))
        failed = replace(intended, sources_used=(), error=error, meta_only=True)
        return Outcome(notices=notices, artifacts=(failed,), error=error)
    notices += tuple(ToolNotice("tool_call_warning.document_incomplete", text) for text in done.warnings)
    kept = to_timeline_content(target.physical.names[-1], done.data, ExecSettings())
    artifact = replace(intended, data=kept.data, size_bytes=len(done.data), write_warning=kept.warning)
    return Outcome(notices=notices, artifacts=(artifact,))


def _resolve_target(path: str, kind: DocumentKind, context: ToolContext) -> RewrittenPath:
    """Return the file to write; a name without an ending gets that of the format."""
    target = resolve_write_target(path, context)
    stem, dot, ending = target.physical.names[-1].rpartition(".")
    if not (stem and dot):
        return rewrite_in(f"{target.physical}.{kind}", context.turn_id, context.timeline.views)
    if ending.lower() != kind:
        raise CodedError("tool_params_invalid", f"`path` is the name of a {kind.upper()} file and ends in .{kind}")
    return target


def _link(job: RenderJob, context: ToolContext) -> CitedText:
    if job.kind == "png" or job.format == "svg":
        return CitedText(job.content, (), ())
    return link_citations(job.content, job.format, context.timeline.views.sources.pool)


def _source_notices(cited: CitedText) -> tuple[ToolNotice, ...]:
    if not cited.unknown:
        return ()
    return (ToolNotice("tool_call_warning.missing_sources", describe_unknown_sids("document", cited.unknown)),)


async def _render(job: RenderJob, cited: CitedText, context: ToolContext, sandbox: Sandbox) -> RenderedDocument:
    if not job.content.strip():
        raise CodedError("tool_result_error", "the content is empty, so no file was written")
    if any("\ud800" <= char <= "\udfff" for char in job.content):
        raise CodedError("tool_params_invalid", "content is Unicode text, got a lone surrogate")
    files = await load_document_files(job.content, cited.rows, context)
    if files.missing:
        raise CodedError("tool_call_error.missing_assets", describe_missing(files.missing))
    job = msgspec.structs.replace(job, content=cited.text, sources=to_job_sources(cited.rows), assets=files.places)
    execution_id = f"{context.turn_id}.{context.tool_call_id}"
    return await render_document(job, files.paths, sandbox, execution_id)
