"""Resolves logical paths to text or bytes that a read can show."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from timeloom.core.blocks import ContentBlock, Digest, Hosting, ResultDigest, Unknown
from timeloom.core.blocks.extract_payloads import find_blob_refs, restore_payloads
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
    parse_long,
    rewrite_path,
    select_sources,
    strip_here,
    to_logical,
)
from timeloom.core.paths.parse_path import has_scheme
from timeloom.core.payload import BlobRef
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Entry
from timeloom.core.view.aliases import expand_aliases
from timeloom.core.view.artifacts import ArtifactHistory
from timeloom.core.view.views import Views
from timeloom.ports.tool import TimelineReader, Tool, ToolContext
from timeloom.tools.artifacts import ArtifactError, LocalFile, find_file, is_read_output
from timeloom.tools.mime import decode_file_text
from timeloom.tools.react.turn_indexes import (
    MAX_INDEXES_CHARS,
    MAX_OUTLINED_CHARS,
    LoadedIndex,
    index_text,
    load_index,
    merged_index_text,
)
from timeloom.tools.shown_names import shown_path
from timeloom.wire.block_json import encode_block, to_block_json


class ReadableContent(msgspec.Struct, frozen=True, kw_only=True):
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


class ResolvedPath(msgspec.Struct, frozen=True):
    """The content at a path; if the path selects several items, `missing` has the path of the absent ones."""

    readables: tuple[ReadableContent, ...]
    missing: tuple[str, ...] = ()


class ContentSource(Protocol):
    """Provides skills and documents of the knowledge space."""

    async def fetch(self, path: SkillPath | KnowledgePath, context: ToolContext) -> ReadableContent | None:
        """Return the content at that path; None if it does not exist or the caller may not read it."""
        ...


class NoContent:
    """A content source for conversations without skills and knowledge space."""

    async def fetch(self, path: SkillPath | KnowledgePath, context: ToolContext) -> ReadableContent | None:
        return None


@runtime_checkable
class ContentReader(Protocol):
    """A tool that reads content of a source, such as the tool that runs programs."""

    def with_source(self, source: ContentSource) -> Tool:
        """Return the same tool with another source."""
        ...


def to_logical_path(text: str, turn: TurnId, views: Views, *, newest: bool = True) -> LogicalPath:
    """Return the logical path for a logical, physical or relative path; raise `PathError` if it is malformed.

    Aliases of turns and calls are resolved. A relative path such as `a.md` names the file that a write of it would
    write in the turn. With `newest`, it names the newest file of that name if the turn has none.
    """
    text = expand_aliases(text, views)
    bare = strip_here(text)
    first, slash, _ = bare.partition("/")
    if has_scheme(text) or not first:
        return parse_long(text)
    if first.startswith("turn_"):
        return to_logical(bare) if slash else parse_long(text)
    path = rewrite_path(bare, turn).path
    return _find_newest(path, views) if newest else path


def _find_newest(path: FileForm, views: Views) -> FileForm:
    """Return the path if the conversation has such a file; otherwise the newest file of that name in another turn."""
    known = views.artifacts.artifacts
    if (here := known.get(str(path))) and not _has_failed(here):
        return path
    ending = _without_turn(str(path))
    others = [
        (name, found) for name, found in known.items() if _without_turn(name) == ending and not _has_failed(found)
    ]
    newest = max(others, key=lambda other: _last_seq(other[1]), default=None)
    found = parse_long(newest[0]) if newest else path
    return found if isinstance(found, FileForm) else path


def _has_failed(artifact: ArtifactHistory) -> bool:
    """Return whether the only call that wrote the file has failed."""
    return not artifact.is_edited and artifact.digest is not None and artifact.digest.error is not None


def _without_turn(name: str) -> str:
    return name.partition(".")[2] if name.startswith("fi:") else ""


def _last_seq(artifact: ArtifactHistory) -> int:
    return max([artifact.latest.digest_seq or 0, *artifact.latest.content_seqs])


async def resolve(path: LogicalPath, context: ToolContext, source: ContentSource) -> ResolvedPath:
    """Return the content at the path; raise `ArtifactError` if there is none."""
    match path:
        case SourcesPath():
            return await _resolve_sources(path, context)
        case EntriesPath():
            return await _resolve_entries(path, context.timeline)
        case TurnIndexesPath():
            return await _resolve_indexes(path, context.timeline)
        case FilePath() | AttachmentPath() | EventAttachmentPath():
            file = await find_file(path, context)
            found = _to_readable(file) if file else None
        case ArtifactPath():
            found = await _resolve_artifact(path, context)
        case TurnIndexPath():
            found = await _resolve_index(path, context.timeline)
        case SkillPath() | KnowledgePath():
            found = await source.fetch(path, context)
        case _:
            found = await _resolve_recorded(path, context.timeline)
    if found is None:
        raise ArtifactError("path_not_found", f"nothing has the path {shown_path(str(path), context.timeline.views)}")
    return ResolvedPath((found,))


async def _resolve_sources(path: SourcesPath, context: ToolContext) -> ResolvedPath:
    pool = context.timeline.views.sources.pool
    rows = [(sid, pool.get(sid)) for sid in path.sids]
    missing = [sid for sid, row in rows if row is None]
    readables = [await _resolve_source(row, context) for _, row in rows if row is not None]
    return ResolvedPath(tuple(readables), (str(select_sources(missing)),) if missing else ())


async def _resolve_source(row: SourceRow, context: ToolContext) -> ReadableContent:
    """Return the row's file if it has one; otherwise the row as text."""
    if row.artifact_path.startswith("fi:"):
        try:
            path = parse_long(row.artifact_path)
            file = await find_file(path, context) if isinstance(path, FileForm) else None
        except PathError:
            file = None
        if file:
            return _to_readable(file)
    body = row.content or row.text
    if isinstance(body, BlobRef):
        body = (await context.timeline.payload(body)).decode("utf-8", "replace")
    facts = [f"[{row.sid}] {row.title or row.url}", f"url: {row.url}", f"published: {row.published_time_iso}"]
    head = [fact for fact in facts if not fact.endswith(": ")]
    return _text_readable(str(select_sources([row.sid])), "text/plain", "\n".join([*head, "", body]))


