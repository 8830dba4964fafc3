"""Writes conversations to an archive, which an import reads back with every hash."""

import asyncio
import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from timeloom.core.blocks.extract_payloads import find_blob_refs
from timeloom.core.ids import ConversationId
from timeloom.core.paths import PhysicalPath
from timeloom.core.payload import BlobRef
from timeloom.platform.open_beneath import BeneathError
from timeloom.ports.store import Store
from timeloom.runtime.archive.tar_members import CHUNK_BYTES, write_end, write_member
from timeloom.tools.workspace import Workspace
from timeloom.wire.archive import (
    END,
    MANIFEST,
    ArchivedConversation,
    ArchivedFile,
    ArchiveEnd,
    ArchiveManifest,
    conversation_member,
    encode_json,
    encode_link,
    payload_member,
)
from timeloom.wire.chain import ChainLink, hash_link
from timeloom.wire.heads import Head, encode_head
from timeloom.wire.linked_entries import decode_linked_entries

PAGE: Final = 500
"""Entries that are read at once."""


class ArchivedCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive has of one conversation."""

    conversation: ConversationId
    entries: int
    payloads: int
    files: int
    left_out: int = 0
    """Names in the workspace that are no regular files or that no path can name."""


class ArchiveWriter:
    """Writes an archive conversation by conversation. A conversation that cannot be read leaves no trace in it."""

    def __init__(self, out: BinaryIO, spool_folder: Path | None = None) -> None:
        self._out = out
        self._spool_folder = spool_folder
        self._written: set[str] = set()
        """Hashes of the payloads that the archive has already."""
        self._conversations = 0
        _write(out, MANIFEST, encode_json(ArchiveManifest()))

    async def add(self, store: Store, conversation: ConversationId, workspaces: Path) -> ArchivedCounts:
        """Add the conversation as it is now; raises `CodedError` for a damaged one."""
        info = await store.info(conversation)
        links, refs = await _load_links(store, conversation, info.tail)
        head = hash_link(links[-1])
        heads = tuple(one for one in await store.load_heads(conversation) if one.seq <= info.tail)
        await asyncio.to_thread(decode_linked_entries, conversation, links, head, heads)
        wanted = sorted({ref for ref in refs if ref.sha256 not in self._written}, key=_digest)
        # The whole conversation is written aside first, because a payload may be damaged or erased meanwhile.
        with tempfile.TemporaryFile(dir=self._spool_folder) as spool:
            files, left_out = await asyncio.to_thread(_list_workspace, workspaces / conversation)
            _write_description(spool, conversation, links, head, heads, files)
            for ref in wanted:
                _write(spool, payload_member(ref.sha256), await store.read_blob(info.tenant, ref))
            await asyncio.to_thread(_write_files, spool, conversation, workspaces / conversation, files)
            await asyncio.to_thread(_copy, spool, self._out)
        self._written.update(ref.sha256 for ref in wanted)
        self._conversations += 1
        return ArchivedCounts(
            conversation=conversation, entries=len(links), payloads=len(refs), files=len(files), left_out=left_out
        )

    def finish(self) -> None:
        """Write the end. Without it, an import refuses the archive."""
        _write(self._out, END, encode_json(ArchiveEnd(conversations=self._conversations)))
        write_end(self._out)
        self._out.flush()


async def _load_links(
    store: Store, conversation: ConversationId, tail: int
) -> tuple[list[ChainLink], frozenset[BlobRef]]:
    links: list[ChainLink] = []
    refs: set[BlobRef] = set()
    while len(links) < tail and (
        page := await store.load(conversation, after=len(links), limit=min(PAGE, tail - len(links)))
    ):
        links += await store.load_chain(conversation, after=len(links), limit=len(page))
        for entry in page:
            refs.update(find_blob_refs(entry))
    return links, frozenset(refs)


def _write_description(
    out: BinaryIO,
    conversation: ConversationId,
    links: list[ChainLink],
    head: bytes,
    heads: tuple[Head, ...],
    files: list[ArchivedFile],
) -> None:
    described = ArchivedConversation(id=conversation, tail=len(links), head=head.hex(), files=len(files))
    for name, data in (
        ("conversation.json", encode_json(described)),
        ("entries.jsonl", b"".join(map(encode_link, links))),
        ("heads.jsonl", b"".join(map(encode_head, heads))),
        ("files.jsonl", b"".join(map(encode_json, files))),
    ):
        _write(out, conversation_member(conversation, name), data)


def _list_workspace(folder: Path) -> tuple[list[ArchivedFile], int]:
    """Return the files of a workspace with their hashes, and the number of names that are left out."""
    workspace = Workspace(folder)
    found: list[ArchivedFile] = []
    seen = 0
    for turn in sorted(_turn_folders(folder)):
        listing = workspace.list_files((turn,))
        for path in listing.files:
            with contextlib.suppress(BeneathError):
                found += _describe_file(workspace, path)
        seen += sum(len(names) for _, _, names in os.walk(folder / turn))
    return found, max(0, seen - len(found))


def _turn_folders(folder: Path) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        yield from (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))


def _describe_file(workspace: Workspace, path: PhysicalPath) -> Iterator[ArchivedFile]:
    descriptor = workspace.open(path)
    if descriptor is None:
        return
    with os.fdopen(descriptor, "rb") as file:
        digest, size = hashlib.sha256(), 0
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
        status = os.fstat(file.fileno())
    yield ArchivedFile(
        path=str(path),
        sha256=digest.hexdigest(),
        size_bytes=size,
        mode=status.st_mode & 0o777,
        mtime_us=status.st_mtime_ns // 1000,
    )


def _write_files(out: BinaryIO, conversation: ConversationId, folder: Path, files: list[ArchivedFile]) -> None:
    workspace = Workspace(folder)
    for number, file in enumerate(files, 1):
        name = conversation_member(conversation, f"files/{number}")
        descriptor = workspace.open(PhysicalPath(file.path))
        with os.fdopen(descriptor, "rb") if descriptor is not None else BytesIO() as content:
            write_member(out, name, content, file.size_bytes)


def _copy(spool: BinaryIO, out: BinaryIO) -> None:
    spool.seek(0)
    while chunk := spool.read(CHUNK_BYTES):
        out.write(chunk)


def _write(out: BinaryIO, name: str, data: bytes) -> None:
    write_member(out, name, BytesIO(data), len(data))


def _digest(ref: BlobRef) -> str:
    return ref.sha256
