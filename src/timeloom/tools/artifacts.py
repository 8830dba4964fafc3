"""Finds a file's newest content by logical path and copies it into the workspace if it is not there yet."""

import asyncio

import msgspec

from timeloom.core.blocks import Attachment, AttachmentMeta, Digest, Hosting, ResultContent, ResultDigest
from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.paths import FileForm, FilePath, PhysicalPath, to_physical
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Entry
from timeloom.core.view.artifacts import ArtifactsView, ArtifactVersion
from timeloom.core.view.views import Views
from timeloom.ports.tool import TimelineReader, ToolContext
from timeloom.tools.mime import guess_mime
from timeloom.tools.shown_names import shown_path
from timeloom.tools.workspace import Workspace


class ArtifactError(CodedError):
    """A file that does not exist or does not have the requested form."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as stored on the timeline."""

    data: bytes
    mime: str
    digest: Digest | None = None
    hosting: Hosting | None = None

    @property
    def complete(self) -> bool:
        """Whether the content is complete; of some results the timeline stores only the beginning."""
        return not self.digest or (self.digest.size_bytes or 0) <= len(self.data)


class LocalFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file in the workspace, with the `digest` and `hosting` that the timeline records for it.

    An incomplete file is not in the workspace: the timeline stored only its beginning.
    """

    path: FileForm
    physical: PhysicalPath
    mime: str
    data: bytes
    digest: Digest | None = None
    hosting: Hosting | None = None
    complete: bool = True


def is_editable(path: FileForm, turn: TurnId) -> bool:
    """Return whether tools may write to the path in that turn: only its files and outputs, never attachments."""
    return isinstance(path, FilePath) and path.turn == turn


async def load_local_file(path: FileForm, context: ToolContext) -> LocalFile:
    """Return the complete file and ensure that it is in the workspace; raise `ArtifactError` if it does not exist.

    For files of the current turn the workspace has the newest content, because programs write there too. For any other
    file the timeline decides, and a differing copy in the workspace is replaced.
    """
    found = await find_file(path, context)
    if found is None:
        raise ArtifactError("path_not_found", f"there is no file {shown_path(str(path), context.timeline.views)}")
    if not found.complete:
        shown = shown_path(str(path), context.timeline.views)
        raise ArtifactError("path_not_found", f"of {shown} only the first {len(found.data)} bytes were kept")
    return found


async def find_file(path: FileForm, context: ToolContext) -> LocalFile | None:
    """Return the file like `load_local_file`, possibly incomplete; None if it does not exist."""
    workspace, physical_path = Workspace(context.out_dir), to_physical(path)
    editable = is_editable(path, context.turn_id)
    if editable and (data := await asyncio.to_thread(workspace.read, physical_path)) is not None:
        return await _from_workspace(path, data, context.timeline)
    stored = await find_stored_file(path, context.timeline)
    if not editable and (stored is None or not stored.complete):
        data = await asyncio.to_thread(workspace.read, physical_path)
        if data is not None:
            return await _from_workspace(path, data, context.timeline)
    if stored is None:
        return None
    if stored.complete:
        await asyncio.to_thread(workspace.ensure_content, physical_path, stored.data, read_only=not editable)
    return LocalFile(
        path=path,
        physical=physical_path,
        mime=stored.mime,
        data=stored.data,
        digest=stored.digest,
        hosting=stored.hosting,
        complete=stored.complete,
    )


def is_read_output(entry: Entry, views: Views) -> bool:
    """Return whether the entry is output of a read: a full or partial copy of another entry's content."""
    block = entry.block
    return isinstance(block, ResultContent) and views.artifacts.is_reading(entry.turn_id, block.tool_call_id)


async def find_stored_file(path: FileForm, timeline: TimelineReader) -> StoredFile | None:
    """Return the newest version on the timeline; None if there is none or it has no content.

    A failed version changed nothing, so the previous one is returned. Output of a read is not a version.
    """
    for version in list_written_versions(path, timeline.views.artifacts):
        digest, content = await load_version_parts(version, timeline)
        if content is None or (digest and digest.error):
            continue
        return await _load_stored_file(digest, content, path, timeline)
    return None


async def find_digest(path: FileForm, timeline: TimelineReader) -> Digest | None:
    """Return the metadata of the newest version that did not fail; None if there is none."""
    known = timeline.views.artifacts.artifacts.get(str(path))
    if known is None or known.digest is None or known.digest.error is None:
        return known.digest if known else None
    for version in list_written_versions(path, timeline.views.artifacts):
        digest, _ = await load_version_parts(version, timeline)
        if digest and not digest.error:
            return digest
    return None


def list_written_versions(path: FileForm, views: ArtifactsView) -> list[ArtifactVersion]:
    """Return the versions of the file, newest first, without those that a read produced."""
    artifact = views.artifacts.get(str(path))
    calls = artifact.by_call if artifact else {}
    made = [place for call, place in calls.items() if call not in views.reading_calls]
    return [artifact.versions[place] for place in sorted(made, reverse=True)] if artifact else []


async def load_version_parts(
    version: ArtifactVersion, timeline: TimelineReader
) -> tuple[Digest | None, ResultContent | Attachment | None]:
    """Return the digest and the content of one version of an artifact."""
    seqs = [*version.content_seqs, *([version.digest_seq] if version.digest_seq else [])]
    digest: Digest | None = None
    content: ResultContent | Attachment | None = None
    for entry in sorted(await timeline.entries(seqs), key=_seq):
        block = entry.block
        if isinstance(block, ResultDigest | AttachmentMeta):
            digest = block.digest
        if isinstance(block, ResultContent | Attachment):
            content = block
    return digest, content


def _seq(entry: Entry) -> int:
    return entry.seq


async def _load_stored_file(
    digest: Digest | None, content: ResultContent | Attachment, path: FileForm, timeline: TimelineReader
) -> StoredFile | None:
    payload = content.data if content.text is None else content.text
    if payload is None:
        return None
    if isinstance(payload, BlobRef):
        data = await timeline.payload(payload)
    else:
        data = payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else payload
    return StoredFile(
        data=data, mime=_mime(digest.mime if digest else "", content.mime, path), digest=digest, hosting=content.hosting
    )


async def _from_workspace(path: FileForm, data: bytes, timeline: TimelineReader) -> LocalFile:
    digest = await find_digest(path, timeline)
    mime = _mime(digest.mime if digest else "", "", path)
    return LocalFile(path=path, physical=to_physical(path), mime=mime, data=data, digest=digest)


def _mime(declared: str, of_content: str, path: FileForm) -> str:
    return declared or of_content or guess_mime(str(path))
