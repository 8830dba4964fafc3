"""Lists and opens the files of a conversation for download, by path or resource name."""

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from timeloom.core.blocks import Attachment, Digest, Hosting, ResultContent
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.paths import FileForm, FilePath, PathError, ResourceName, parse_long, to_physical
from timeloom.core.payload import BlobRef, Data, Text, ref_of, size_of
from timeloom.core.timeline import Entry
from timeloom.core.view.aliases import parse_in
from timeloom.core.view.artifacts import ArtifactHistory, ArtifactVersion
from timeloom.core.view.views import Views
from timeloom.platform.open_beneath import BeneathError
from timeloom.platform.tasks import run_despite_cancellation
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.store import Store
from timeloom.ports.tool import Caller
from timeloom.runtime.session.load_views import load_views
from timeloom.tools.artifacts import find_digest, list_written_versions, load_version_parts
from timeloom.tools.mime import guess_mime
from timeloom.tools.workspace import Workspace

PIECE_BYTES: Final = 256 * 1024
"""Bytes of a file read at once. Smaller needs more disk reads; larger more memory per reader."""


class FileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A downloadable file: its path on the timeline, resource name, URL, type and size."""

    path: str
    rn: str
    url: str
    name: str
    mime: str
    size_bytes: int


class HostedFile:
    """A file that is open for reading; the caller closes it."""

    def __init__(self, card: FileInfo, sha256: str, source: "_FileSource") -> None:
        self.info = card
        self.sha256 = sha256
        self._source = source

    async def pieces(self, start: int, stop: int) -> AsyncGenerator[bytes]:
        """Yield the bytes from `start` up to but not including `stop`."""
        while start < stop:
            piece = await self._source.read(start, min(PIECE_BYTES, stop - start))
            if not piece:
                raise CodedError("workspace_failed", f"{self.info.path} became shorter while it was read")
            yield piece
            start += len(piece)

    async def close(self) -> None:
        """Close the file."""
        await self._source.close()


def parse_file_path(text: str, views: Views | None = None) -> FileForm:
    """Parse the logical path of a file; raises `PathError`. With `views`, its turn may have an alias."""
    path = parse_long(text) if views is None else parse_in(text, views)
    if not isinstance(path, FileForm):
        raise PathError("path_not_a_file", f"only fi: paths name files, got {text[:40]!r}")
    return path


def resource_name(path: FileForm, owner: Caller, conversation: ConversationId) -> ResourceName:
    """Return the resource name of a file of that conversation."""
    return ResourceName(
        tenant=owner.tenant, project=owner.project, user=owner.user, conversation=conversation, path=path
    )


def get_artifact_url(path: str, owner: Caller, conversation: ConversationId, base_url: str = "") -> str:
    """Return the URL of that file, for users with access to the conversation; raises `PathError`.

    Without `base_url` the URL is relative. The file need not exist.
    """
    names = "/".join(quote(name, safe="") for name in (owner.tenant, owner.project, conversation))
    return f"{base_url.rstrip('/')}/conversations/{names}/file?path={quote(str(parse_file_path(path)), safe='/:')}"


def locate_file(path: FileForm, owner: Caller, conversation: ConversationId) -> Hosting:
    """Return where a downloadable file is hosted: its URL, its resource name, and its key among all workspaces."""
    return Hosting(
        hosted_uri=get_artifact_url(str(path), owner, conversation),
        rn=str(resource_name(path, owner, conversation)),
        key=f"{conversation}/{to_physical(path)}",
    )


def describe_file(path: FileForm, info: ConversationInfo, mime: str, size_bytes: int) -> FileInfo:
    """Return the `FileInfo` of a downloadable file; an empty `mime` is guessed from the path."""
    owner = Caller(tenant=info.tenant, project=info.project, user=info.user)
    return FileInfo(
        path=str(path),
        rn=str(resource_name(path, owner, info.id)),
        url=get_artifact_url(str(path), owner, info.id),
        name=to_physical(path).names[-1],
        mime=mime or guess_mime(str(path)),
        size_bytes=size_bytes,
    )


async def list_downloadable_files(
    store: Store, info: ConversationInfo, views: Views, after: int, limit: int
) -> tuple[list[FileInfo], int | None]:
    """Return up to `limit` downloadable files in creation order, and the position where the next page begins."""
    artifacts, found = list(views.artifacts.artifacts.items()), list[FileInfo]()
    for place, (text, artifact) in enumerate(artifacts[after:], after):
        if len(found) == limit:
            return found, place
        if file := await describe_artifact(store, info, views, text, artifact):
            found.append(file)
    return found, None


async def describe_artifact(
    store: Store, info: ConversationInfo, views: Views, text: str, artifact: ArtifactHistory
) -> FileInfo | None:
    """Return the description of the artifact at that path if it is a downloadable file, else None."""
    if not artifact.digest or not text.startswith("fi:"):
        return None
    path, timeline = parse_file_path(text), _StoredTimeline(store, info, views)
    # A failed call changed nothing, so the previous version counts.
    digest = await find_digest(path, timeline)
    if not digest or not list_written_versions(path, views.artifacts) or not is_downloadable(path, digest):
        return None
    # Erasing removes the size, and a deleted file has none, so the entries are read only for files without a size.
    if not digest.size_bytes and await timeline.is_gone(path, artifact.latest):
        return None
    return describe_file(path, info, digest.mime, digest.size_bytes or 0)


def is_downloadable(path: FileForm, digest: Digest | None) -> bool:
    """Return whether the file may be downloaded: attachments, and files the agent made for others."""
    visibility = digest.visibility if digest else None
    return visibility == "external" if isinstance(path, FilePath) else visibility != "internal"


async def open_file(store: Store, info: ConversationInfo, path: FileForm | str, workspaces: Path) -> HostedFile:
    """Open the newest downloadable version of a file; raises `CodedError` if there is none.

    The text of a path may have the alias of its turn.
    """
    timeline = _StoredTimeline(store, info, await load_views(store, info.id))
    if isinstance(path, str):
        path = parse_file_path(path, timeline.views)
    for version in list_written_versions(path, timeline.views.artifacts):
        digest, content = await load_version_parts(version, timeline)
        if digest and digest.error:
            # A failed call changed nothing, so the previous version counts.
            continue
        if is_downloadable(path, digest) and not await timeline.is_erased(version):
            return await _open_version(timeline, path, digest, content, workspaces)
        break
    raise _not_found_error(path)


async def _open_version(
    timeline: "_StoredTimeline",
    path: FileForm,
    digest: Digest | None,
    content: ResultContent | Attachment | None,
    workspaces: Path,
) -> HostedFile:
    mime = (digest.mime if digest else "") or (content.mime if content else "")
    payload = _content_payload(content)
    if payload is not None and (digest is None or (digest.size_bytes or 0) <= size_of(payload)):
        data = payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else payload
        ref = data if isinstance(data, BlobRef) else ref_of(data)
        source = (
            _BlobSource(timeline.store, timeline.info.tenant, data)
            if isinstance(data, BlobRef)
            else _MemorySource(data)
        )
        # Fails on a lost payload before anything is sent.
        await source.read(0, 1)
        return HostedFile(describe_file(path, timeline.info, mime, ref.size_bytes), ref.sha256, source)
    # The timeline has none or only some of the bytes, so they are read from the conversation's workspace.
    opening = asyncio.to_thread(_open_local, workspaces / timeline.info.id, path)
    (descriptor, size_bytes, sha256), cancelled = await run_despite_cancellation(opening)
    if cancelled:
        os.close(descriptor)
        raise asyncio.CancelledError
    return HostedFile(describe_file(path, timeline.info, mime, size_bytes), sha256, _LocalFileSource(descriptor))


class _StoredTimeline:
    """Reads a stored conversation without a lease."""

    def __init__(self, store: Store, info: ConversationInfo, views: Views) -> None:
        self.store = store
        self.info = info
        self._views = views

    @property
    def views(self) -> Views:
        return self._views

    async def entries(self, seqs: Sequence[int]) -> list[Entry]:
        return [entry for seq in seqs for entry in await self.store.load(self.info.id, after=seq - 1, limit=1)]

    async def payload(self, ref: BlobRef) -> bytes:
        return await self.store.read_blob(self.info.tenant, ref)

    async def is_gone(self, path: FileForm, version: ArtifactVersion) -> bool:
        """Return whether the version was erased, or deletes a file that the agent made."""
        if await self.is_erased(version):
            return True
        digest, content = await load_version_parts(version, self)
        is_empty = digest is not None and digest.size_bytes == 0 and _content_payload(content) is None
        return is_empty and isinstance(path, FilePath)

    async def is_erased(self, version: ArtifactVersion) -> bool:
        """Return whether an entry of the version was erased."""
        seqs = [*version.content_seqs, *([version.digest_seq] if version.digest_seq else [])]
        return any(entry.block.erased for entry in await self.entries(seqs))


class _BlobSource:
    """Bytes in the blob store."""

    def __init__(self, store: Store, tenant: str, ref: BlobRef) -> None:
        self._store, self._tenant, self._ref = store, tenant, ref

    async def read(self, start: int, most_bytes: int) -> bytes:
        return await self._store.read_part(self._tenant, self._ref, start, most_bytes)

    async def close(self) -> None:
        pass


class _MemorySource:
    """Bytes in memory, such as a short text that is stored in its entry."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def read(self, start: int, most_bytes: int) -> bytes:
        return self._data[start : start + most_bytes]

    async def close(self) -> None:
        pass


class _LocalFileSource:
    """An open file of the workspace; replacing the file does not affect the read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def read(self, start: int, most_bytes: int) -> bytes:
        return await asyncio.to_thread(os.pread, self._descriptor, most_bytes, start)

    async def close(self) -> None:
        os.close(self._descriptor)


_FileSource = _BlobSource | _MemorySource | _LocalFileSource


def _content_payload(content: ResultContent | Attachment | None) -> Text | Data | None:
    if content is None:
        return None
    return content.data if content.text is None else content.text


def _open_local(out_dir: Path, path: FileForm) -> tuple[int, int, str]:
    """Return a descriptor of the file in the workspace, its size, and the hash of its content."""
    try:
        descriptor = Workspace(out_dir).open(to_physical(path))
    except BeneathError as error:
        raise _not_found_error(path) from error
    if descriptor is None:
        raise _not_found_error(path)
    digest, size_bytes = hashlib.sha256(), 0
    try:
        while piece := os.pread(descriptor, PIECE_BYTES, size_bytes):
            digest.update(piece)
            size_bytes += len(piece)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, size_bytes, digest.hexdigest()


def _not_found_error(path: FileForm) -> CodedError:
    return CodedError("path_not_found", f"there is no file {path} in this conversation")
