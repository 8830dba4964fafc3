"""The timeline: entries, each a block at a place and a time, numbered densely from one."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from timeloom.core.blocks import AnyBlock
from timeloom.core.codes import CodedError
from timeloom.core.ids import IdError, TurnId, turn_id
from timeloom.core.payload import Text

NO_TURN = TurnId("")
"""The turn of entries that belong to the conversation as a whole."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_TS = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\d(\.\d{1,9})?Z")


class EntryError(CodedError):
    """An entry that cannot stand where it was put."""

    def __init__(self, message: str) -> None:
        super().__init__("entry_malformed", message)


def is_timestamp(text: str) -> bool:
    """Whether the text is a time as entries carry it."""
    return _TS.fullmatch(text) is not None


def microseconds_between(since: str, until: str) -> int:
    """The time from one entry's `ts` to a later one's; 0 where a clock went back, or where no calendar has the day."""
    try:
        return max(0, _microseconds(until) - _microseconds(since))
    except ValueError:
        return 0


@lru_cache(maxsize=1024)
def _microseconds(ts: str) -> int:
    """The time, read once: the same few are compared again and again."""
    return (datetime.fromisoformat(ts) - _EPOCH) // timedelta(microseconds=1)


class Draft(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A block with its turn and time, before the journal gives it a place.

    `original` is the text of the JSON object that the block was read from, kept only where writing the block
    again would not give the same object.
    """

    turn_id: TurnId
    ts: str
    block: AnyBlock
    original: Text = ""

    def __post_init__(self) -> None:
        if not is_timestamp(self.ts):
            raise EntryError(f"ts is RFC 3339 in UTC such as 2026-02-09T02:14:32.676425Z, got {self.ts[:40]!r}")
        if self.turn_id:
            _need_turn(self.turn_id)


class Entry(Draft, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A draft at its place."""

    seq: int

    def __post_init__(self) -> None:
        Draft.__post_init__(self)
        if self.seq < 1:
            raise EntryError(f"seq counts from 1, got {self.seq}")

    @property
    def path(self) -> str:
        """The block's own logical path, numbered where its family is; empty where it has none."""
        return self.block.path(self.turn_id)

    @property
    def alias(self) -> str:
        """The path that means the newest of the block's family; empty where it has none."""
        return self.block.alias(self.turn_id)


@lru_cache(maxsize=256)
def _need_turn(text: TurnId) -> None:
    # One turn is named by every entry of it.
    try:
        turn_id(text)
    except IdError as error:
        raise EntryError(str(error)) from error


def place(draft: Draft, seq: int) -> Entry:
    """The draft at that place."""
    return Entry(turn_id=draft.turn_id, ts=draft.ts, block=draft.block, original=draft.original, seq=seq)


class Timeline:
    """The entries of one conversation in order; it grows at its end and in no other way."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: list[Entry] = []
        self.extend(entries)

    @property
    def tail(self) -> int:
        """The seq of the last entry, 0 where there is none."""
        return len(self._entries)

    def at(self, seq: int) -> Entry:
        """The entry with that seq."""
        if not 1 <= seq <= self.tail:
            raise EntryError(f"seq 1 to {self.tail} expected, got {seq}")
        return self._entries[seq - 1]

    def since(self, seq: int) -> Sequence[Entry]:
        """The entries after that seq."""
        return self._entries[seq:]

    def extend(self, entries: Iterable[Entry]) -> None:
        """Adds entries that follow the tail without a gap; of a batch with a gap nothing is added."""
        batch = list(entries)
        for seq, entry in enumerate(batch, self.tail + 1):
            if entry.seq != seq:
                raise EntryError(f"the entry after {seq - 1} has seq {seq}, got {entry.seq}")
        self._entries += batch

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)
