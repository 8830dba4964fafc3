"""What a call is about to change in a file, kept so that the same call can be made again after a crash."""

from typing import Final

import msgspec

from timeloom.core.ids import CallId
from timeloom.core.paths import PhysicalPath
from timeloom.ports.tool import ToolContext
from timeloom.tools.workspace import UNSEEN, Workspace

_NAME: Final = f"{UNSEEN}before"


class Before(msgspec.Struct, frozen=True):
    """A file as a call found it; no data where there was none."""

    call: CallId
    path: str
    data: bytes | None


def keep_for_undo(path: PhysicalPath, context: ToolContext) -> None:
    """Keeps the file as it is now, in the place of what an earlier call of the turn had kept."""
    workspace = Workspace(context.out_dir)
    before = Before(context.tool_call_id, str(path), workspace.read(path))
    workspace.write(_place(path), msgspec.msgpack.encode(before))


def undo(path: PhysicalPath, context: ToolContext) -> None:
    """Puts the file back as this very call found it, where it has run before."""
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
        # A program of the turn may have written there: then nothing was kept.
        return None


def _place(path: PhysicalPath) -> PhysicalPath:
    turn, *_ = path.names
    return PhysicalPath(f"{turn}/files/{_NAME}")
