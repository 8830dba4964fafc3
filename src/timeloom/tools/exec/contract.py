"""Parses the contract of a program: the files that it is to produce."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from timeloom.core.blocks.digest import Visibility
from timeloom.core.ids import TurnId
from timeloom.core.paths import FileForm, PathError, PhysicalPath, RewrittenPath
from timeloom.core.view.aliases import rewrite_in
from timeloom.ports.tool import ToolContext, ToolNotice
from timeloom.tools.binding import WritePath
from timeloom.tools.parameters import ParamsError
from timeloom.tools.shown_names import shown_place
from timeloom.tools.workspace import RESERVED_PREFIX


class ContractFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file as a call names it: by its path relative to OUT_DIR, or by its name in the current turn's files."""

    filepath: Annotated[str, WritePath] | None = None
    filename: Annotated[str, WritePath] | None = None
    description: str = ""
    visibility: Visibility = "external"


class DeclaredFile(msgspec.Struct, frozen=True):
    """A file of the current turn that the program is to produce."""

    path: FileForm
    physical: PhysicalPath
    visibility: Visibility


class Contract(msgspec.Struct, frozen=True):
    """The declared files in order, with notices for the model about rewritten paths."""

    files: tuple[DeclaredFile, ...]
    notices: tuple[ToolNotice, ...] = ()

    def folders(self, turn: TurnId) -> tuple[str, ...]:
        """Return the folders that the program writes to: the current turn's and those of the declared files."""
        own = [str(file.physical).rpartition("/")[0] for file in self.files]
        return tuple(dict.fromkeys([f"{turn}/files", f"{turn}/outputs", *own]))


def resolve_contract(requested: Sequence[ContractFile], context: ToolContext, most: int) -> Contract:
    """Return the contract; raise if a name is missing, reserved, repeated or outside the current turn."""
    if len(requested) > most:
        raise ParamsError(f"a contract has at most {most} files, got {len(requested)}")
    files: dict[PhysicalPath, DeclaredFile] = {}
    notices: list[ToolNotice] = []
    for at, file in enumerate(requested):
        target = _resolve_target(file, at, context)
        shown = shown_place(str(target.physical), context.timeline.views)
        if target.physical in files:
            raise ParamsError(f"`contract.{at}` names {shown} again; name each file once")
        if _conflicts_with_files(target.physical, files):
            raise ParamsError(f"`contract.{at}`: {shown} would be a file and the folder of another file")
        if target.changed:
            text = f"`contract.{at}` named a file of another turn; it is now {shown} of the current turn"
            notices.append(ToolNotice("protocol_violation.path_rewritten", text))
        files[target.physical] = DeclaredFile(target.path, target.physical, file.visibility)
    return Contract(tuple(files.values()), tuple(notices))


def _resolve_target(file: ContractFile, at: int, context: ToolContext) -> RewrittenPath:
    name = file.filename if file.filepath is None else file.filepath
    if name is None or (file.filename is not None and file.filepath is not None):
        raise ParamsError(
            f"`contract.{at}` has either `filepath` or `filename`, got {'neither' if not name else 'both'}"
        )
    target = rewrite_in(name, context.turn_id, context.timeline.views)
    if not target.writable:
        raise PathError("path_read_only", f"`contract.{at}` names an attachment; name a file in files/ or outputs/")
    if any(part.startswith(RESERVED_PREFIX) for part in target.physical.names):
        raise PathError("path_name_unsafe", f"`contract.{at}`: names that begin with {RESERVED_PREFIX} are reserved")
    return target


def _conflicts_with_files(path: PhysicalPath, files: dict[PhysicalPath, DeclaredFile]) -> bool:
    return any(str(path).startswith(f"{other}/") or str(other).startswith(f"{path}/") for other in files)
