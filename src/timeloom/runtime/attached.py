"""Sources of attachments: what a user attaches is in the pool before the first round, so that it can be cited."""

from collections.abc import Iterable

from timeloom.core.blocks import Attachment, AttachmentMeta, SourcesAdded
from timeloom.core.sources import NewSource, SourcesPool
from timeloom.core.sources.rows import MAX_TEXT_CHARS, eligible


def attached_sources(blocks: Iterable[AttachmentMeta | Attachment], pool: SourcesPool) -> tuple[SourcesAdded, ...]:
    """The block that adds them to the pool; none where nothing was attached that may enter it."""
    texts: dict[str, str] = {}
    metas: list[AttachmentMeta] = []
    for block in blocks:
        match block:
            case AttachmentMeta():
                metas.append(block)
            case Attachment(artifact_path=path, text=text):
                texts[path] = text[:MAX_TEXT_CHARS] if isinstance(text, str) else ""
    sources = [_source(meta, texts) for meta in metas if meta.digest.physical_path and eligible(meta.digest.mime)]
    rows = pool.merge(sources).added
    return (SourcesAdded(rows=rows),) if rows else ()


def _source(meta: AttachmentMeta, texts: dict[str, str]) -> NewSource:
    digest = meta.digest
    return NewSource(
        source_type="attachment",
        title=digest.artifact_path.rpartition("/")[2],
        text=texts.get(digest.artifact_path, ""),
        mime=digest.mime,
        size_bytes=digest.size_bytes,
        artifact_path=digest.artifact_path,
        physical_path=digest.physical_path,
    )
