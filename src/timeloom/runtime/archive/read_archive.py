"""Reads an archive and checks all of it: its form, every hash chain, payload and file.

The data is hostile until it is checked. Sizes, counts and depths have limits, a name in the archive never becomes a
path, and nothing is written.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, Final

from timeloom.core.blocks import ConversationStarted
from timeloom.core.blocks.extract_payloads import find_blob_refs
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.paths import PathError, PhysicalPath
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Entry
from timeloom.ports.importer import ImportedConversation, ReadPayload
from timeloom.runtime.archive.tar_members import TarMember, iter_chunks, iter_lines, iter_members, read_member
from timeloom.tools.workspace import MAX_LISTED_DEPTH, RESERVED_PREFIX
from timeloom.wire.archive import (
    ARCHIVE_VERSION,
    END,
    MANIFEST,
    ArchivedConversation,
    ArchivedFile,
    ArchiveEnd,
    ArchiveManifest,
    check_references,
    conversation_member,
    decode_hex,
    decode_json,
    decode_link,
    parse_payload_member,
)
from timeloom.wire.heads import LINE_BYTES, Head
from timeloom.wire.linked_entries import ArchiveError, decode_linked_entries

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""Longest record. Records have texts of up to 32 KiB for each field; lists of sources have many."""

MAX_ENTRIES_BYTES: Final = 1024**3
"""Most bytes of the records of one conversation, which take five times as much memory while they are stored."""

MAX_LIST_BYTES: Final = 128 * 1024**2
"""Most bytes of the heads or of the list of files of one conversation."""

MAX_PAYLOAD_BYTES: Final = 1024**3
"""Largest payload, which is in memory while it is stored."""

MAX_FILES: Final = 200_000
_MAX_JSON_BYTES: Final = 64 * 1024

