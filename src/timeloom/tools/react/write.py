"""The tool `react.write`: writes a text file of the current turn."""

import asyncio
from types import MappingProxyType
from typing import Annotated, Final, Literal

from msgspec.structs import replace

from timeloom.core.blocks import Note, ToolError
from timeloom.core.blocks.digest import Kind
from timeloom.core.citations.formats import FORMAT_OF_MIME
from timeloom.core.citations.rewriter import describe_unknown_sids, find_unknown_sids
from timeloom.core.citations.tokens import TOKEN, parse_sids
from timeloom.core.codes import CodedError
from timeloom.core.paths import FileForm, PathError, RewrittenPath, parse
from timeloom.core.render.copied_file import undo_file_escapes
from timeloom.core.render.v2.fence import unfence_text
from timeloom.core.render.v3.as_written import shown_as_written
from timeloom.core.sources import SourcesPool
from timeloom.core.view.aliases import rewrite_in
from timeloom.ports.tool import Artifact, Outcome, ToolContext, ToolNotice
from timeloom.tools.artifacts import find_file
from timeloom.tools.binding import WritePath
from timeloom.tools.mime import UNKNOWN_MIME, guess_mime, is_textual
from timeloom.tools.shown_names import shown_place
from timeloom.tools.workspace import RESERVED_PREFIX, Workspace

Channel = Literal["canvas", "timeline_text", "internal"]

MAX_CONTENT_BYTES: Final = 8 * 1024 * 1024
"""Largest text written in one call. Smaller refuses generated data; larger exceeds what a timeline stores of a text."""

MAX_NOTE_CHARS: Final = 1_000
"""Longest scratchpad note. Notes stay in the prompt permanently, so a longer one belongs in a file."""

SMALL_BYTES: Final = MappingProxyType({"text/html": 64, "image/svg+xml": 64, "text/csv": 8})
"""Below this size a file of that type is unusually small; `SMALL_TEXT_BYTES` applies to all other types."""

SMALL_TEXT_BYTES: Final = 16


async def write(
    context: ToolContext,
    path: Annotated[str, WritePath],
    *,
    # Models write parameters in this order, so the channel is known before the content is streamed to the user.
    channel: Channel = "canvas",
    content: str,
    kind: Kind = "file",
    scratchpad: bool = False,
) -> Outcome:
    """Write a text file of the current turn.

    path: such as files/report.md or outputs/table.csv
    channel: canvas shows it beside the chat, timeline_text in the chat; internal keeps it from the user
    content: the whole text
    kind: file to keep or download, display to look at
    scratchpad: with channel internal: true also keeps the text in sight, as a note
    """
    target = resolve_write_target(path, context)
    content = await _undo_copied_escapes(content, target, context)
    data = _check_content(content, channel, scratchpad=scratchpad)
    _check_type(target.relative)
    notices = rewritten_path_notices(target, context)
    artifact = Artifact(
        path=str(target.path),
        mime=text_mime(target.relative),
        text=content,
        kind=kind,
        visibility="internal" if channel == "internal" else "external",
        channel=channel,
        physical_path=str(target.physical),
        sources_used=find_cited_sources(content, context.timeline.views.sources.pool),
        size_bytes=len(data),
        write_warning=_size_warning(text_mime(target.relative), len(data)),
        shown=shown_as_written(content, context.timeline.views.turns.edition),
    )
    if not data:
        return _empty_content_outcome(artifact, notices)
    await asyncio.to_thread(Workspace(context.out_dir).write, target.physical, data)
    notes = (Note(tool_call_id=context.tool_call_id, text=content.strip()),) if scratchpad else ()
    notices += await missing_source_notices(content, artifact.mime, context.timeline.views.sources.pool)
    return Outcome(notices=notices, blocks=notes, artifacts=(artifact,))


def resolve_write_target(path: str, context: ToolContext) -> RewrittenPath:
    """Return the file of the current turn for the path; raise if tools may not write there."""
    target = rewrite_in(path, context.turn_id, context.timeline.views)
    if not target.writable:
        raise PathError("path_read_only", "the path names an attachment; write to files/ or outputs/ instead")
    if any(part.startswith(RESERVED_PREFIX) for part in target.physical.names):
        raise PathError("path_name_unsafe", f"names that begin with {RESERVED_PREFIX} are reserved; choose another")
    return target


