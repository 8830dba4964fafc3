"""Entries of a timeline: each holds a block with its turn, time and seq; seqs start at 1 and have no gaps."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from timeloom.core.blocks import AnyBlock
from timeloom.core.codes import CodedError
from timeloom.core.ids import IdError, TurnId, parse_turn_id
from timeloom.core.payload import Text

NO_TURN = TurnId("")
"""Turn id of entries that belong to the whole conversation."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_TS = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\d(\.\d{1,9})?Z")


class EntryError(CodedError):
    """Error for an entry with an invalid turn id, time or seq."""

    def __init__(self, message: str) -> None:
        super().__init__("entry_malformed", message)


def is_timestamp(text: str) -> bool:
    """Return whether the text is an RFC 3339 time in UTC, as entries store it."""
    return _TS.fullmatch(text) is not None


def microseconds_between(since: str, until: str) -> int:
    """Return the time from one entry's `ts` to a later one's; 0 if the clock went back or a date does not exist."""
    if since == until:
        return 0
    try:
        return max(0, _microseconds(until) - _microseconds(since))
    except ValueError:
        return 0


@lru_cache(maxsize=1024)
def _microseconds(ts: str) -> int:
    """Return the time since the epoch; cached, because callers compare the same few times repeatedly."""
    return (datetime.fromisoformat(ts) - _EPOCH) // timedelta(microseconds=1)


class Draft(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Block with its turn and time, before the journal assigns a seq.

    `original` is the JSON text from which the block was read. It is set only if encoding the block again would give a
    different object.
    """

    turn_id: TurnId
    ts: str
    block: AnyBlock
    original: Text = ""

    def __post_init__(self) -> None:
        if not is_timestamp(self.ts):
            raise EntryError(f"ts is RFC 3339 in UTC such as 2026-02-09T02:14:32.676425Z, got {self.ts[:40]!r}")
        if self.turn_id:
            _check_turn_id(self.turn_id)


class Entry(Draft, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Draft with its seq."""

    seq: int

    def __post_init__(self) -> None:
        Draft.__post_init__(self)
        if self.seq < 1:
            raise EntryError(f"seq counts from 1, got {self.seq}")

    @property
    def path(self) -> str:
        """Logical path of the block, with its number in a numbered family; empty if the block has no path."""
        return self.block.path(self.turn_id)

    @property
    def alias(self) -> str:
        """Path that names the newest block of the family; empty if the block has none."""
        return self.block.alias(self.turn_id)


@lru_cache(maxsize=256)
def _check_turn_id(text: TurnId) -> None:
    # Cached, because every entry of a turn carries the same id.
    try:
        parse_turn_id(text)
    except IdError as error:
        raise EntryError(str(error)) from error


def to_entry(draft: Draft, seq: int) -> Entry:
    """Return the draft as the entry with that seq."""
    return Entry(turn_id=draft.turn_id, ts=draft.ts, block=draft.block, original=draft.original, seq=seq)
