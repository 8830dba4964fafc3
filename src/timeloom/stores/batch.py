"""Checks the drafts of one append and converts them to the form that every store keeps."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, cast

from msgspec import Struct

from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ConversationStarted,
    Followup,
    Steer,
    Titled,
    TurnEnded,
    TurnStarted,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.blocks.extract_payloads import INLINE_BYTES, REPEATED_BYTES, extract_payloads, find_blob_refs
from timeloom.core.ids import ConversationId, IdError, TurnId, parse_conversation_id
from timeloom.core.payload import BlobRef, max_utf8_bytes
from timeloom.core.timeline import NO_TURN, Draft, Entry, EntryError, to_entry
from timeloom.ports.ids import random_bytes
from timeloom.wire.chain import SALT_BYTES, hash_content
from timeloom.wire.record import encode_record

TITLE_CHARS: Final = 300
"""Characters of a title that a list shows; the timeline has the whole title. A larger value makes list pages larger."""

INDEXED_CHARS: Final = 100_000
"""Characters of one text that are indexed. A larger value lets a pasted book cost more to index than to store."""

LIGHT_DRAFTS: Final = 50
"""Number of small drafts that may be batched in the event loop. Each takes some ten microseconds."""

ReadText = Callable[[BlobRef], str]


class Batch(Struct, frozen=True, kw_only=True):
    """The data that an append adds: entries, their records, their payloads and the text to index."""

    conversation: ConversationId
    expected_tail: int
    entries: tuple[Entry, ...]
    records: tuple[bytes, ...]
    salts: tuple[bytes, ...]
    contents: tuple[bytes, ...]
    """The salted hashes of the records."""
    payloads: dict[BlobRef, bytes]
    """Payloads that came with the drafts. Any other referenced payload must be stored already."""

    references: tuple[BlobRef, ...]
    searchable_texts: tuple[tuple[int, str], ...]
    """Text to index for search, with the seq of its entry."""

    header: ConversationStarted | None
    title: tuple[int, str] | None
    """The newest title in the batch, with the seq of its entry."""

    @property
    def ends_turn(self) -> bool:
        """Whether a turn ends in this batch."""
        return any(isinstance(entry.block, TurnEnded) for entry in self.entries)

    @property
    def tail(self) -> int:
        """The seq of the last entry."""
        return self.entries[-1].seq

    @property
    def last_ts(self) -> str:
        """The time of the last entry."""
        return self.entries[-1].ts


def is_light(drafts: Sequence[Draft]) -> bool:
    """Whether the drafts are few and without payloads, so that `make_batch` is quick and needs no disk."""
    return len(drafts) <= LIGHT_DRAFTS and all(_is_light(draft.block) and _is_small(draft.original) for draft in drafts)


def make_batch(
    conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], read_text: ReadText | None = None
) -> Batch:
    """Return the drafts as they will be stored after that tail; raises `EntryError` if they are malformed.

    `read_text` reads text that is stored as a payload already, for the search index. Pass None only if `is_light` is
    true for the drafts.
    """
    light = read_text is None
    _check(conversation, expected_tail, drafts)
    entries: list[Entry] = []
    payloads: dict[BlobRef, bytes] = {}
    refs: dict[BlobRef, None] = {}
    searchable: list[tuple[int, str]] = []
    title: tuple[int, str] | None = None
    for seq, draft in enumerate(drafts, expected_tail + 1):
        stored = draft
        if not light:
            stored, extracted = _extract_payloads(draft)
            payloads.update(extracted)
        if not light or draft.block.repeated:
            refs.update(dict.fromkeys(find_blob_refs(stored)))
        if isinstance(draft.block, Titled):
            title = (seq, draft.block.text[:INDEXED_CHARS])
        elif text := _searchable_text(draft.block, read_text):
            searchable.append((seq, text[:INDEXED_CHARS]))
        entries.append(to_entry(stored, seq))
    first = drafts[0].block
    records = tuple(encode_record(entry) for entry in entries)
    salts, contents = salt_records(records)
    return Batch(
        conversation=conversation,
        expected_tail=expected_tail,
        entries=tuple(entries),
        records=records,
        salts=salts,
        contents=contents,
        payloads=payloads,
        references=tuple(refs),
        searchable_texts=tuple(searchable),
        header=first if isinstance(first, ConversationStarted) else None,
        title=title,
    )


def salt_records(records: Sequence[bytes]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return a new salt for each record, and the salted hashes of the records."""
    if len(records) == 1:
        salt = random_bytes(SALT_BYTES)
        return (salt,), (hash_content(salt, records[0]),)
    # One draw for all: each costs a system call.
    drawn = random_bytes(SALT_BYTES * len(records))
    salts = tuple(drawn[at : at + SALT_BYTES] for at in range(0, len(drawn), SALT_BYTES))
    return salts, tuple(map(hash_content, salts, records))


