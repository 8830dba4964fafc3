"""The tool `react.rg`: finds files of the workspace by name and text regions by content."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.paths import PathError, PhysicalPath, has_scheme, parse_turn_alias, to_logical, to_physical
from timeloom.core.paths.errors import quote_prefix
from timeloom.core.paths.names import check_names
from timeloom.core.view.aliases import expand_aliases, find_turn
from timeloom.core.view.views import Views
from timeloom.platform.open_beneath import BeneathError
from timeloom.ports.tool import Outcome, ToolContext
from timeloom.tools.mime import decode_file_text, guess_mime
from timeloom.tools.react.grep import GrepHit, GrepQuery, check_pattern, grep_files
from timeloom.tools.react.read import ReadItem
from timeloom.tools.react.resolve import to_logical_path
from timeloom.tools.react.windows import split_lines
from timeloom.tools.workspace import Workspace, WorkspaceError

MAX_TEXT_BYTES: Final = 10 * 1024 * 1024
"""Largest file that is searched, which is the largest that `react.read` shows."""

MAX_SEARCHED_BYTES: Final = 256 * 1024 * 1024
"""Most bytes that one call searches. The rest is reported as not searched."""

MAX_FILES: Final = 50
"""Most files of one result. Fewer hides matches; more exceeds what a model reads."""

HITS_PER_FILE: Final = 20
"""Most lines reported of one file. Fewer hides regions; more lets one file crowd out the others."""

DEADLINE_S: Final = 20.0
"""Time limit of the search for names or contents. Matches found until then are the result."""

_BATCH: Final = 100
_SNIFFED_BYTES: Final = 8192
_CONTEXT_LINES: Final = 3
_FIRST_LINES: Final = 200
_AREAS: Final = frozenset({"files", "outputs", "attachments", "external"})


class LineMatch(msgspec.Struct, frozen=True):
    """A matching line; a long one is cut."""

    line: int
    text: str


class FoundFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A matching file; `read_items` are parameters for `react.read` that show the regions."""

    logical_path: str
    physical_path: str
    size_bytes: int
    text_symbols: int | None = None
    line_count: int | None = None
    matches: tuple[LineMatch, ...] = ()
    more_matches: bool = False
    read_items: tuple[ReadItem, ...] = ()


class RgStatus(msgspec.Struct, kw_only=True):
    """The result of a search; `notes` state which parts were not searched and why."""

    files: list[FoundFile] = []
    searched_files: int = 0
    complete: bool = True
    missing_roots: list[str] = []
    notes: list[str] = []

    def mark_incomplete(self, note: str) -> None:
        """Mark the result incomplete and add the note once."""
        self.complete = False
        if note not in self.notes:
            self.notes.append(note)


async def rg(
    context: ToolContext, pattern: str = "", name: str = "", roots: tuple[str, ...] = (), ignore_case: bool = False
) -> Outcome:
    """Finds files of the workspace by name and regions of text files by content, with regular expressions.

    It searches what lies in the workspace: bring older files there with react.pull first. It does not search the
    conversation. The result has ready-made read_items for react.read.

    pattern: a regular expression that a line of the file must match
    name: a regular expression that the file's name, or its path in the workspace, must match
    roots: where to look: files/..., outputs/..., attachments/..., turn_.../..., fi:...; everywhere if left out
    ignore_case: true to take no account of upper and lower case
    """
    if not pattern and not name:
        raise CodedError("tool_params_invalid", "react.rg takes a pattern, a name or both, got neither")
    for expression in (pattern, name):
        check_pattern(expression)
    status = RgStatus()
    workspace = Workspace(context.out_dir)
    found = await asyncio.to_thread(_list_roots, workspace, roots, context, status)
    if name:
        found = await _filter_by_name(
            found, GrepQuery(pattern=name, ignore_case=ignore_case, deadline_s=DEADLINE_S), status
        )
    if pattern:
        order = GrepQuery(pattern=pattern, ignore_case=ignore_case, hits_per_file=HITS_PER_FILE, deadline_s=DEADLINE_S)
        await _search_contents(workspace, found, order, status)
    else:
        await asyncio.to_thread(_list_files, workspace, found, status)
    return Outcome(status=msgspec.json.encode(status).decode())


