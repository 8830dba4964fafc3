"""The tool `react.checkout`: copies files of earlier turns into the current turn to edit them there."""

import asyncio
from collections.abc import Sequence
from typing import Literal

import msgspec

from timeloom.core.blocks import Digest, Shown
from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.paths import FilePath, PhysicalPath, to_logical, to_physical
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.tokens import estimate_tokens
from timeloom.ports.tool import Artifact, Outcome, ToolContext
from timeloom.tools.artifacts import LocalFile, find_digest, load_local_file
from timeloom.tools.mime import decode_file_text, guess_mime, is_viewable
from timeloom.tools.react.patch import DELETED_STUB
from timeloom.tools.react.select_files import MAX_SELECTED_FILES, select_files
from timeloom.tools.shown_names import shown_path
from timeloom.tools.workspace import Workspace


class CopiedFile(msgspec.Struct, frozen=True):
    """A file of the current turn and the file that it was copied from."""

    path: str
    physical_path: str
    copied_from: str
    size_bytes: int


class CheckoutStatus(msgspec.Struct, kw_only=True):
    """The status of a checkout: copied, unchanged and removed files."""

    mode: Literal["replace", "overlay"]
    copied: list[CopiedFile] = []
    unchanged: list[str] = []
    removed: list[str] = []


async def checkout(
    context: ToolContext, paths: tuple[str, ...], mode: Literal["replace", "overlay"] = "overlay"
) -> Outcome:
    """Copy files of earlier turns into the current turn, to be changed there.

    Outputs and attachments cannot be checked out. If one file is missing, none is copied.

    paths: fi: paths of files or folders, such as fi:t1/src/
    mode: overlay keeps the other files of the current turn, replace removes them
    """
    wanted = _select_paths(paths, context)
    targets = _map_targets(wanted, [await load_local_file(path, context) for path in wanted], context.turn_id)
    workspace = Workspace(context.out_dir)
    status = CheckoutStatus(mode=mode)
    artifacts: list[Artifact] = []
    for target, source in targets.items():
        if not await asyncio.to_thread(workspace.ensure_content, to_physical(target), source.data, read_only=False):
            status.unchanged.append(str(target))
            continue
        copied = CopiedFile(str(target), str(to_physical(target)), str(source.path), len(source.data))
        status.copied.append(copied)
        artifacts.append(_copy_artifact(target, source, await find_digest(target, context.timeline), context))
    if mode == "replace":
        kept = {to_physical(target) for target in targets}
        removed = await asyncio.to_thread(_remove_others, workspace, context.turn_id, kept)
        status.removed = [str(to_logical(str(place))) for place in removed]
        known = context.timeline.views.artifacts.artifacts
        artifacts += (_deletion_artifact(path, guess_mime(path)) for path in status.removed if path in known)
    return Outcome(status=msgspec.json.encode(status).decode(), artifacts=tuple(artifacts))


def _select_paths(paths: tuple[str, ...], context: ToolContext) -> list[FilePath]:
    wanted: dict[FilePath, None] = {}
    for text in paths:
        for path in select_files(text, context.turn_id, context.timeline.views):
            if not isinstance(path, FilePath) or path.area != "files":
                raise CodedError(
                    "tool_params_invalid",
                    f"only files/ can be checked out, got {shown_path(str(path), context.timeline.views)}; "
                    "react.pull brings other files",
                )
            wanted[path] = None
    if not 0 < len(wanted) <= MAX_SELECTED_FILES:
        raise CodedError("tool_params_invalid", f"one call takes 1 to {MAX_SELECTED_FILES} files, got {len(wanted)}")
    return list(wanted)


def _map_targets(wanted: Sequence[FilePath], sources: Sequence[LocalFile], turn: TurnId) -> dict[FilePath, LocalFile]:
    """Return the file to copy for each target in the current turn; if several have one name, the last wins."""
    return {FilePath(turn, "files", path.rel): source for path, source in zip(wanted, sources, strict=True)}


def _remove_others(workspace: Workspace, turn: TurnId, kept: set[PhysicalPath]) -> list[PhysicalPath]:
    others = [place for place in workspace.list_files((turn, "files")).files if place not in kept]
    return [place for place in others if workspace.remove(place)]


def _copy_artifact(target: FilePath, source: LocalFile, before: Digest | None, context: ToolContext) -> Artifact:
    """Return the copy as a new version; its content is stored and not shown.

    It is as visible to the user as the file that it replaces, or else as the file that was copied.
    """
    known = before or source.digest
    text = decode_file_text(source.data, source.mime)
    is_exact = text is not None and text.encode("utf-8", "surrogatepass") == source.data
    has_payload = is_exact or is_viewable(source.mime)
    copied, path = (shown_path(str(one), context.timeline.views) for one in (source.path, target))
    stub_text = f"[READ] a copy of {copied}: react.read({json_line([path])})"
    return Artifact(
        path=str(target),
        mime=source.mime,
        text=text if is_exact else None,
        data=None if is_exact else source.data,
        kind=(known and known.kind) or "file",
        visibility=(known and known.visibility) or "internal",
        channel=known.channel if known else "",
        physical_path=str(to_physical(target)),
        size_bytes=len(source.data),
        shown=Shown(how="stub", tokens=estimate_tokens(text or ""), text=stub_text) if has_payload else None,
    )


def _deletion_artifact(path: str, mime: str) -> Artifact:
    """Return a version without content, which records that the file was deleted."""
    return Artifact(path=path, mime=mime, visibility="internal", size_bytes=0, shown=DELETED_STUB)
