"""Collects the input files of a program: files that its code names and all files of the current turn."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from timeloom.core.codes import CodedError
from timeloom.core.paths import FileForm, FilePath, PhysicalPath, physical
from timeloom.ports.tool import ToolContext
from timeloom.tools.artifacts import ArtifactError, local_file
from timeloom.tools.exec.settings import ExecSettings
from timeloom.tools.react.select_files import selected
from timeloom.tools.workspace import Workspace

MAX_NAMES: Final = 500
"""Most names in a program that are looked up."""

_NAME: Final = re.compile(r"(?<!\w)(?:fi:)?turn_\w+[./][^'\"`\n\\]{0,600}")
_UNKNOWN_FROM_HERE: Final = re.compile(r"[*?\[\]{}]")
_AREA: Final = re.compile(r"(?:fi:)?turn_\w+[./](?:files|outputs|attachments|user\.attachments)")
_AFTER_A_NAME: Final = ").,;:]>"


@dataclass(slots=True)
class Inputs:
    """The input files by their paths in OUT_DIR, and the names of files that are missing or omitted."""

    files: dict[str, Path] = field(default_factory=dict[str, Path])
    missing: list[str] = field(default_factory=list[str])
    left_out: list[str] = field(default_factory=list[str])
    bytes: int = 0


async def inputs_of(code: str, context: ToolContext, settings: ExecSettings) -> Inputs:
    """Return the files that the code names, then the other files of the current turn, within the limits."""
    inputs = Inputs()
    workspace = Workspace(context.out_dir)
    for path in await _named(code, context, inputs):
        await asyncio.to_thread(_take, physical(path), workspace, context.out_dir, inputs, settings)
    for place in (await asyncio.to_thread(workspace.walk, (str(context.turn_id),))).files:
        await asyncio.to_thread(_take, place, workspace, context.out_dir, inputs, settings)
    return inputs


def names_in(code: str) -> Iterator[tuple[str, ...]]:
    """Yield for each file or folder name in the code its possible readings, the likeliest first."""
    seen: set[str] = set()
    for found in _NAME.finditer(code):
        if len(seen) >= MAX_NAMES:
            return
        if found[0] not in seen:
            seen.add(found[0])
            yield tuple(dict.fromkeys(_meanings(found[0])))


def _meanings(text: str) -> Iterator[str]:
    """Yield the whole quoted text and its first word; for a glob pattern, the folder that contains it."""
    for name in (text.rstrip(), text.split(maxsplit=1)[0].rstrip(_AFTER_A_NAME)):
        if pattern := _UNKNOWN_FROM_HERE.search(name):
            yield name[: name.rfind("/", 0, pattern.start()) + 1]
        elif _AREA.fullmatch(name):
            yield f"{name}/"
        else:
            yield name


async def _named(code: str, context: ToolContext, inputs: Inputs) -> list[FileForm]:
    """Return the files that the code names, after copying them into the workspace."""
    found: dict[FileForm, None] = {}
    for meanings in names_in(code):
        for text in meanings:
            if brought := await _brought(text, context, inputs):
                found |= dict.fromkeys(brought)
                break
        else:
            _miss(meanings[-1], context, inputs)
    return list(found)


async def _brought(text: str, context: ToolContext, inputs: Inputs) -> list[FileForm]:
    """Copy the files of that name into the workspace, as `react.pull` does; return those that exist."""
    try:
        paths = selected(text, context.turn_id, context.timeline.views)
    except ArtifactError as error:
        if error.code != "path_not_found":
            inputs.left_out.append(str(error))
        return []
    except CodedError:
        return []
    here: list[FileForm] = []
    for path in paths:
        try:
            await local_file(path, context)
        except CodedError:
            continue
        here.append(path)
    return here


def _miss(text: str, context: ToolContext, inputs: Inputs) -> None:
    """Record a file that does not exist; a missing file of the current turn may be an output of the program."""
    try:
        paths = selected(text, context.turn_id, context.timeline.views)
    except CodedError:
        return
    inputs.missing += [str(path) for path in paths if not (isinstance(path, FilePath) and path.turn == context.turn_id)]


def _take(place: PhysicalPath, workspace: Workspace, root: Path, inputs: Inputs, settings: ExecSettings) -> None:
    if str(place) in inputs.files:
        return
    size = workspace.size(place)
    if size is None:
        return
    if len(inputs.files) >= settings.input_files or inputs.bytes + size > settings.input_bytes:
        inputs.left_out.append(str(place))
        return
    inputs.files[str(place)] = root.joinpath(*place.names)
    inputs.bytes += size
