"""Appends the results of calls together with the source rows of the files that they produced."""

from collections.abc import Iterator, Sequence

import msgspec

from timeloom.core.blocks import AnyBlock, ResultContent, ResultDigest, ResultStatus, SourcesAdded
from timeloom.core.ids import TurnId
from timeloom.core.paths import MAX_SELECTED, MAX_SID
from timeloom.core.sources import NewSource, SourcesPool
from timeloom.core.sources.rows import is_eligible_mime
from timeloom.core.timeline import Entry
from timeloom.core.view.turn_index import hint
from timeloom.core.view.views import Views
from timeloom.runtime.session.session import Session


class AppendSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the blocks of a result are appended."""

    deferred: bool = False
    """Whether they become durable with the next append, as with `Session.append_deferred`."""
    cites_files: bool = True
    """Whether the files of the result enter the sources pool."""


async def append_result(
    session: Session, blocks: Sequence[AnyBlock], turn: TurnId, settings: AppendSettings | None = None
) -> tuple[Entry, ...]:
    """Append the blocks of a result, with the source rows of its files before them."""
    settings = settings or AppendSettings()
    append = session.append_deferred if settings.deferred else session.append
    while settings.cites_files:
        tail = session.views.tail
        whole = add_file_sources(blocks, turn, session.views, session.now(), session.source_ids.first_free)
        if len(whole) == len(blocks):
            break
        # Another append may have taken the ids of the rows meanwhile; then nothing is appended.
        if entries := await append(whole, turn, after=tail):
            return entries
    return await append(blocks, turn)


def add_file_sources(
    blocks: Sequence[AnyBlock], turn: TurnId, views: Views, now: str, first_free: int = 1
) -> tuple[AnyBlock, ...]:
    """Return the blocks with the rows of new and changed files before the first result.

    Only files that the user can download become sources: a citation must lead somewhere. The block of the rows names no
    call, because the result itself decides where the text comes from and what is erased with it.
    """
    taken = [row.sid for block in blocks if isinstance(block, SourcesAdded) for row in block.rows]
    pool = views.sources.pool
    sources = [source for source in _find_files(blocks, turn, views, now) if not _is_known(source, pool)][:MAX_SELECTED]
    first_sid = max([pool.next_sid, first_free, *(sid + 1 for sid in taken)])
    rows = pool.merge(sources, first_sid).added if first_sid + len(sources) <= MAX_SID else ()
    if not rows:
        return tuple(blocks)
    added = SourcesAdded(rows=rows)
    at = next(n for n, block in enumerate(blocks) if isinstance(block, ResultDigest | ResultStatus | ResultContent))
    return (*blocks[:at], added, *blocks[at:])


def _find_files(blocks: Sequence[AnyBlock], turn: TurnId, views: Views, now: str) -> Iterator[NewSource]:
    texts = {block.artifact_path: block.text for block in blocks if isinstance(block, ResultContent)}
    for block in blocks:
        if not isinstance(block, ResultDigest) or views.artifacts.is_reading(turn, block.tool_call_id):
            continue
        digest = block.digest
        is_there = digest.error is None and digest.size_bytes != 0 and digest.physical_path != ""
        if is_there and digest.visibility == "external" and is_eligible_mime(digest.mime):
            text = texts.get(digest.artifact_path)
            yield NewSource(
                source_type="file",
                title=digest.artifact_path.rpartition("/")[2],
                text=hint(text) if isinstance(text, str) else "",
                mime=digest.mime,
                size_bytes=digest.size_bytes,
                artifact_path=digest.artifact_path,
                physical_path=digest.physical_path,
                modified_time_iso=now,
            )


def _is_known(source: NewSource, pool: SourcesPool) -> bool:
    """Return whether the pool has the file with the same beginning and size."""
    known = pool.find(source)
    return known is not None and (known.text, known.size_bytes, known.mime) == (
        source.text,
        source.size_bytes,
        source.mime,
    )
