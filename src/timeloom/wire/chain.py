"""The hash chain over a conversation's records: each entry carries the hash of the one before it.

The hash of an entry covers the hash of the entry before it, the salted hash of its record, its seq, and the beginning
of its record, which holds turn, time and type. An erase replaces record and salt. The salted hash of the old record
then stands beside the erased form, so the chain holds. Without the salt, no guess of the content can be checked.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

import msgspec

from timeloom.core.blocks import Erased
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry

SALT_BYTES: Final = 16
"""Length of a salt. With fewer bytes, a guess of an erased content could be checked by trying all salts."""

HASH_BYTES: Final = 32
_DOMAIN: Final = b"timeloom chain 1\n"
_KIND_STARTS: Final = len('\n{"type":"')
_new_state: Final = sha256().copy


class ChainLink(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a store keeps beside a record; all fields are empty for an entry that was stored before chains existed."""

    seq: int
    salt: bytes = b""
    before: bytes = b""
    """The hash of the entry before this one."""
    content: bytes = b""
    """Set by an erase: the salted hash of the erased record. The beginning of that record follows if it differed."""
    record: bytes = b""
    """The record as it is stored, if the link was read together with it."""


class ChainProblem(msgspec.Struct, frozen=True):
    """An entry that is not what was stored, and the reason."""

    seq: int
    message: str


def hash_before_first(conversation: ConversationId, seq: int) -> bytes:
    """Return what stands for the hash of the entry before the first entry of a chain, which begins at that seq."""
    return sha256(b"%b%b %d" % (_DOMAIN, conversation.encode(), seq)).digest()


def hash_content(salt: bytes, record: bytes) -> bytes:
    """Return the salted hash of a record."""
    return sha256(salt + record).digest()


def hash_entry(before: bytes, content: bytes, seq: int, beginning: bytes) -> bytes:
    """Return the hash of an entry from the one before it, its salted content, its seq and its record's beginning."""
    return sha256(before + content + b"%d " % seq + beginning).digest()


def record_beginning(record: bytes) -> bytes:
    """Return the record up to the end of its type: turn, time and type."""
    return record[: record.find(b'"', record.find(b"\n") + _KIND_STARTS)]


def hash_link(link: ChainLink) -> bytes:
    """Return the hash of the entry with that link and record; empty if it has none."""
    if not link.before:
        return b""
    content = link.content[:HASH_BYTES] or hash_content(link.salt, link.record)
    return hash_entry(link.before, content, link.seq, link.content[HASH_BYTES:] or record_beginning(link.record))


def link_entry(before: bytes, salt: bytes, seq: int, record: bytes) -> bytes:
    """Return the hash of a new entry, which the next entry carries."""
    # `hash_content`, `hash_entry` and `record_beginning`, in place: every append waits for this. A copied state saves
    # the search for the algorithm, which costs more than the hash of a short record.
    content, entry = _new_state(), _new_state()
    content.update(salt + record)
    end = record.find(b'"', record.find(b"\n") + _KIND_STARTS)
    entry.update(b"%b%b%d %b" % (before, content.digest(), seq, record[:end]))
    return entry.digest()


def erased_content(link: ChainLink, old_record: bytes, new_record: bytes) -> bytes:
    """Return `ChainLink.content` for an entry whose record is replaced by its erased form."""
    if not link.before:
        return b""
    content = link.content or hash_content(link.salt, old_record)
    beginning = link.content[HASH_BYTES:] or record_beginning(old_record)
    return content[:HASH_BYTES] + (b"" if beginning == record_beginning(new_record) else beginning)


class ChainChecker:
    """Checks one conversation entry by entry; `heads` are hashes that were written elsewhere, by seq."""

    def __init__(self, conversation: ConversationId, heads: Mapping[int, str] | None = None) -> None:
        self._conversation = conversation
        self._heads = heads or {}
        self._problems: dict[int, str] = {}
        self._erased: dict[int, str] = {}
        self._forms: dict[int, str] = {}
        self._expected: bytes | None = None
        """The hash of the last entry; None if that entry is missing or damaged."""
        self._next_seq = 1
        self.first_seq = 0
        """The seq at which the chain begins; 0 if no entry has a hash."""

    @property
    def erased_count(self) -> int:
        """Number of entries that an erase replaced."""
        return len(self._erased)

    @property
    def hash(self) -> bytes | None:
        """The hash of the last added entry; None if it has none or is damaged."""
        return self._expected

    def skip(self, seq: int) -> None:
        """Note an entry that cannot be read; the chain continues after it."""
        self._expected, self._next_seq = None, seq + 1

    def add(self, entry: Entry, record: bytes, link: ChainLink) -> None:
        """Check the next entry."""
        if entry.seq != self._next_seq:
            self._expected = None
        self._next_seq = entry.seq + 1
        self._note_erasure(entry, record, link)
        if not link.before:
            if self.first_seq or entry.seq in self._heads:
                self._add_problem(entry.seq, "has lost its hash")
            self._expected = None
            return
        self._check_before(entry.seq, link)
        self._expected = hash_link(msgspec.structs.replace(link, record=record))
        written = self._heads.get(entry.seq)
        if written is not None and written != self._expected.hex():
            self._add_problem(entry.seq, "or an earlier one is not the one whose hash was written at a turn's end")

    def finish(self, head: bytes | None) -> list[ChainProblem]:
        """Return all problems in order; `head` is the hash of the last entry as the conversation's row has it."""
        if self.first_seq and self._expected is not None and self._expected != head:
            self._add_problem(self._next_seq - 1, "was changed or moved, or the entries after it were removed")
        for seq, form in self._erased.items():
            if self._forms.get(seq) != form:
                self._add_problem(seq, "was replaced, and no erasure is recorded that explains it")
        return [ChainProblem(seq, self._problems[seq]) for seq in sorted(self._problems)]

    def _note_erasure(self, entry: Entry, record: bytes, link: ChainLink) -> None:
        if link.content or (link.salt and not link.before):
            self._erased[entry.seq] = hash_content(link.salt, record).hex()
        if isinstance(entry.block, Erased):
            self._forms.update(_earlier_forms(entry.seq, entry.block))

    def _check_before(self, seq: int, link: ChainLink) -> None:
        if not self.first_seq:
            self.first_seq = seq
            if link.before != hash_before_first(self._conversation, seq):
                self._add_problem(seq, "does not follow from the entries before it")
        elif self._expected is not None and link.before != self._expected:
            self._add_problem(seq - 1, "or the one after it was changed, moved or removed")

    def _add_problem(self, seq: int, message: str) -> None:
        self._problems.setdefault(seq, f"entry {seq} of conversation {self._conversation} {message}")


def _earlier_forms(seq: int, block: Erased) -> Iterable[tuple[int, str]]:
    return ((form.seq, form.hash) for form in block.forms if form.seq < seq)