def rewritten_path_notices(target: RewrittenPath, context: ToolContext) -> tuple[ToolNotice, ...]:
    """Return the notice that a path of another turn was rewritten to the current turn."""
    if not target.changed:
        return ()
    place = shown_place(str(target.physical), context.timeline.views)
    text = f"the path named a file of another turn; the file written is {place} of the current turn"
    return (ToolNotice("protocol_violation.path_rewritten", text),)


def text_mime(name: str) -> str:
    """Return the MIME type of a text file with that name."""
    found = guess_mime(name)
    return "text/plain" if found == UNKNOWN_MIME else found


def find_cited_sources(text: str, pool: SourcesPool) -> tuple[int, ...]:
    """Return the sources of the pool that the text cites, each once, in order of appearance."""
    sids = dict.fromkeys(sid for token in TOKEN.finditer(text) for sid in parse_sids(token[0]))
    return tuple(sid for sid in sids if pool.get(sid))


async def missing_source_notices(text: str, mime: str, pool: SourcesPool) -> tuple[ToolNotice, ...]:
    """Return the notice that names the sources that a file of this type cites and that are not in the pool."""
    form = FORMAT_OF_MIME.get(mime)
    if form is None or all(pool.get(sid) for token in TOKEN.finditer(text) for sid in parse_sids(token[0])):
        return ()
    sids = await asyncio.to_thread(find_unknown_sids, text, form, pool.rows)
    return (ToolNotice("tool_call_warning.missing_sources", describe_unknown_sids("file", sids)),) if sids else ()


async def _undo_copied_escapes(content: str, target: RewrittenPath, context: ToolContext) -> str:
    """Return the content without escapes that the model copied from the prompt; lines of the old file stay exact."""
    if context.copies_from < 2 or unfence_text(content) == content:
        return content
    return undo_file_escapes(content, await _find_old_text(target, context))


async def _find_old_text(target: RewrittenPath, context: ToolContext) -> str | None:
    """Return the text of the file that the content replaces: that of this turn, else the newest of that name."""
    ending = str(target.path).partition(".")[2]
    known = reversed(context.timeline.views.artifacts.artifacts)
    others = (name for name in known if name.startswith("fi:") and name.partition(".")[2] == ending)
    for path in (target.path, parse(next(others, str(target.path)))):
        file = await find_file(path, context) if isinstance(path, FileForm) else None
        if file is not None:
            return file.data.decode("utf-8", "replace")
    return None


def _check_content(content: str, channel: Channel, *, scratchpad: bool) -> bytes:
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise CodedError("tool_params_invalid", "content is Unicode text, got a lone surrogate") from None
    if len(data) > MAX_CONTENT_BYTES:
        raise CodedError("file_too_large", f"one call writes at most {MAX_CONTENT_BYTES} bytes, got {len(data)}")
    if scratchpad and channel != "internal":
        raise CodedError("tool_params_invalid", f"scratchpad needs the channel internal, got {channel}")
    if scratchpad and len(content) > MAX_NOTE_CHARS:
        message = f"a scratchpad note has at most {MAX_NOTE_CHARS} characters, got {len(content)}; leave scratchpad out"
        raise CodedError("tool_params_invalid", message)
    return data if content.strip() else b""


def _check_type(name: str) -> None:
    mime = guess_mime(name)
    if mime != UNKNOWN_MIME and not is_textual(mime):
        raise CodedError(
            "tool_params_invalid",
            f"react.write writes text, but the name is that of {mime}; use a tool that creates it",
        )


def _empty_content_outcome(written: Artifact, notices: tuple[ToolNotice, ...]) -> Outcome:
    """Return the outcome for an empty text: the intended file with the error in its metadata."""
    error = ToolError(code="tool_result_error", message="the content is empty, so no file was written")
    failed = replace(written, text=None, sources_used=(), size_bytes=0, write_warning="", error=error, meta_only=True)
    return Outcome(notices=notices, artifacts=(failed,), error=error)


def _size_warning(mime: str, size: int) -> str:
    least = SMALL_BYTES.get(mime, SMALL_TEXT_BYTES)
    return f"unusually small: {size} bytes of {mime}" if size < least else ""