def _list_roots(
    workspace: Workspace, roots: Sequence[str], context: ToolContext, status: RgStatus
) -> list[PhysicalPath]:
    found: dict[PhysicalPath, None] = {}
    for root in roots or ("",):
        try:
            files, complete = _list_below(workspace, _root_names(root, context.turn_id, context.timeline.views))
        except (PathError, BeneathError, WorkspaceError) as error:
            status.missing_roots.append(quote_prefix(root))
            status.notes.append(f"{quote_prefix(root)}: {error.code}: {error}")
            continue
        found |= dict.fromkeys(files)
        if root and not files:
            status.missing_roots.append(root)
            status.notes.append(f"{root}: nothing of it lies in the workspace; react.pull brings older files there")
        if not complete:
            status.mark_incomplete("there are more files than one search visits; name a smaller root")
    return list(found)


def _root_names(root: str, turn: TurnId, views: Views) -> tuple[str, ...]:
    """Return the names that lead from OUT_DIR to the folder or file."""
    if not root:
        return ()
    root = _expand_root(root, views)
    bare = root.rstrip("/")
    if has_scheme(root):
        if bare == root:
            return to_physical(to_logical_path(root, turn, views, newest=False)).names
        return to_physical(to_logical_path(f"{bare}/x", turn, views, newest=False)).names[:-1]
    check_names(bare)
    first = bare.partition("/")[0]
    if first not in _AREAS and not first.startswith("turn_"):
        message = f"a root is files/..., outputs/..., attachments/..., turn_.../... or fi:...; got {quote_prefix(root)}"
        raise PathError("path_malformed", message)
    return tuple((f"{turn}/{bare}" if first in _AREAS else bare).split("/"))


def _expand_root(root: str, views: Views) -> str:
    """Return the root with the id of its turn; here an alias may also stand alone, for the whole folder of a turn."""
    first, slash, rest = root.partition("/")
    number = None if has_scheme(root) else parse_turn_alias(first)
    return expand_aliases(root, views) if number is None else f"{find_turn(number, views)}{slash}{rest}"


def _list_below(workspace: Workspace, folder: tuple[str, ...]) -> tuple[tuple[PhysicalPath, ...], bool]:
    walk = workspace.list_files(folder)
    if not walk.files and folder:
        with contextlib.suppress(PathError):
            place = PhysicalPath("/".join(folder))
            if workspace.size(place) is not None:
                return (place,), True
    return walk.files, walk.complete


