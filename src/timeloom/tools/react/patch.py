"""The tool `react.patch`: edits a file of the current turn by a diff or replaces its text."""

import asyncio
from typing import Final, Literal

import msgspec

from timeloom.core.blocks import Shown
from timeloom.core.codes import CodedError
from timeloom.core.patch import PatchError, PatchResult, PlacedHunk, parse_patch, plan_patch
from timeloom.core.paths import FileForm, RewrittenPath, ToolPath
from timeloom.core.render.copied_file import plan_copied_patch
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.v3.as_written import shown_as_written, shown_in_call
from timeloom.core.tokens import estimate_tokens
from timeloom.ports.tool import Artifact, Outcome, ToolContext
from timeloom.tools.artifacts import LocalFile, find_file, load_local_file
from timeloom.tools.react.resolve import to_logical_path
from timeloom.tools.react.undo import restore_file, save_undo_record
from timeloom.tools.react.windows import split_lines
from timeloom.tools.react.write import (
    MAX_CONTENT_BYTES,
    find_cited_sources,
    missing_source_notices,
    resolve_write_target,
    rewritten_path_notices,
    text_mime,
)
from timeloom.tools.shown_names import shown_path
from timeloom.tools.workspace import Workspace

DELETED_STUB: Final = Shown(how="stub", text="[READ] taken away: from here on there is no such file")
"""How a prompt shows the version that deletes a file."""

_MAX_OTHER_TURNS: Final = 5


class PatchSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a patch; lines are counted from 1, `drift` is the distance of a hunk from its stated line."""

    path: str
    physical_path: str
    result: Literal["unchanged", "replaced", "patched", "created", "deleted"]
    copied_from: str = ""
    hunks: tuple[PlacedHunk, ...] = ()
    size_bytes: int = 0
    line_count: int = 0


async def patch(context: ToolContext, path: str, patch: str) -> Outcome:
    """Edit a text file with a unified diff, or replace its whole text.

    Context and removed lines must match the file exactly. A file of an earlier turn is copied into the current one.

    path: such as files/report.md
    patch: a unified diff of this file, or the whole new text
    """
    target = resolve_write_target(path, context)
    # A call interrupted by a crash after its write runs again, and a diff of added lines could apply twice.
    await asyncio.to_thread(restore_file, target.physical, context)
    source = await _find_source(path, target, context)
    before = None if source is None else _decode_text(source, context)
    result, patch = await asyncio.to_thread(_plan_patch, before, patch, target, context)
    if result.kind == "unchanged" or result.after == before:
        return Outcome(summary=_summarize_patch(target, result, source, "unchanged"))
    await _write_result(target, result, context)
    is_diff = parse_patch(before, patch) is not None
    artifacts = [_patched_artifact(target, result, source, context, is_diff=is_diff)]
    if is_diff:
        call = ToolPath(context.turn_id, context.tool_call_id, "result")
        shown = shown_in_call(patch, context.timeline.views.turns.edition)
        artifacts.append(Artifact(path=str(call), mime="text/x-diff", text=patch, content_only=True, shown=shown))
    pool = context.timeline.views.sources.pool
    missing = await missing_source_notices(result.after or "", artifacts[0].mime, pool)
    return Outcome(
        notices=rewritten_path_notices(target, context) + missing,
        artifacts=tuple(artifacts),
        summary=_summarize_patch(target, result, source, result.kind),
    )


async def _find_source(path: str, target: RewrittenPath, context: ToolContext) -> LocalFile | None:
    """Return the file to edit: that of the current turn, else that of the turn in the path."""
    here = await find_file(target.path, context)
    if here is not None or not target.changed:
        return here
    elsewhere = to_logical_path(path, context.turn_id, context.timeline.views, newest=False)
    return await load_local_file(elsewhere, context) if isinstance(elsewhere, FileForm) else None


def _decode_text(file: LocalFile, context: ToolContext) -> str:
    try:
        return file.data.decode()
    except UnicodeDecodeError:
        path = shown_path(str(file.path), context.timeline.views)
        raise CodedError("tool_params_invalid", f"{path} is not UTF-8 text and cannot be patched") from None


def _plan_patch(before: str | None, patch: str, target: RewrittenPath, context: ToolContext) -> tuple[PatchResult, str]:
    """Return the result of the patch, and the patch without escapes that the model copied from the prompt."""
    try:
        copies = context.copies_from > 1
        result, patch = plan_copied_patch(before, patch) if copies else (plan_patch(before, patch), patch)
    except PatchError as error:
        if before is not None:
            raise
        path, others = shown_path(str(target.path), context.timeline.views), _name_other_turns(target, context)
        raise PatchError(error.code, f"there is no file {path}{others}: {error}") from None
    if len((result.after or "").encode("utf-8", "surrogatepass")) > MAX_CONTENT_BYTES:
        raise CodedError("file_too_large", f"the patched file would have more than {MAX_CONTENT_BYTES} bytes")
    return result, patch


def _name_other_turns(target: RewrittenPath, context: ToolContext) -> str:
    """Name the files of other turns with the same name, newest first."""
    ending = str(target.path).partition(".")[2]
    known = reversed(context.timeline.views.artifacts.artifacts)
    names = [name for name in known if name.startswith("fi:") and name.partition(".")[2] == ending]
    shown = [shown_path(name, context.timeline.views) for name in names[:_MAX_OTHER_TURNS]]
    return f"; other turns have {', '.join(shown)}" if shown else ""


async def _write_result(target: RewrittenPath, result: PatchResult, context: ToolContext) -> None:
    workspace = Workspace(context.out_dir)
    await asyncio.to_thread(save_undo_record, target.physical, context)
    if result.after is None:
        await asyncio.to_thread(workspace.remove, target.physical)
    else:
        await asyncio.to_thread(workspace.write, target.physical, result.after.encode())


def _patched_artifact(
    target: RewrittenPath, result: PatchResult, source: LocalFile | None, context: ToolContext, *, is_diff: bool
) -> Artifact:
    """Return the patched file; after a diff its content is stored and not shown, because the diff shows the change."""
    digest = source.digest if source else None
    after = result.after
    mime = digest.mime if digest and digest.mime else text_mime(target.relative)
    shown = DELETED_STUB if after is None else None
    if after and is_diff:
        path = shown_path(str(target.path), context.timeline.views)
        stub_text = f"[READ] {result.kind}, {len(split_lines(after))} lines now: react.read({json_line([path])})"
        shown = Shown(how="stub", tokens=estimate_tokens(after), text=stub_text)
    elif after:
        shown = shown_as_written(after, context.timeline.views.turns.edition)
    return Artifact(
        path=str(target.path),
        mime=mime,
        text=after,
        kind=digest.kind if digest else "file",
        visibility=digest.visibility if digest else "internal",
        channel=digest.channel if digest else "",
        physical_path=str(target.physical),
        sources_used=find_cited_sources(after or "", context.timeline.views.sources.pool),
        size_bytes=len((after or "").encode()),
        shown=shown,
    )


def _summarize_patch(
    target: RewrittenPath,
    result: PatchResult,
    source: LocalFile | None,
    result_kind: Literal["unchanged", "replaced", "patched", "created", "deleted"],
) -> str:
    after = result.after or ""
    copied = source is not None and source.path != target.path
    summary = PatchSummary(
        path=str(target.path),
        physical_path=str(target.physical),
        result=result_kind,
        copied_from=str(source.path) if source and copied else "",
        hunks=result.hunks,
        size_bytes=len(after.encode("utf-8", "surrogatepass")),
        line_count=len(split_lines(after)),
    )
    return msgspec.json.encode(summary).decode()
