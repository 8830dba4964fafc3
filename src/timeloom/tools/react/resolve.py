"""Resolves logical paths to text or bytes that a read can show."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from timeloom.core.blocks import ContentBlock, Digest, Hosting, ResultDigest, Unknown
from timeloom.core.blocks.extract_payloads import put_back, references
from timeloom.core.ids import TurnId
from timeloom.core.paths import (
    ArtifactPath,
    AttachmentPath,
    EntriesPath,
    EventAttachmentPath,
    FileForm,
    FilePath,
    KnowledgePath,
    LogicalPath,
    PathError,
    SkillPath,
    SourcesPath,
    ToolPath,
    TurnIndexesPath,
    TurnIndexPath,
    logical,
    parse,
    select,
)
from timeloom.core.paths.parse_path import has_scheme
from timeloom.core.payload import BlobRef
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Entry
from timeloom.core.view.turn_index import turn_index
from timeloom.ports.tool import TimelineReader, ToolContext
from timeloom.tools.artifacts import ArtifactError, LocalFile, find_file, shows_again
from timeloom.tools.mime import text_in
from timeloom.wire.block_json import block_json, encode_block


class Readable(msgspec.Struct, frozen=True, kw_only=True):
    """Text, or bytes that are not text, at a logical path."""

    path: str
    mime: str
    text: str | None = None
    data: bytes | None = None
    size_bytes: int
    physical_path: str = ""
    digest: Digest | None = None
    hosting: Hosting | None = None
    complete: bool = True
    """False if only the beginning is stored."""


class Resolved(msgspec.Struct, frozen=True):
    """The content at a path, and the missing parts of a selection."""

    readables: tuple[Readable, ...]
    missing: tuple[str, ...] = ()


class Shelf(Protocol):
    """Provides skills and documents of the knowledge space."""

    async def fetch(self, path: SkillPath | KnowledgePath, context: ToolContext) -> Readable | None:
        """Return the content at that path; None if it does not exist or the caller may not read it."""
        ...


class EmptyShelf:
    """A content source for conversations without skills and knowledge space."""

    async def fetch(self, path: SkillPath | KnowledgePath, context: ToolContext) -> Readable | None:
        return None


def named(text: str, turn: TurnId) -> LogicalPath:
    """Return the logical path for a logical or physical path; raise `PathError` if it is malformed."""
    first = text.partition("/")[0]
    if has_scheme(text) or not first or first == text:
        return parse(text)
    return logical(text if first.startswith("turn_") else f"{turn}/{text}")


async def resolve(path: LogicalPath, context: ToolContext, shelf: Shelf) -> Resolved:
    """Return the content at the path; raise `ArtifactError` if there is none."""
    match path:
        case SourcesPath():
            return await _sources(path, context)
        case EntriesPath():
            return await _entries(path, context.timeline)
        case TurnIndexesPath():
            return await _indexes(path, context.timeline)
        case FilePath() | AttachmentPath() | EventAttachmentPath():
            file = await find_file(path, context)
            found = _file(file) if file else None
        case ArtifactPath():
            found = await _artifact(path, context)
        case TurnIndexPath():
            found = await _index(path, context.timeline)
        case SkillPath() | KnowledgePath():
            found = await shelf.fetch(path, context)
        case _:
            found = await _recorded(path, context.timeline)
    if found is None:
        raise ArtifactError("path_not_found", f"nothing has the path {path}")
    return Resolved((found,))


async def _sources(path: SourcesPath, context: ToolContext) -> Resolved:
    pool = context.timeline.views.sources.pool
    rows = [(sid, pool.get(sid)) for sid in path.sids]
    missing = [sid for sid, row in rows if row is None]
    readables = [await _source(row, context) for _, row in rows if row is not None]
    return Resolved(tuple(readables), (str(select(missing)),) if missing else ())


async def _source(row: SourceRow, context: ToolContext) -> Readable:
    """Return the row's file if it has one; otherwise the row as text."""
    if row.artifact_path.startswith("fi:"):
        try:
            path = parse(row.artifact_path)
            file = await find_file(path, context) if isinstance(path, FileForm) else None
        except PathError:
            file = None
        if file:
            return _file(file)
    body = row.content or row.text
    if isinstance(body, BlobRef):
        body = (await context.timeline.payload(body)).decode("utf-8", "replace")
    facts = [f"[{row.sid}] {row.title or row.url}", f"url: {row.url}", f"published: {row.published_time_iso}"]
    head = [fact for fact in facts if not fact.endswith(": ")]
    return _text(str(select([row.sid])), "text/plain", "\n".join([*head, "", body]))