async def _filter_by_name(files: list[PhysicalPath], order: GrepQuery, status: RgStatus) -> list[PhysicalPath]:
    """Return the files whose name or path matches.

    The names are searched as lines of a temporary file, so that the deadline stops a slow pattern.
    """
    lines = [line for place in files for line in (place.names[-1], str(place))]
    whole = msgspec.structs.replace(order, max_hits=len(lines), hits_per_file=max(1, len(lines)))
    with tempfile.TemporaryFile() as listing:
        listing.write("\n".join(lines).encode())
        listing.seek(0)
        searched = await grep_files(whole, [listing.fileno()])
    if not searched.complete:
        status.mark_incomplete("the search of names took too long; use a simpler expression")
    places = dict.fromkeys((hit.line - 1) // 2 for hit in searched.hits)
    return [files[place] for place in places if place < len(files)]


async def _search_contents(workspace: Workspace, files: list[PhysicalPath], order: GrepQuery, status: RgStatus) -> None:
    left_bytes, loop = MAX_SEARCHED_BYTES, asyncio.get_running_loop()
    end = loop.time() + order.deadline_s
    for start in range(0, len(files), _BATCH):
        with _open_text_files(workspace, files[start : start + _BATCH], status) as opened:
            left_bytes -= sum(os.fstat(descriptor).st_size for _, descriptor in opened)
            if left_bytes < 0 or end <= loop.time() or len(status.files) >= MAX_FILES:
                status.mark_incomplete("the search ended early: too much was found or searched; name a smaller root")
                return
            status.searched_files += len(opened)
            rest = msgspec.structs.replace(order, deadline_s=end - loop.time())
            searched = await grep_files(rest, [descriptor for _, descriptor in opened])
            if not searched.complete:
                status.mark_incomplete("not all was searched: too many lines match, or the expression takes too long")
            await asyncio.to_thread(_add_matches, opened, searched.hits, status)


def _add_matches(opened: Sequence[tuple[PhysicalPath, int]], hits: Iterable[GrepHit], status: RgStatus) -> None:
    by_file: dict[int, list[LineMatch]] = {}
    for hit in hits:
        by_file.setdefault(hit.file, []).append(LineMatch(hit.line, hit.text))
    for at in sorted(by_file):
        if len(status.files) >= MAX_FILES:
            status.mark_incomplete(f"more than {MAX_FILES} files match; name a smaller root")
            return
        place, descriptor = opened[at]
        status.files.append(_to_found_file(place, os.pread(descriptor, MAX_TEXT_BYTES, 0), by_file[at]))


def _list_files(workspace: Workspace, files: list[PhysicalPath], status: RgStatus) -> None:
    if len(files) > MAX_FILES:
        status.mark_incomplete(f"more than {MAX_FILES} files match; name a smaller root")
    status.searched_files = len(files)
    for place in files[:MAX_FILES]:
        with contextlib.suppress(BeneathError, WorkspaceError):
            data = workspace.read(place)
            if data is not None:
                status.files.append(_to_found_file(place, data, []))


def _to_found_file(place: PhysicalPath, data: bytes, matches: list[LineMatch]) -> FoundFile:
    path = str(to_logical(str(place)))
    text = decode_file_text(data, guess_mime(str(place))) if len(data) <= MAX_TEXT_BYTES else None
    if text is None:
        return FoundFile(logical_path=path, physical_path=str(place), size_bytes=len(data))
    count = len(split_lines(text))
    return FoundFile(
        logical_path=path,
        physical_path=str(place),
        size_bytes=len(data),
        text_symbols=len(text),
        line_count=count,
        matches=tuple(matches),
        more_matches=len(matches) >= HITS_PER_FILE,
        read_items=tuple(_read_items(path, [match.line for match in matches], count)),
    )


def _read_items(path: str, lines: Sequence[int], count: int) -> Iterator[ReadItem]:
    """Yield the regions around these lines, merged where they touch; without lines, the beginning of the file."""
    if not lines:
        yield ReadItem(path=path, line_start=1, line_count=max(1, min(count, _FIRST_LINES)))
        return
    regions: list[tuple[int, int]] = []
    for line in lines:
        first, last = max(1, line - _CONTEXT_LINES), min(count, line + _CONTEXT_LINES)
        if regions and first <= regions[-1][1] + 1:
            regions[-1] = (regions[-1][0], last)
        else:
            regions.append((first, last))
    for first, last in regions:
        yield ReadItem(path=path, line_start=first, line_count=last - first + 1)


@contextmanager
def _open_text_files(
    workspace: Workspace, files: Sequence[PhysicalPath], status: RgStatus
) -> Generator[list[tuple[PhysicalPath, int]]]:
    """Open the files that contain text and are within the size limit; close them on exit."""
    with ExitStack() as stack:
        opened: list[tuple[PhysicalPath, int]] = []
        for place in files:
            with contextlib.suppress(BeneathError, WorkspaceError):
                descriptor = workspace.open(place)
                if descriptor is None:
                    continue
                stack.callback(os.close, descriptor)
                if os.fstat(descriptor).st_size > MAX_TEXT_BYTES:
                    status.mark_incomplete(f"files over {MAX_TEXT_BYTES} bytes were not searched")
                elif b"\0" not in os.pread(descriptor, _SNIFFED_BYTES, 0):
                    opened.append((place, descriptor))
        yield opened