OpenFile = Callable[[int], Iterator[bytes]]
"""Returns the content of the file with that index, in pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundConversation:
    """A conversation in an archive or an export, after everything about it was checked."""

    imported: ImportedConversation
    header: ConversationStarted
    entries: tuple[Entry, ...]
    payloads: int
    files: tuple[ArchivedFile, ...]
    read_payload: ReadPayload
    open_file: OpenFile


class ArchiveReader:
    """Reads the conversations of a seekable archive."""

    def __init__(self, archive: BinaryIO, on_bytes: Callable[[int], None] = lambda _: None) -> None:
        self._archive = archive
        self._on_bytes = on_bytes
        """Called with the number of bytes that were checked."""
        self._payloads: dict[str, TarMember] = {}
        self._members = iter_members(archive)

    def iter_conversations(self) -> Iterator[FoundConversation]:
        """Yield each conversation once it is checked; raises `CodedError` at the first fault.

        The archive is complete only if the iteration ends without an error.
        """
        self._check_manifest()
        seen: set[ConversationId] = set()
        member = self._next()
        while member.name != END:
            found, member = self._read_conversation(member)
            if found.imported.id in seen:
                raise ArchiveError(f"conversation {found.imported.id} is in the archive twice")
            seen.add(found.imported.id)
            yield found
        end = decode_json(read_member(self._archive, member, _MAX_JSON_BYTES), ArchiveEnd, END)
        if next(self._members, None):
            raise ArchiveError(f"the archive has members after its {END}; export or copy it again")
        if end.conversations != len(seen):
            raise ArchiveError(f"the archive has {len(seen)} conversations, and its end says {end.conversations}")

    def _check_manifest(self) -> None:
        member = self._next()
        if member.name != MANIFEST:
            raise ArchiveError(f"an archive begins with {MANIFEST}, got {member.name[:60]}")
        manifest = decode_json(read_member(self._archive, member, _MAX_JSON_BYTES), ArchiveManifest, MANIFEST)
        if manifest.version > ARCHIVE_VERSION:
            raise CodedError(
                "store_format_unknown",
                f"the archive has version {manifest.version}, and this timeloom reads up to {ARCHIVE_VERSION}; "
                "use the version that wrote it, or a newer one",
            )

    def _read_conversation(self, member: TarMember) -> tuple[FoundConversation, TarMember]:
        """Return the conversation whose description is that member, and the member after it."""
        described = decode_json(read_member(self._archive, member, _MAX_JSON_BYTES), ArchivedConversation, member.name)
        name = described.id
        _check_name(member, name, "conversation.json")
        links = tuple(
            decode_link(line, "entries.jsonl")
            for line in self._iter_lines(name, "entries.jsonl", MAX_LINE_BYTES, MAX_ENTRIES_BYTES)
        )
        heads = tuple(
            decode_json(line, Head, "heads.jsonl")
            for line in self._iter_lines(name, "heads.jsonl", LINE_BYTES, MAX_LIST_BYTES)
        )
        files = tuple(
            decode_json(line, ArchivedFile, "files.jsonl")
            for line in islice(self._iter_lines(name, "files.jsonl", _MAX_JSON_BYTES, MAX_LIST_BYTES), MAX_FILES + 1)
        )
        head = decode_hex(described.head, member.name)
        entries = decode_linked_entries(name, links, head, heads)
        if (len(entries), len(files)) != (described.tail, described.files) or any(
            one.conversation != name for one in heads
        ):
            raise ArchiveError(f"conversation {name} does not have the entries, heads or files that it should have")
        _check_files(files)
        refs = frozenset(ref for entry in entries for ref in find_blob_refs(entry))
        member = self._read_payloads(refs, self._next())
        members: list[TarMember] = []
        for number, file in enumerate(files, 1):
            _check_name(member, name, f"files/{number}")
            self._check_content(member, file.sha256, file.size_bytes)
            members.append(member)
            member = self._next()
        header = entries[0].block
        assert isinstance(header, ConversationStarted)
        found = FoundConversation(
            imported=ImportedConversation(id=name, links=links, head=head, heads=heads),
            header=header,
            entries=entries,
            payloads=len(refs),
            files=files,
            read_payload=self._read_payload,
            open_file=lambda index: iter_chunks(self._archive, members[index]),
        )
        return found, member

    def _iter_lines(self, conversation: ConversationId, name: str, most_bytes: int, total: int) -> Iterator[bytes]:
        member = self._next()
        _check_name(member, conversation, name)
        if member.size > total:
            raise ArchiveError(f"{name} has at most {total} bytes, got {member.size}")
        return iter_lines(self._archive, member, most_bytes)

    def _read_payloads(self, refs: frozenset[BlobRef], member: TarMember) -> TarMember:
        """Check the payloads from that member on, and return the member after them."""
        sizes = check_references(refs)
        while sha256 := parse_payload_member(member.name):
            if sha256 not in sizes or sha256 in self._payloads or member.size > MAX_PAYLOAD_BYTES:
                raise ArchiveError(f"payload {sha256} is too large, there twice, or no entry before it refers to it")
            self._check_content(member, sha256, sizes[sha256])
            self._payloads[sha256] = member
            member = self._next()
        for sha256, size in sizes.items():
            known = self._payloads.get(sha256)
            if not known or known.size != size:
                raise CodedError("blob_missing", f"payload {sha256} of {size} bytes is not in the archive")
        return member

    def _read_payload(self, ref: BlobRef) -> bytes:
        return read_member(self._archive, self._payloads[ref.sha256], MAX_PAYLOAD_BYTES)

    def _check_content(self, member: TarMember, sha256: str, size: int) -> None:
        digest = hashlib.sha256()
        for chunk in iter_chunks(self._archive, member):
            digest.update(chunk)
        if (digest.hexdigest(), member.size) != (sha256, size):
            raise CodedError("blob_damaged", f"{member.name} of the archive has other bytes than its hash says")

    def _next(self) -> TarMember:
        member = next(self._members, None)
        if member is None:
            raise ArchiveError(f"the archive has no {END}: it was cut; export or copy it again")
        self._on_bytes(member.offset)
        return member


def _check_name(member: TarMember, conversation: ConversationId, name: str) -> None:
    expected = conversation_member(conversation, name)
    if member.name != expected:
        raise ArchiveError(f"the archive has {member.name[:80]} in place of {expected[:160]}")


def _check_files(files: Sequence[ArchivedFile]) -> None:
    """Raise `ArchiveError` unless all paths name different files of a workspace."""
    if len(files) > MAX_FILES:
        raise ArchiveError(f"a conversation has at most {MAX_FILES} files")
    names: set[tuple[str, ...]] = set()
    folders: set[tuple[str, ...]] = set()
    for file in files:
        try:
            path = PhysicalPath(file.path).names
        except PathError as error:
            raise ArchiveError(f"a file of the archive has an unsafe path: {error}") from error
        if len(path) > MAX_LISTED_DEPTH or any(name.startswith(RESERVED_PREFIX) for name in path):
            raise ArchiveError(f"a file of the archive has a path that is too deep or reserved: {file.path[:80]!r}")
        if path in names or not 0 <= file.mode <= 0o777 or not 0 <= file.mtime_us < 2**53:
            raise ArchiveError(f"a file of the archive is there twice, or has a wrong mode or time: {file.path[:80]!r}")
        names.add(path)
        folders.update(path[:depth] for depth in range(1, len(path)))
    if names & folders:
        raise ArchiveError("a file of the archive has the name of a folder")
