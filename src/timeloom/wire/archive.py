"""The JSON parts of an archive of conversations, and the names of its members.

An archive is a tar file. Its members come in a fixed order: the manifest; for each conversation its description, its
entries, its heads and the list of its files, then its payloads and its files; at last the end. The end shows that the
archive is complete.
"""

import re
from typing import Final, Literal, TypeVar

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef
from timeloom.wire.chain import ChainLink
from timeloom.wire.linked_entries import ArchiveError

ARCHIVE_VERSION: Final = 1
"""The version of archives that this release writes, and the newest that it reads."""

MANIFEST: Final = "timeloom.json"
END: Final = "end.json"
_PAYLOAD: Final = re.compile(r"payloads/([0-9a-f]{64})")
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*")

_T = TypeVar("_T")


class ArchiveManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first member of an archive."""

    format: Literal["timeloom.archive"] = "timeloom.archive"
    version: int = ARCHIVE_VERSION


class ArchivedConversation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The description of a conversation."""

    id: ConversationId
    tail: int
    head: str
    """The hash of the last entry in hex; empty without a hash chain."""
    files: int
    """Number of workspace files."""


class ArchivedEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line of `entries.jsonl`: a record and its hashes in hex."""

    seq: int
    salt: str = ""
    before: str = ""
    content: str = ""
    record: str


class ArchivedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `files.jsonl`: a file of the workspace."""

    path: str
    """Relative to the workspace, such as `turn_1/files/a.md`."""
    sha256: str
    size_bytes: int
    mode: int
    """The permission bits."""
    mtime_us: int


class ArchiveEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last member of an archive."""

    conversations: int


def conversation_member(conversation: ConversationId, name: str) -> str:
    """Return the name of a member of that conversation."""
    return f"conversations/{conversation}/{name}"


def payload_member(sha256: str) -> str:
    """Return the name of the member with that payload."""
    return f"payloads/{sha256}"


def parse_payload_member(name: str) -> str:
    """Return the hash of the payload in that member; empty if the member is none."""
    found = _PAYLOAD.fullmatch(name)
    return found[1] if found else ""


def encode_json(value: msgspec.Struct) -> bytes:
    """Return one line of JSON."""
    return msgspec.json.encode(value) + b"\n"


def decode_json(data: bytes, kind: type[_T], name: str) -> _T:
    """Return the value in a member of that name; raises `ArchiveError`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ArchiveError(f"{name} of the archive is malformed: {error}") from error


def encode_link(link: ChainLink) -> bytes:
    """Return a link with its record as one line; raises `ArchiveError` for a record that is no text."""
    try:
        record = link.record.decode()
    except UnicodeDecodeError as error:
        raise ArchiveError(f"entry {link.seq} is not UTF-8; run `timeloom verify`") from error
    return encode_json(
        ArchivedEntry(
            seq=link.seq, salt=link.salt.hex(), before=link.before.hex(), content=link.content.hex(), record=record
        )
    )


def decode_link(line: bytes, name: str) -> ChainLink:
    """Return the link and its record from a line of that member."""
    entry = decode_json(line, ArchivedEntry, name)
    salt, before, content = (decode_hex(value, name) for value in (entry.salt, entry.before, entry.content))
    return ChainLink(entry.seq, salt, before, content, encode_utf8(entry.record, name))


def decode_hex(text: str, name: str) -> bytes:
    """Return the bytes of lower-case hex digits."""
    if not _HEX.fullmatch(text):
        raise ArchiveError(f"{name} of the archive has a hash that is not in hex")
    return bytes.fromhex(text)


def encode_utf8(text: str, name: str) -> bytes:
    """Return the text in UTF-8; raises `ArchiveError` for a lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ArchiveError(f"{name} of the archive has a lone surrogate") from error


def check_references(refs: frozenset[BlobRef]) -> dict[str, int]:
    """Return the size of each payload by its hash; raises `ArchiveError` if two references disagree."""
    sizes: dict[str, int] = {}
    for ref in refs:
        if not _PAYLOAD.fullmatch(payload_member(ref.sha256)) or ref.size_bytes < 0:
            raise ArchiveError(f"a reference to a payload is malformed: {ref.sha256[:64]!r}")
        if sizes.setdefault(ref.sha256, ref.size_bytes) != ref.size_bytes:
            raise ArchiveError(f"payload {ref.sha256} is referred to with two sizes")
    return sizes
