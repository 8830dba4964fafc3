"""The tool `react.patch`: edits a file of the current turn by a diff or replaces its text."""

import asyncio
from typing import Final, Literal

import msgspec

from timeloom.core.blocks import Shown
from timeloom.core.codes import CodedError
from timeloom.core.patch import PatchError, PatchResult, PlacedHunk, plan_patch, read_patch
from timeloom.core.paths import FileForm, Rewritten, ToolPath
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.tokens import estimate
from timeloom.ports.tool import Artifact, Outcome, ToolContext
from timeloom.tools.artifacts import LocalFile, find_file, local_file
from timeloom.tools.react.resolve import named
from timeloom.tools.react.undo import keep_for_undo, undo
from timeloom.tools.react.windows import split_lines
from timeloom.tools.react.write import (
    MAX_CONTENT_BYTES,
    moved_notices,
    sources_cited,
    text_mime,
    writable,
)
from timeloom.tools.workspace import Workspace

GONE: Final = Shown(how="stub", text="[READ] taken away: from here on there is no such file")
"""How a prompt shows the version that deletes a file."""

_NAMED_ELSEWHERE: Final = 5


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
    """Edits a text file of the current turn by a unified diff, or replaces it by a whole new text.

    Every context and removed line must stand in the file exactly so; there is no guessing. A file of another turn is
    copied into the current one first. Line numbers of a display are no part of the file: leave them out.

    path: the file, such as files/report.md or turn_1/files/report.md
    patch: a unified diff of this one file with context lines, or the file's whole new text
    """
    target = writable(path, context)
    # A call interrupted by a crash after its write runs again, and a diff of added lines could apply twice.
    await asyncio.to_thread(undo, target.physical, context)
    source = await _source(path, target, context)
    before = None if source is None else _text(source)
    result = await asyncio.to_thread(_planned, before, patch, target, context)
    if result.kind == "unchanged" or result.after == before:
        return Outcome(summary=_summary(target, result, source, "unchanged"))
    await _carry_out(target, result, context)
    is_diff = read_patch(before, patch) is not None
    artifacts = [_artifact(target, result, source, context, is_diff=is_diff)]
    if is_diff:
        call = ToolPath(context.turn_id, context.tool_call_id, "result")
        artifacts.append(Artifact(path=str(call), mime="text/x-diff", text=patch, content_only=True))
    return Outcome(
        notices=moved_notices(target),
        artifacts=tuple(artifacts),
        summary=_summary(target, result, source, result.kind),
    )


async def _source(path: str, target: Rewritten, context: ToolContext) -> LocalFile | None:
    """Return the file to edit: that of the current turn, else that of the turn in the path."""
    here = await find_file(target.path, context)
    if here is not None or not target.changed:
        return here
    elsewhere = named(path, context.turn_id)
    return await local_file(elsewhere, context) if isinstance(elsewhere, FileForm) else None


def _text(file: LocalFile) -> str:
    try:
        return file.data.decode()
    except UnicodeDecodeError:
        raise CodedError("tool_params_invalid", f"{file.path} is not UTF-8 text and cannot be patched") from None


def _planned(before: str | None, patch: str, target: Rewritten, context: ToolContext) -> PatchResult:
    try:
        result = plan_patch(before, patch)
    except PatchError as error:
        if before is not None:
            raise
        raise PatchError(error.code, f"there is no file {target.path}{_elsewhere(target, context)}: {error}") from None
    if len((result.after or "").encode("utf-8", "surrogatepass")) > MAX_CONTENT_BYTES:
        raise CodedError("file_too_large", f"the patched file would have more than {MAX_CONTENT_BYTES} bytes")
    return result


def _elsewhere(target: Rewritten, context: ToolContext) -> str:
    """Name the files of other turns with the same name, newest first."""
    ending = str(target.path).partition(".")[2]
    known = reversed(context.timeline.views.artifacts.artifacts)
    names = [name for name in known if name.startswith("fi:") and name.partition(".")[2] == ending]
    return f"; other turns have {', '.join(names[:_NAMED_ELSEWHERE])}" if names else ""


async def _carry_out(target: Rewritten, result: PatchResult, context: ToolContext) -> None:
    workspace = Workspace(context.out_dir)
    await asyncio.to_thread(keep_for_undo, target.physical, context)
    if result.after is None:
        await asyncio.to_thread(workspace.remove, target.physical)
    else:
        await asyncio.to_thread(workspace.write, target.physical, result.after.encode())


def _artifact(
    target: Rewritten, result: PatchResult, source: LocalFile | None, context: ToolContext, *, is_diff: bool
) -> Artifact:
    """Return the patched file; after a diff its content is stored and not shown, because the diff shows the change."""
    digest = source.digest if source else None
    after = result.after
    mime = digest.mime if digest and digest.mime else text_mime(target.relative)
    shown = GONE if after is None else None
    if after and is_diff:
        said = f"[READ] {result.kind}, {len(split_lines(after))} lines now: react.read({json_line([str(target.path)])})"
        shown = Shown(how="stub", tokens=estimate(after), text=said)
    return Artifact(
        path=str(target.path),
        mime=mime,
        text=after,
        kind=digest.kind if digest else "file",
        visibility=digest.visibility if digest else "internal",
        channel=digest.channel if digest else "",
        physical_path=str(target.physical),
        sources_used=sources_cited(after or "", context.timeline.views.sources.pool),
        size_bytes=len((after or "").encode()),
        shown=shown,
    )


def _summary(
    target: Rewritten,
    result: PatchResult,
    source: LocalFile | None,
    said: Literal["unchanged", "replaced", "patched", "created", "deleted"],
) -> str:
    after = result.after or ""
    copied = source is not None and source.path != target.path
    summary = PatchSummary(
        path=str(target.path),
        physical_path=str(target.physical),
        result=said,
        copied_from=str(source.path) if source and copied else "",
        hunks=result.hunks,
        size_bytes=len(after.encode("utf-8", "surrogatepass")),
        line_count=len(split_lines(after)),
    )
    return msgspec.json.encode(summary).decode()
