"""Records: the form in which an entry stands in a journal, and the way back."""

from typing import Final

import msgspec

from timeloom.core.blocks import BlockError, Unknown
from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Draft, Entry

RECORD_VERSION: Final = 1
"""The newest form of records that this version writes and reads; older ones are brought up to it when read."""


class RecordError(CodedError):
    """A record that does not decode."""

    def __init__(self, message: str) -> None:
        super().__init__("entry_damaged", message)


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Entry)
_UNTYPED: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def encode_record(draft: Draft) -> bytes:
    """The draft as one line of JSON; refuses text that has no UTF-8 form."""
    try:
        return _ENCODER.encode(Draft(draft.turn_id, draft.ts, draft.block, draft.original))
    except UnicodeEncodeError as error:
        raise BlockError(f"text with a lone surrogate at {error.start} has no UTF-8 form") from error


def decode_record(data: bytes, seq: int) -> Entry:
    """The entry at that seq; a block of a type or form unknown to this version comes back as `Unknown`."""
    try:
        # The seq is the row's key; put in front it saves making the entry twice.
        return _DECODER.decode(b'{"seq":%d,%b' % (seq, data[1:]))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return _decode_unknown(data, seq, error)


def _decode_unknown(data: bytes, seq: int, error: Exception) -> Entry:
    try:
        parts = _UNTYPED.decode(data)
        turn_id, ts = (msgspec.json.decode(parts[name], type=str) for name in ("turn_id", "ts"))
        block = parts["block"]
        foreign_type = msgspec.json.decode(block, type=_Typed).type
        return Entry(
            seq=seq,
            turn_id=TurnId(turn_id),
            ts=ts,
            block=Unknown(json=bytes(block).decode(), foreign_type=foreign_type),
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, CodedError) as second:
        raise RecordError(f"entry {seq} is not a record: {error}") from second


class _Typed(msgspec.Struct):
    type: str
