"""Encodes entries as journal records and decodes them.

A record has two or three lines: the turn (without `turn_`, or `-` for none) and the time; the block as JSON, tagged by
type; and optionally the original as JSON. JSON escapes line breaks, so no value contains one.
"""

from typing import Final

import msgspec

from timeloom.core.blocks import AnyBlock, BlockError, Unknown
from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.payload import Text
from timeloom.core.timeline import NO_TURN, Draft, Entry

RECORD_VERSION: Final = 1
"""The newest record version that this release writes and reads; older records are upgraded when read."""

_TURN: Final = "turn_"
_ENCODER: Final = msgspec.json.Encoder()
_BLOCK: Final = msgspec.json.Decoder(AnyBlock)
_ORIGINAL: Final = msgspec.json.Decoder(Text)


class RecordError(CodedError):
    """A record cannot be decoded."""

    def __init__(self, message: str) -> None:
        super().__init__("entry_damaged", message)


def encode_record(draft: Draft) -> bytes:
    """Return the draft as a record; raises `BlockError` for text that cannot be encoded as UTF-8."""
    turn = draft.turn_id.removeprefix(_TURN) or "-"
    try:
        record = b"%b %b\n%b" % (turn.encode(), draft.ts.encode(), _ENCODER.encode(draft.block))
        return record + b"\n" + _ENCODER.encode(draft.original) if draft.original else record
    except UnicodeEncodeError as error:
        raise BlockError(f"text with a lone surrogate at {error.start} has no UTF-8 form") from error


def decode_record(data: bytes, seq: int) -> Entry:
    """Return the entry with that seq; a block that this version does not know becomes `Unknown`."""
    head, _, rest = data.partition(b"\n")
    block, _, original = rest.partition(b"\n")
    try:
        turn, _, ts = head.decode().partition(" ")
        return Entry(
            turn_id=NO_TURN if turn == "-" else TurnId(_TURN + turn),
            ts=ts,
            block=_decode_block(block),
            original=_ORIGINAL.decode(original) if original else "",
            seq=seq,
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, CodedError, RecursionError) as error:
        raise RecordError(f"entry {seq} is not a record: {error}") from error


def _decode_block(data: bytes) -> AnyBlock:
    try:
        return _BLOCK.decode(data)
    except msgspec.ValidationError:
        # Valid JSON, but of a type or form that this version does not know.
        return Unknown(json=data.decode(), foreign_type=msgspec.json.decode(data, type=_BlockType).type)


class _BlockType(msgspec.Struct):
    type: str
