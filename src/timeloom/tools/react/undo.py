"""Stores a file's content before a call changes it, so that the call can run again after a crash."""

from typing import Final

import msgspec

from timeloom.core.ids import CallId
from timeloom.core.paths import PhysicalPath
from timeloom.ports.tool import ToolContext
from timeloom.tools.workspace import RESERVED_PREFIX, Workspace

_NAME: Final = f"{RESERVED_PREFIX}before"


class UndoRecord(msgspec.Struct, frozen=True):
    """The content of a file before a call; `data` is None if the file did not exist."""

    call: CallId
    path: str
    data: bytes | None


def save_undo_record(path: PhysicalPath, context: ToolContext) -> None:
    """Store the file's current content; this replaces the record of an earlier call of the turn."""
    workspace = Workspace(context.out_dir)
    record = UndoRecord(context.tool_call_id, str(path), workspace.read(path))
    workspace.write(_record_path(path), msgspec.msgpack.encode(record))


def restore_file(path: PhysicalPath, context: ToolContext) -> None:
    """Restore the file if this same call has already run."""
    workspace = Workspace(context.out_dir)
    record = _decode_record(workspace.read(_record_path(path)))
    if record is None or (record.call, record.path) != (context.tool_call_id, str(path)):
        return
    if record.data is None:
        workspace.remove(path)
    else:
        workspace.write(path, record.data)


def _decode_record(data: bytes | None) -> UndoRecord | None:
    if data is None:
        return None
    try:
        return msgspec.msgpack.decode(data, type=UndoRecord)
    except msgspec.DecodeError:
        # A program of the turn may have overwritten the record; then there is nothing to restore.
        return None


def _record_path(path: PhysicalPath) -> PhysicalPath:
    turn, *_ = path.names
    return PhysicalPath(f"{turn}/files/{_NAME}")
