"""Finds the files of a conversation that a document names, and copies them into the workspace."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.paths import FileForm, has_scheme, parse, to_logical
from timeloom.core.paths.rewrite import rewrite_path, strip_here
from timeloom.core.sources import SourceRow
from timeloom.core.view.aliases import expand_aliases
from timeloom.ports.tool import ToolContext
from timeloom.tools.artifacts import LocalFile, load_local_file

MAX_FILES: Final = 100
"""Most files of one document. Fewer refuses albums; more fills the sandbox."""

MAX_BYTES: Final = 128 * 1024 * 1024
"""Most bytes in the files of one document."""

NAMED: Final = 10
"""Missing files that a message names."""

_REFERENCE: Final = re.compile(
    r"(?P<image>!)?\[[^\[\]\n]{0,500}\]\(\s{0,9}(?:<(?P<angle>[^<>\n]{1,1000})>|(?P<bare>[^\s()<>]{1,1000}))"
    r"|\b(?P<attribute>src|href|poster)\s{0,9}=\s{0,9}(?:\"(?P<double>[^\"<>]{1,1000})\"|'(?P<single>[^'<>]{1,1000})')"
    r"|\burl\(\s{0,9}[\"']?(?P<style>[^\"')\s]{1,1000})"
)
_TURN_PATH: Final = re.compile(r"(?:\./)*(?:turn_\w+|t[1-9][0-9]*)/(?:files|outputs|attachments|external)/|fi:")
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:|//|#|/")


class DocumentFiles(msgspec.Struct, frozen=True):
    """The files of a document: their places in OUT_DIR by the names in its text, and the names without a file."""

    places: Mapping[str, str]
    paths: Mapping[str, Path]
    """The files in the workspace, by their places in OUT_DIR."""
    missing: tuple[str, ...] = ()


async def load_document_files(content: str, rows: Sequence[SourceRow], context: ToolContext) -> DocumentFiles:
    """Copy the files that the content shows or links, and those of cited sources, into the workspace."""
    places: dict[str, str] = {}
    paths: dict[str, Path] = {}
    missing: list[str] = []
    size = 0
    for name in await asyncio.to_thread(list, find_references(content)):
        file = await _load_file(name, context)
        if file is None:
            missing.append(name)
            continue
        place = str(file.physical)
        size += len(file.data) if place not in paths else 0
        places[name], paths[place] = place, context.out_dir.joinpath(*file.physical.names)
        if len(paths) > MAX_FILES or size > MAX_BYTES:
            limits = f"a document has at most {MAX_FILES} files of together {MAX_BYTES} bytes"
            raise CodedError("file_too_large", f"{limits}; leave out some, or split the document")
    for row in rows:
        # The list of sources names these files; a lost one does not change the document.
        if row.source_type in ("file", "attachment") and row.physical_path:
            await _load_file(row.physical_path, context)
    return DocumentFiles(places, paths, tuple(missing))


def find_references(content: str) -> Iterator[str]:
    """Yield the names of files that the content shows or links, each once; addresses and prose are none.

    A link counts if it has the path of a turn, because other relative links may lead anywhere.
    """
    seen: set[str] = set()
    for found in _REFERENCE.finditer(content):
        name = next(value for key in ("angle", "bare", "double", "single", "style") if (value := found[key]))
        shows = bool(found["image"] or found["style"]) or found["attribute"] in ("src", "poster")
        if not _TURN_PATH.match(name) and (_ADDRESS.match(name) or not shows):
            continue
        if name not in seen:
            seen.add(name)
            yield name


def describe_missing(names: Sequence[str]) -> str:
    """Return the sentence that names the missing files."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    named = ", ".join(name[:100] for name in names[:NAMED])
    return f"the document names files that do not exist: {named}{more}; write them first, or leave them out"


async def _load_file(name: str, context: ToolContext) -> LocalFile | None:
    for spelling in dict.fromkeys((name, unquote(name))):
        try:
            return await load_local_file(_parse_name(spelling, context), context)
        except CodedError:
            # Another spelling may be the file; without one, the caller reports the name.
            continue
    return None


def _parse_name(name: str, context: ToolContext) -> FileForm:
    text = expand_aliases(strip_here(name), context.timeline.views)
    if has_scheme(text):
        path = parse(text)
        if isinstance(path, FileForm):
            return path
        raise CodedError("path_not_a_file", "the path names no file")
    return to_logical(text) if _TURN_PATH.match(text) else rewrite_path(text, context.turn_id).path
