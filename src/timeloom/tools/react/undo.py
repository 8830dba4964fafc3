"""Stores a file's content before a call changes it, so that the call can run again after a crash."""

from typing import Final

import msgspec

from timeloom.core.ids import CallId
from timeloom.core.paths import PhysicalPath
from timeloom.ports.tool import ToolContext
from timeloom.tools.workspace import UNSEEN, Workspace

_NAME: Final = f"{UNSEEN}before"


class Before(msgspec.Struct, frozen=True):
    """The content of a file before a call; `data` is None if the file did not exist."""

    call: CallId
    path: str
    data: bytes | None


def keep_for_undo(path: PhysicalPath, context: ToolContext) -> None:
    """Store the file's current content; this replaces the record of an earlier call of the turn."""
    workspace = Workspace(context.out_dir)
    before = Before(context.tool_call_id, str(path), workspace.read(path))
    workspace.write(_place(path), msgspec.msgpack.encode(before))


def undo(path: PhysicalPath, context: ToolContext) -> None:
    """Restore the file if this same call has already run."""
    workspace = Workspace(context.out_dir)
    before = _kept(workspace.read(_place(path)))
    if before is None or (before.call, before.path) != (context.tool_call_id, str(path)):
        return
    if before.data is None:
        workspace.remove(path)
    else:
        workspace.write(path, before.data)


def _kept(data: bytes | None) -> Before | None:
    if data is None:
        return None
    try:
        return msgspec.msgpack.decode(data, type=Before)
    except msgspec.DecodeError:
        # A program of the turn may have overwritten the record; then there is nothing to restore.
        return None


def _place(path: PhysicalPath) -> PhysicalPath:
    turn, *_ = path.names
    return PhysicalPath(f"{turn}/files/{_NAME}")
