"""Checks the drafts of one append and converts them to the form that every store keeps."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from types import NoneType, UnionType
from typing import Final, Literal, Union, cast, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields

from timeloom.core.blocks import (
    AnyBlock,
    CompactionEnded,
    CompactionRequested,
    Completion,
    ConversationStarted,
    Feedback,
    Followup,
    ModelAnswered,
    Steer,
    Titled,
    TurnEnded,
    TurnStarted,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.blocks.extract_payloads import INLINE_BYTES, REPEATED_BYTES, extract_payloads, find_blob_refs
from timeloom.core.ids import ConversationId, IdError, parse_conversation_id
from timeloom.core.payload import BlobRef, max_utf8_bytes, size_of
from timeloom.core.timeline import NO_TURN, Draft, Entry, EntryError, to_entry
from timeloom.ports.ids import RandomTokens
from timeloom.wire.chain import SALT_BYTES
from timeloom.wire.record import encode_record

TITLE_CHARS: Final = 300
"""Characters of a title that a list shows; the timeline has the whole title. A larger value makes list pages larger."""

_NO_OPEN_TURN: Final = "-"

INDEXED_CHARS: Final = 100_000
"""Characters of one text that are indexed. A larger value lets a pasted book cost more to index than to store."""

LIGHT_DRAFTS: Final = 50
"""Number of small drafts that may be batched in the event loop. Each takes some ten microseconds."""

SALTS: Final = RandomTokens(SALT_BYTES)
"""The salts of the hash chain."""

ReadText = Callable[[BlobRef], str]

_SCALARS: Final = frozenset[object]((bool, int, float, NoneType))
_SEARCHABLE_BLOCKS: Final = (UserPrompt, Followup, Steer, Completion, WorkingSummary)
_NOTED_BLOCKS: Final = (
    *_SEARCHABLE_BLOCKS,
    ConversationStarted,
    Titled,
    TurnStarted,
    TurnEnded,
    CompactionRequested,
    CompactionEnded,
    Feedback,
    ModelAnswered,
)
"""Blocks whose append changes more than the entries: the search index, title, open work, feedback or spend."""


class Batch(Struct, frozen=True, kw_only=True):
    """The data that an append adds: entries, their records, their payloads and the text to index."""

    conversation: ConversationId
    expected_tail: int
    entries: tuple[Entry, ...]
    records: tuple[bytes, ...]
    payloads: dict[BlobRef, bytes] = {}
    """Payloads that came with the drafts. Any other referenced payload must be stored already."""

    references: tuple[BlobRef, ...] = ()
    searchable_texts: tuple[tuple[int, str], ...] = ()
    """Text to index for search, with the seq of its entry."""

    header: ConversationStarted | None = None
    title: tuple[int, str] | None = None
    """The newest title in the batch, with the seq of its entry."""

    is_plain: bool = False
    """Whether the batch only adds entries: it has no payload, title or text to index, and changes no other table."""

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
    if len(drafts) > LIGHT_DRAFTS:
        return False
    for draft in drafts:
        if draft.original and not _is_light(draft.original, INLINE_BYTES):
            return False
        block = draft.block
        for name, most_bytes in _sizable_fields(type(block)):
            value: object = getattr(block, name)
            # A character has at most 4 bytes. Most texts are so short that this decides.
            if value is None or (type(value) is str and len(value) * 4 <= most_bytes):
                continue
            if not _is_light(value, most_bytes):
                return False
    return True


def make_batch(
    conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], read_text: ReadText | None = None
) -> Batch:
    """Return the drafts as they will be stored after that tail; raises `EntryError` if they are malformed.

    `read_text` reads text that is stored as a payload already, for the search index. Pass None only if `is_light` is
    true for the drafts.
    """
    _check(conversation, expected_tail, drafts)
    if read_text is None and all(map(_is_plain, [type(draft.block) for draft in drafts])):
        return _make_plain_batch(conversation, expected_tail, drafts)
    entries: list[Entry] = []
    payloads: dict[BlobRef, bytes] = {}
    refs: dict[BlobRef, None] = {}
    searchable: list[tuple[int, str]] = []
    title: tuple[int, str] | None = None
    for seq, draft in enumerate(drafts, expected_tail + 1):
        stored = draft
        if read_text:
            stored, extracted = _extract_payloads(draft)
            payloads.update(extracted)
        if read_text or draft.block.repeated:
            refs.update(dict.fromkeys(find_blob_refs(stored)))
        if isinstance(draft.block, Titled):
            title = (seq, draft.block.text[:INDEXED_CHARS])
        elif text := searchable_text(draft.block, read_text):
            searchable.append((seq, text[:INDEXED_CHARS]))
        entries.append(to_entry(stored, seq))
    first = drafts[0].block
    return Batch(
        conversation=conversation,
        expected_tail=expected_tail,
        entries=tuple(entries),
        records=tuple([encode_record(entry) for entry in entries]),
        payloads=payloads,
        references=tuple(refs),
        searchable_texts=tuple(searchable),
        header=first if isinstance(first, ConversationStarted) else None,
        title=title,
    )


def tenant_from_header(drafts: Sequence[Draft]) -> str:
    """Return the tenant of the conversation that these drafts begin; empty if they begin none."""
    first = drafts[0].block if drafts else None
    return first.tenant if isinstance(first, ConversationStarted) else ""


def open_work_after(before: str | None, entries: Iterable[Entry]) -> str | None:
    """Return the work that is open after these entries, or None; `before` was open before them.

    The newest turn is open until its end. The end of another turn changes nothing. The newest requested compaction is
    open until its outcome, and older ones have theirs before. The result is the turn, or `-`, and the request.
    """
    turn, request = _split_work(before)
    for entry in entries:
        match entry.block:
            case TurnStarted():
                turn = entry.turn_id
            case TurnEnded() if entry.turn_id == turn != NO_TURN:
                turn = None
            case CompactionRequested(message_id=message_id):
                request = message_id
            case CompactionEnded(message_id=message_id) if message_id == request:
                request = ""
            case _:
                pass
    return f"{_NO_OPEN_TURN if turn is None else turn} {request}" if request else turn


def _split_work(work: str | None) -> tuple[str | None, str]:
    """Return the open turn and the request; None and empty if there are none."""
    if work is None:
        return None, ""
    turn, _, request = work.partition(" ")
    return None if turn == _NO_OPEN_TURN else turn, request


def record_crc(conversation: ConversationId, seq: int, record: bytes) -> int:
    """Return the checksum of a record with its conversation and seq, so that a moved record is detected too."""
    return zlib.crc32(record, zlib.crc32(b"%d " % seq, _conversation_crc(conversation)))


@lru_cache(maxsize=64)
def _conversation_crc(conversation: ConversationId) -> int:
    # Cached, because all records of a conversation begin with its id.
    return zlib.crc32(b"%s " % conversation.encode())


def _make_plain_batch(conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft]) -> Batch:
    entries = tuple([to_entry(draft, seq) for seq, draft in enumerate(drafts, expected_tail + 1)])
    return Batch(
        conversation=conversation,
        expected_tail=expected_tail,
        entries=entries,
        records=tuple([encode_record(entry) for entry in entries]),
        is_plain=True,
    )


@cache
def _is_plain(kind: type[AnyBlock]) -> bool:
    """Whether blocks of that type change nothing but the entries, if they are light."""
    return not kind.repeated and not issubclass(kind, _NOTED_BLOCKS)


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
    _check_conversation(conversation)


@lru_cache(maxsize=256)
def _check_conversation(conversation: ConversationId) -> None:
    # Cached, because every append of a conversation carries the same id.
    try:
        parse_conversation_id(conversation)
    except IdError as error:
        raise EntryError(str(error)) from error


def searchable_text(block: AnyBlock, read_text: ReadText | None) -> str:
    """Return the text of the block that the search index gets; empty if there is none, or it cannot be read."""
    if not isinstance(block, _SEARCHABLE_BLOCKS):
        return ""
    if isinstance(block.text, str):
        return block.text
    return read_text(block.text) if read_text else ""


@cache
def _sizable_fields(kind: type[AnyBlock]) -> tuple[tuple[str, int], ...]:
    """Return the fields that can hold more than a number or a fixed word, with the size up to which they are light."""
    sizable = [field.name for field in fields(kind) if not _is_scalar(field.type)]
    return tuple((name, REPEATED_BYTES if name in kind.repeated else INLINE_BYTES) for name in sizable)


def _is_scalar(hint: object) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return all(map(_is_scalar, get_args(hint)))
    return hint in _SCALARS or get_origin(hint) is Literal


def _is_light(value: object, most_bytes: int) -> bool:
    if isinstance(value, str):
        return _is_within(value, most_bytes)
    # Most references in repeated fields are to a payload that an earlier entry stored.
    return most_bytes == REPEATED_BYTES or not (isinstance(value, bytes | BlobRef) or _holds_structs(value))


def _is_within(text: str, most_bytes: int) -> bool:
    # Only text of a length in between is encoded to be measured, which takes a few microseconds.
    return len(text) <= most_bytes and (max_utf8_bytes(text) <= most_bytes or size_of(text) <= most_bytes)


def _holds_structs(value: object) -> bool:
    return isinstance(value, tuple) and any(isinstance(item, Struct) for item in cast(tuple[object, ...], value))
