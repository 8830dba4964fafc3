"""Turns attached files into blocks: metadata, text, and sources that can be cited."""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import Attachment, AttachmentMeta, Digest, Hosting, SourcesAdded
from timeloom.core.paths import FileForm, parse_long, to_physical
from timeloom.core.sources import NewSource, SourcesPool
from timeloom.core.sources.rows import MAX_TEXT_CHARS, is_eligible_mime
from timeloom.core.view.turn_index import hint
from timeloom.runtime.read.files import locate_file
from timeloom.runtime.session.session import Session


class IncomingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A text file attached to a message; its name is already sanitized."""

    name: str
    mime: str
    text: str


AttachmentBlock = AttachmentMeta | Attachment | SourcesAdded


def attach_files(
    files: Sequence[IncomingFile], path: Callable[[str], FileForm], session: Session
) -> list[AttachmentBlock]:
    """Return the blocks that add the files to a turn of the session and to its sources."""
    return add_attachments(to_attachment_blocks(files, path), session)


def add_attachments(blocks: Iterable[AttachmentMeta | Attachment], session: Session) -> list[AttachmentBlock]:
    """Return the blocks with the locations of their files, and the block that adds them to the sources."""
    hosted = host_attachments(blocks, lambda path: locate_file(path, session.caller, session.conversation))
    return [*hosted, *to_source_blocks(hosted, session.views.sources.pool, session.source_ids.first_free)]


def to_attachment_blocks(
    files: Sequence[IncomingFile], path: Callable[[str], FileForm]
) -> tuple[AttachmentMeta | Attachment, ...]:
    """Return the metadata and text blocks of each file, under unique paths made from their names."""
    blocks: list[AttachmentMeta | Attachment] = []
    used_names: set[str] = set()
    for file in files:
        form = path(_unique_name(file.name, used_names))
        digest = Digest(
            artifact_path=str(form),
            physical_path=str(to_physical(form)),
            mime=file.mime,
            size_bytes=len(file.text.encode("utf-8", "surrogatepass")),
        )
        blocks.append(AttachmentMeta(digest=digest, summary=_summary(file.text)))
        blocks.append(Attachment(artifact_path=str(form), mime=file.mime, text=file.text, digest=digest))
    return tuple(blocks)


def host_attachments(
    blocks: Iterable[AttachmentMeta | Attachment], locate: Callable[[FileForm], Hosting]
) -> tuple[AttachmentMeta | Attachment, ...]:
    """Return the blocks with the location and the digest of each file in its content block."""
    given = tuple(blocks)
    digests = {block.digest.artifact_path: block.digest for block in given if isinstance(block, AttachmentMeta)}
    return tuple(_host(block, digests, locate) if isinstance(block, Attachment) else block for block in given)


def _host(block: Attachment, digests: Mapping[str, Digest], locate: Callable[[FileForm], Hosting]) -> Attachment:
    path = parse_long(block.artifact_path)
    hosting = locate(path) if isinstance(path, FileForm) else block.hosting
    return replace(block, hosting=hosting, digest=digests.get(block.artifact_path, block.digest))


def to_source_blocks(
    blocks: Iterable[AttachmentMeta | Attachment], pool: SourcesPool, first_sid: int = 1
) -> tuple[SourcesAdded, ...]:
    """Return the block that adds the attachments to the sources; empty if none of them can be a source."""
    texts: dict[str, str] = {}
    metas: list[AttachmentMeta] = []
    for block in blocks:
        match block:
            case AttachmentMeta():
                metas.append(block)
            case Attachment(artifact_path=path, text=text):
                texts[path] = text[:MAX_TEXT_CHARS] if isinstance(text, str) else ""
    sources = [
        _to_source(meta, texts) for meta in metas if meta.digest.physical_path and is_eligible_mime(meta.digest.mime)
    ]
    rows = pool.merge(sources, first_sid).added
    return (SourcesAdded(rows=rows),) if rows else ()


def _to_source(meta: AttachmentMeta, texts: dict[str, str]) -> NewSource:
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


def _summary(text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    return f"{lines} line{'' if lines == 1 else 's'}, beginning: {hint(text)}" if text.strip() else "empty"


def _unique_name(name: str, used_names: set[str]) -> str:
    """Return the name, numbered if needed to be unique on file systems that ignore case or Unicode form."""
    stem, dot, end = name.rpartition(".")
    stem, dot, end = (stem, dot, end) if stem else (name, "", "")
    unique, n = name, 1
    while _folded(unique) in used_names:
        n += 1
        unique = f"{stem}-{n}{dot}{end}"
    used_names.add(_folded(unique))
    return unique


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