def tenant_from_header(drafts: Sequence[Draft]) -> str:
    """Return the tenant of the conversation that these drafts begin; empty if they begin none."""
    first = drafts[0].block if drafts else None
    return first.tenant if isinstance(first, ConversationStarted) else ""


def open_turn_after(before: TurnId | None, entries: Iterable[Entry]) -> TurnId | None:
    """Return the turn that is open after these entries; `before` was open before them.

    The newest turn is open until its end. The end of another turn changes nothing.
    """
    for entry in entries:
        match entry.block:
            case TurnStarted():
                before = entry.turn_id
            case TurnEnded() if entry.turn_id == before != NO_TURN:
                before = None
            case _:
                pass
    return before


def record_crc(conversation: ConversationId, seq: int, record: bytes) -> int:
    """Return the checksum of a record with its conversation and seq, so that a moved record is detected too."""
    return zlib.crc32(record, zlib.crc32(b"%s %d " % (conversation.encode(), seq)))


def _extract_payloads(draft: Draft) -> tuple[Draft, dict[BlobRef, bytes]]:
    try:
        return extract_payloads(draft)
    except UnicodeEncodeError as error:
        raise EntryError(f"text with a lone surrogate at {error.start} has no UTF-8 form") from error


def _check(conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft]) -> None:
    if not drafts:
        raise EntryError("an append has at least one draft, got none")
    if expected_tail < 0:
        raise EntryError(f"the expected tail must be 0 or the seq of the last entry, got {expected_tail}")
    for at, draft in enumerate(drafts, expected_tail + 1):
        if (at == 1) != isinstance(draft.block, ConversationStarted):
            raise EntryError(
                f"the first entry, and no other, is conv.header; got {draft.block.type_name} as entry {at}"
            )
    try:
        parse_conversation_id(conversation)
    except IdError as error:
        raise EntryError(str(error)) from error


def _searchable_text(block: AnyBlock, read_text: ReadText | None) -> str:
    match block:
        case UserPrompt() | Followup() | Steer() | Completion() | WorkingSummary():
            if isinstance(block.text, str):
                return block.text
            return read_text(block.text) if read_text else ""
        case _:
            return ""


def _is_light(block: AnyBlock) -> bool:
    for name in block.__struct_fields__:
        value: object = getattr(block, name)
        if name in block.repeated:
            # Most of these fields refer to a payload that an earlier entry stored.
            if isinstance(value, str) and max_utf8_bytes(value) > REPEATED_BYTES:
                return False
        elif not _is_small(value) or _holds_structs(value):
            return False
    return True


def _is_small(value: object) -> bool:
    if isinstance(value, str):
        return max_utf8_bytes(value) <= INLINE_BYTES
    return not isinstance(value, bytes | BlobRef)


def _holds_structs(value: object) -> bool:
    return isinstance(value, tuple) and any(isinstance(item, Struct) for item in cast(tuple[object, ...], value))