def _to_readable(file: LocalFile) -> ReadableContent:
    return ReadableContent(
        path=str(file.path),
        mime=file.mime,
        text=decode_file_text(file.data, file.mime),
        data=file.data,
        size_bytes=len(file.data),
        physical_path=str(file.physical) if file.complete else "",
        digest=file.digest,
        hosting=file.hosting,
        complete=file.complete,
    )


async def _resolve_artifact(path: ArtifactPath, context: ToolContext) -> ReadableContent | None:
    """Return the artifact recorded under that name; otherwise the turn's file of that name."""
    if context.timeline.views.paths.find(str(path)):
        return await _resolve_recorded(path, context.timeline)
    places: tuple[FileForm, ...] = (
        FilePath(path.turn, "files", path.name),
        FilePath(path.turn, "outputs", path.name),
        AttachmentPath(path.turn, path.name),
    )
    for place in places:
        if file := await find_file(place, context):
            return _to_readable(file)
    return None


async def _resolve_entries(path: EntriesPath, timeline: TimelineReader) -> ResolvedPath:
    """Return the recorded entries with these numbers, one by one."""
    here = [seq for seq in path.numbers if seq <= timeline.views.tail]
    found = [
        await _join_entries(str(EntriesPath.from_numbers([one.seq])), [one], timeline)
        for one in await timeline.entries(here)
    ]
    return _to_resolved(found, EntriesPath, set(path.numbers) - set(here))


async def _resolve_indexes(path: TurnIndexesPath, timeline: TimelineReader) -> ResolvedPath:
    turns = {turn.n: turn_id for turn_id, turn in timeline.views.turns.turns.items()}
    missing = set(path.numbers) - turns.keys()
    indexes: list[LoadedIndex] = []
    left = MAX_OUTLINED_CHARS
    for number in path.numbers:
        if number in turns:
            indexes.append(await load_index(turns[number], timeline, left))
            left -= sum(map(len, indexes[-1].texts.values()))
    found: list[ReadableContent] = []
    if len(indexes) < 2 or sum(one.least_chars for one in indexes) <= MAX_INDEXES_CHARS:
        found = [_text_readable(one.index.path, "text/plain", await index_text(one)) for one in indexes]
    if len(indexes) > 1 and (not found or sum(one.size_bytes for one in found) > MAX_INDEXES_CHARS):
        merged = str(TurnIndexesPath.from_numbers([one.n for one in indexes]))
        found = [_text_readable(merged, "text/plain", await merged_index_text(indexes))]
    return _to_resolved(found, TurnIndexesPath, missing)


def _to_resolved(
    found: list[ReadableContent], selection: type[EntriesPath | TurnIndexesPath], missing: set[int]
) -> ResolvedPath:
    return ResolvedPath(tuple(found), (str(selection.from_numbers(missing)),) if missing else ())


async def _resolve_index(path: TurnIndexPath, timeline: TimelineReader) -> ReadableContent | None:
    if path.turn not in timeline.views.turns.turns:
        return None
    return _text_readable(str(path), "text/plain", await index_text(await load_index(path.turn, timeline)))


async def _resolve_recorded(path: LogicalPath, timeline: TimelineReader) -> ReadableContent | None:
    """Return the text of the blocks at the path: all parts of a tool call, otherwise the newest block."""
    views = timeline.views
    entries = await timeline.entries(views.paths.find(str(path)))
    originals = [entry for entry in entries if not is_read_output(entry, views)]
    if not originals:
        return None
    if isinstance(path, ToolPath):
        return await _join_entries(str(path), _without_digests(originals), timeline)
    return await _join_entries(originals[-1].path, originals[-1:], timeline)


def _without_digests(entries: list[Entry]) -> list[Entry]:
    """Return the entries without result digests; all of them if there are only digests."""
    return [entry for entry in entries if not isinstance(entry.block, ResultDigest)] or entries


async def _join_entries(path: str, entries: Sequence[Entry], timeline: TimelineReader) -> ReadableContent:
    whole = [await _with_payloads(entry, timeline) for entry in entries]
    if len(whole) == 1:
        block = whole[0].block
        if isinstance(block, ContentBlock) and isinstance(block.data, bytes):
            text = decode_file_text(block.data, block.mime)
            return ReadableContent(path=path, mime=block.mime, text=text, data=block.data, size_bytes=len(block.data))
        return _text_readable(path, block.mime_type(), _entry_text(whole[0]))
    return _text_readable(path, "text/plain", "\n\n".join(map(_entry_text, whole)))


async def _with_payloads(entry: Entry, timeline: TimelineReader) -> Entry:
    payloads = {ref: await timeline.payload(ref) for ref in find_blob_refs(entry)}
    return restore_payloads(entry, payloads.__getitem__)


def _entry_text(entry: Entry) -> str:
    """Return the text of the block's JSON form; the whole JSON if it has no text."""
    if not isinstance(entry.block, Unknown) and (text := to_block_json(entry).text) is not None:
        return text
    return encode_block(entry).decode()


def _text_readable(path: str, mime: str, text: str) -> ReadableContent:
    return ReadableContent(path=path, mime=mime, text=text, size_bytes=len(text.encode("utf-8", "surrogatepass")))
