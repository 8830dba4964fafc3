"""Collects the input files of a program: files that its code names, those of the current turn, and pulled files."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from timeloom.core.blocks import ResultStatus
from timeloom.core.blocks.tool_traits import resolve_traits
from timeloom.core.codes import CodedError
from timeloom.core.paths import FileForm, FilePath, PathError, PhysicalPath, to_physical
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Entry
from timeloom.ports.tool import ToolContext
from timeloom.tools.artifacts import ArtifactError, load_local_file
from timeloom.tools.exec.settings import ExecSettings
from timeloom.tools.react.select_files import select_files
from timeloom.tools.workspace import Workspace

MAX_NAMES: Final = 500
"""Most names in a program that are looked up."""

_NAME: Final = re.compile(
    r"(?<!\w)(?:(?:fi:)?turn_\w+[./]|fi:t[1-9][0-9]*[./]|t[1-9][0-9]*/(?=(?:files|outputs|attachments|external)\b))"
    r"[^'\"`\n\\]{0,600}"
)
_GLOB_CHARS: Final = re.compile(r"[*?\[\]{}]")
_AREA: Final = re.compile(r"(?:fi:)?(?:turn_\w+|t[1-9][0-9]*)[./](?:files|outputs|attachments|user\.attachments)")
_TRAILING_PUNCTUATION: Final = ").,;:]>"


@dataclass(slots=True)
class ProgramInputs:
    """The input files by their paths in OUT_DIR, and the names of files that are missing or omitted."""

    files: dict[str, Path] = field(default_factory=dict[str, Path])
    missing: list[str] = field(default_factory=list[str])
    omitted: list[str] = field(default_factory=list[str])
    read_only: list[str] = field(default_factory=list[str])
    """The files of other turns that `react.pull` brought."""
    bytes: int = 0


async def collect_inputs(code: str, context: ToolContext, settings: ExecSettings) -> ProgramInputs:
    """Return the files that the code names, the other files of the current turn, and the files pulled in this turn."""
    inputs = ProgramInputs()
    workspace = Workspace(context.out_dir)
    for path in await _load_named_files(code, context, inputs):
        await asyncio.to_thread(_add_input, to_physical(path), workspace, context.out_dir, inputs, settings)
    for place in (await asyncio.to_thread(workspace.list_files, (str(context.turn_id),))).files:
        await asyncio.to_thread(_add_input, place, workspace, context.out_dir, inputs, settings)
    for path in await _load_pulled_files(context):
        place = to_physical(path)
        await asyncio.to_thread(_add_input, place, workspace, context.out_dir, inputs, settings)
        if str(place) in inputs.files and place.names[0] != str(context.turn_id):
            inputs.read_only.append(str(place))
    return inputs


class _PulledRow(msgspec.Struct):
    path: str


class _PulledFiles(msgspec.Struct):
    """The part of a pull's status that names the files."""

    pulled: tuple[_PulledRow, ...] = ()


async def _load_pulled_files(context: ToolContext) -> list[FileForm]:
    """Return the files that calls of this turn brought for programs, after copying them into the workspace."""
    seqs: list[int] = []
    calls = context.timeline.views.calls.calls
    for key in reversed(calls):
        # Calls are in order, so those of the current turn are the last ones.
        if not key.startswith(f"{context.turn_id}."):
            break
        if resolve_traits(calls[key].tool_id, calls[key].traits).brings_files and not calls[key].failed:
            seqs += calls[key].receipt_seqs
    found: dict[FileForm, None] = {}
    for entry in await context.timeline.entries(sorted(seqs)) if seqs else ():
        for text in await _read_pulled_paths(entry, context):
            found |= dict.fromkeys(await _load_files(text, context, ProgramInputs()))
    return list(found)


async def _read_pulled_paths(entry: Entry, context: ToolContext) -> list[str]:
    if not isinstance(entry.block, ResultStatus):
        return []
    text = entry.block.text
    data = await context.timeline.payload(text) if isinstance(text, BlobRef) else text
    try:
        return [row.path for row in msgspec.json.decode(data, type=_PulledFiles).pulled]
    except (msgspec.MsgspecError, RecursionError):
        # Erased, or of another program: it names no files.
        return []


def find_named_paths(code: str) -> Iterator[tuple[str, ...]]:
    """Yield for each file or folder name in the code its possible readings, the likeliest first."""
    seen: set[str] = set()
    for found in _NAME.finditer(code):
        if len(seen) >= MAX_NAMES:
            return
        if found[0] not in seen:
            seen.add(found[0])
            yield tuple(dict.fromkeys(_interpret_name(found[0])))


def _interpret_name(text: str) -> Iterator[str]:
    """Yield the whole quoted text and its first word; for a glob pattern, the folder that contains it."""
    for name in (text.rstrip(), text.split(maxsplit=1)[0].rstrip(_TRAILING_PUNCTUATION)):
        if pattern := _GLOB_CHARS.search(name):
            yield name[: name.rfind("/", 0, pattern.start()) + 1]
        elif _AREA.fullmatch(name):
            yield f"{name}/"
        else:
            yield name


async def _load_named_files(code: str, context: ToolContext, inputs: ProgramInputs) -> list[FileForm]:
    """Return the files that the code names, after copying them into the workspace."""
    found: dict[FileForm, None] = {}
    for meanings in find_named_paths(code):
        for text in meanings:
            if brought := await _load_files(text, context, inputs):
                found |= dict.fromkeys(brought)
                break
        else:
            _record_missing(meanings[-1], context, inputs)
    return list(found)


async def _load_files(text: str, context: ToolContext, inputs: ProgramInputs) -> list[FileForm]:
    """Copy the files of that name into the workspace, as `react.pull` does; return those that exist."""
    try:
        paths = select_files(text, context.turn_id, context.timeline.views)
    except ArtifactError as error:
        if error.code != "path_not_found":
            inputs.omitted.append(str(error))
        return []
    except CodedError:
        return []
    here: list[FileForm] = []
    for path in paths:
        try:
            await load_local_file(path, context)
        except CodedError:
            continue
        here.append(path)
    return here


def _record_missing(text: str, context: ToolContext, inputs: ProgramInputs) -> None:
    """Record a file that does not exist; a missing file of the current turn may be an output of the program."""
    try:
        paths = select_files(text, context.turn_id, context.timeline.views)
    except PathError as error:
        # An alias of no turn; other refused texts are no names of files.
        inputs.missing += [text] if error.code == "path_not_found" else []
        return
    except CodedError:
        return
    inputs.missing += [str(path) for path in paths if not (isinstance(path, FilePath) and path.turn == context.turn_id)]


def _add_input(
    place: PhysicalPath, workspace: Workspace, root: Path, inputs: ProgramInputs, settings: ExecSettings
) -> None:
    if str(place) in inputs.files:
        return
    size = workspace.size(place)
    if size is None:
        return
    if len(inputs.files) >= settings.input_files or inputs.bytes + size > settings.input_bytes:
        inputs.omitted.append(str(place))
        return
    inputs.files[str(place)] = root.joinpath(*place.names)
    inputs.bytes += size