def _file(file: LocalFile) -> Readable:
    return Readable(
        path=str(file.path),
        mime=file.mime,
        text=text_in(file.data, file.mime),
        data=file.data,
        size_bytes=len(file.data),
        physical_path=str(file.physical) if file.complete else "",
        digest=file.digest,
        hosting=file.hosting,
        complete=file.complete,
    )


async def _artifact(path: ArtifactPath, context: ToolContext) -> Readable | None:
    """Return the artifact recorded under that name; otherwise the turn's file of that name."""
    if context.timeline.views.paths.find(str(path)):
        return await _recorded(path, context.timeline)
    places: tuple[FileForm, ...] = (
        FilePath(path.turn, "files", path.name),
        FilePath(path.turn, "outputs", path.name),
        AttachmentPath(path.turn, path.name),
    )
    for place in places:
        if file := await find_file(place, context):
            return _file(file)
    return None


async def _entries(path: EntriesPath, timeline: TimelineReader) -> Resolved:
    """Return the recorded entries with these numbers, one by one."""
    here = [seq for seq in path.numbers if seq <= timeline.views.tail]
    found = [await _joined(str(EntriesPath.of([one.seq])), [one], timeline) for one in await timeline.entries(here)]
    return _selected(found, EntriesPath, set(path.numbers) - set(here))


async def _indexes(path: TurnIndexesPath, timeline: TimelineReader) -> Resolved:
    turns = {turn.n: turn_id for turn_id, turn in timeline.views.turns.turns.items()}
    wanted = [TurnIndexPath(turns[number]) for number in path.numbers if number in turns]
    found = [readable for one in wanted if (readable := await _index(one, timeline))]
    return _selected(found, TurnIndexesPath, set(path.numbers) - turns.keys())


def _selected(found: list[Readable], selection: type[EntriesPath | TurnIndexesPath], missing: set[int]) -> Resolved:
    return Resolved(tuple(found), (str(selection.of(missing)),) if missing else ())


async def _index(path: TurnIndexPath, timeline: TimelineReader) -> Readable | None:
    turn = timeline.views.turns.turns.get(path.turn)
    if turn is None:
        return None
    index = turn_index(path.turn, await timeline.entries(list(turn.seqs())))
    rows = [f"{row.kind} {row.path}{f' ({row.tool_id})' if row.tool_id else ''}: {row.hint}" for row in index.rows]
    places = [f"every entry as it was recorded: {place}" for place in index.places]
    return _text(str(path), "text/plain", "\n".join([*places, *rows]))


async def _recorded(path: LogicalPath, timeline: TimelineReader) -> Readable | None:
    """Return the text of the blocks at the path: all parts of a tool call, otherwise the newest block."""
    views = timeline.views
    entries = await timeline.entries(views.paths.find(str(path)))
    originals = [entry for entry in entries if not shows_again(entry, views)]
    if not originals:
        return None
    if isinstance(path, ToolPath):
        return await _joined(str(path), _said_last(originals), timeline)
    return await _joined(originals[-1].path, originals[-1:], timeline)


def _said_last(entries: list[Entry]) -> list[Entry]:
    """Return the entries without result digests; all of them if there are only digests."""
    return [entry for entry in entries if not isinstance(entry.block, ResultDigest)] or entries


async def _joined(path: str, entries: Sequence[Entry], timeline: TimelineReader) -> Readable:
    whole = [await _whole(entry, timeline) for entry in entries]
    if len(whole) == 1:
        block = whole[0].block
        if isinstance(block, ContentBlock) and isinstance(block.data, bytes):
            text = text_in(block.data, block.mime)
            return Readable(path=path, mime=block.mime, text=text, data=block.data, size_bytes=len(block.data))
        return _text(path, block.mime_type(), _said(whole[0]))
    return _text(path, "text/plain", "\n\n".join(map(_said, whole)))


async def _whole(entry: Entry, timeline: TimelineReader) -> Entry:
    payloads = {ref: await timeline.payload(ref) for ref in references(entry)}
    return put_back(entry, payloads.__getitem__)


def _said(entry: Entry) -> str:
    """Return the text of the block's JSON form; the whole JSON if it has no text."""
    if not isinstance(entry.block, Unknown) and (text := block_json(entry).text) is not None:
        return text
    return encode_block(entry).decode()


def _text(path: str, mime: str, text: str) -> Readable:
    return Readable(path=path, mime=mime, text=text, size_bytes=len(text.encode("utf-8", "surrogatepass")))
