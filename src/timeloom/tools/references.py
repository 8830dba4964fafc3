"""Loads the text of a `ref:` parameter if its path is visible to the agent."""

from typing import Final, cast

from timeloom.core.blocks import ResultDigest
from timeloom.core.codes import CodedError
from timeloom.core.paths import LogicalPath, SourcesPath
from timeloom.core.payload import BlobRef, Text, size_of
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views
from timeloom.ports.tool import TimelineReader
from timeloom.tools.artifacts import is_read_output
from timeloom.tools.parameters import ParamsError
from timeloom.tools.shown_names import shown_path
from timeloom.wire.block_json import to_block_json

_NEWEST: Final = 8
"""Newest entries of one path that are examined besides the first; a path that is read repeatedly has many."""


class NotVisibleError(CodedError):
    """A reference to a path that is not visible to the agent."""

    def __init__(self, message: str) -> None:
        super().__init__("protocol_violation.param_ref_not_visible", message)


async def load_referenced_text(path: LogicalPath, timeline: TimelineReader, max_bytes: int) -> str:
    """Return the newest text at that path as it was recorded, not as a prompt may have shortened it."""
    if isinstance(path, SourcesPath):
        return await _load_sources_text(path, timeline, max_bytes)
    if not is_visible(str(path), timeline.views):
        shown = shown_path(str(path), timeline.views)
        raise NotVisibleError(f"{shown} is not visible; bring it back with react.read, or give the text itself")
    return await _load_text_at(str(path), timeline, max_bytes)


def is_visible(path: str, views: Views) -> bool:
    """Return whether the prompt shows an entry at that path or alias unshortened."""
    visible = views.visible
    seqs = [*visible.at_path.get(path, ()), *((visible.at_alias[path],) if path in visible.at_alias else ())]
    return any(seq in visible.shown and visible.shown[seq] is None for seq in seqs)


async def _load_sources_text(path: SourcesPath, timeline: TimelineReader, max_bytes: int) -> str:
    rows = timeline.views.sources.pool.select(path.ranges)
    if missing := sorted(set(path.sids) - {row.sid for row in rows}):
        raise NotVisibleError(f"{path}: the sources pool has no source {', '.join(map(str, missing[:10]))}")
    texts: list[str] = []
    for row in rows:
        texts.append(await _load_source_text(row, timeline, max_bytes))
        max_bytes -= len(texts[-1].encode())
    if len(rows) == 1:
        return texts[0]
    heads = [f"[S:{row.sid}] {row.title} {row.url}".rstrip() for row in rows]
    return "\n\n".join(f"{head}\n{text}" for head, text in zip(heads, texts, strict=True))


async def _load_source_text(row: SourceRow, timeline: TimelineReader, max_bytes: int) -> str:
    """Return the body of the source; for a file or attachment without a body, the text at its path."""
    if not row.content and row.artifact_path and timeline.views.paths.find(row.artifact_path):
        return await _load_text_at(row.artifact_path, timeline, max_bytes)
    return await _load_text(row.content or row.text, timeline, max_bytes, f"source {row.sid}")


async def _load_text_at(path: str, timeline: TimelineReader, max_bytes: int) -> str:
    entry, name = await _find_original(path, timeline), shown_path(path, timeline.views)
    if entry is None:
        raise ParamsError(f"{name} is the metadata of files; refer to one of them by its fi: path")
    text = _text_of(entry)
    if text is None:
        raise ParamsError(f"{name} is {entry.block.mime_type()} and not text; name the file to a tool that takes files")
    whole = getattr(getattr(entry.block, "digest", None), "size_bytes", None)
    if isinstance(whole, int) and whole > size_of(text):
        raise ParamsError(f"{name} has {whole} bytes, of which the timeline keeps {size_of(text)}; use the file itself")
    return await _load_text(text, timeline, max_bytes, name)


async def _find_original(path: str, timeline: TimelineReader) -> Entry | None:
    """Return the newest entry with original content of the path; output of a read may be partial."""
    views = timeline.views
    seqs = list(views.paths.find(path))
    artifact = views.artifacts.artifacts.get(path)
    newest_content = artifact.latest.content_seqs if artifact else ()
    entries = await timeline.entries(sorted({*seqs[:1], *seqs[-_NEWEST:], *newest_content[-1:]}))
    entries.sort(key=lambda entry: entry.seq, reverse=True)
    with_content = [entry for entry in entries if not isinstance(entry.block, ResultDigest)]
    own = [entry for entry in with_content if not is_read_output(entry, views)]
    return next(iter([*own, *with_content]), None)


def _text_of(entry: Entry) -> Text | None:
    """Return the text of the block; the text of its JSON form if the block has no text field."""
    if "text" in entry.block.__struct_fields__:
        return cast(Text | None, getattr(entry.block, "text", None))
    return to_block_json(entry).text


async def _load_text(text: Text, timeline: TimelineReader, max_bytes: int, what: str) -> str:
    if size_of(text) > max_bytes:
        raise ParamsError(f"{what} has {size_of(text)} bytes, too many for a reference; name the part that you need")
    if isinstance(text, BlobRef):
        return (await timeline.payload(text)).decode("utf-8", "replace")
    return text
