"""Checks the records and the hash chain of a whole conversation from outside, and decodes its entries."""

from collections.abc import Sequence
from typing import Final

from timeloom.core.blocks import ConversationStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, IdError, parse_conversation_id
from timeloom.core.timeline import Entry
from timeloom.wire.chain import HASH_BYTES, SALT_BYTES, ChainChecker, ChainLink
from timeloom.wire.heads import Head
from timeloom.wire.record import decode_record

_BLOCK_START: Final = b'\n{"type":"'
_MAX_BEGINNING_BYTES: Final = 1024


class ArchiveError(CodedError):
    """Data from outside that no export has written."""

    def __init__(self, message: str) -> None:
        super().__init__("archive_malformed", message)


def decode_linked_entries(
    conversation: ConversationId, links: Sequence[ChainLink], head: bytes, heads: Sequence[Head] = ()
) -> tuple[Entry, ...]:
    """Return the entries of the records; `head` is the hash of the last one, or empty without a chain.

    Raises `ArchiveError` for records that no store writes, and `chain_broken` if a record does not fit its hashes or a
    head.
    """
    try:
        parse_conversation_id(conversation)
    except IdError as error:
        raise ArchiveError(str(error)) from error
    if not links:
        raise ArchiveError(f"conversation {conversation} has no entry")
    checker = ChainChecker(conversation, {head.seq: head.hash for head in heads})
    entries = tuple(_check_link(seq, link, checker) for seq, link in enumerate(links, 1))
    _check_order(conversation, entries)
    for problem in checker.finish(head or None):
        raise CodedError("chain_broken", problem.message)
    if bool(checker.first_seq) != bool(head):
        raise CodedError("chain_broken", f"conversation {conversation} has a head without hashes, or hashes without it")
    newest = max((head.seq for head in heads), default=0)
    if newest > len(entries):
        raise CodedError("chain_broken", f"entries {len(entries) + 1} to {newest} of {conversation} are missing")
    return entries


def _check_link(seq: int, link: ChainLink, checker: ChainChecker) -> Entry:
    if link.seq != seq:
        raise ArchiveError(f"entry {seq} is missing; found {link.seq}")
    if (
        len(link.salt) not in (0, SALT_BYTES)
        or len(link.before) not in (0, HASH_BYTES)
        or (link.content and not HASH_BYTES <= len(link.content) <= HASH_BYTES + _MAX_BEGINNING_BYTES)
        or (link.before and not link.salt)
    ):
        raise ArchiveError(f"entry {seq} has a salt or a hash of a wrong length")
    if _BLOCK_START not in link.record[:_MAX_BEGINNING_BYTES]:
        raise ArchiveError(f"entry {seq} is not a record; export it again")
    entry = decode_record(link.record, seq)
    checker.add(entry, link.record, link)
    return entry


def _check_order(conversation: ConversationId, entries: Sequence[Entry]) -> None:
    for entry in entries:
        if (entry.seq == 1) != isinstance(entry.block, ConversationStarted):
            raise ArchiveError(
                f"the first entry of {conversation}, and no other, is conv.header; "
                f"got {entry.block.type_name} as entry {entry.seq}"
            )
