"""Entries, ids and records: checked shapes, and bytes that load again."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core import ids
from timeloom.core.blocks import BlockError, Unknown, UserPrompt
from timeloom.core.ids import IdError, TurnId
from timeloom.core.timeline import NO_TURN, Draft, Entry, EntryError, to_entry
from timeloom.testing.strategies import drafts
from timeloom.wire.record import RecordError, decode_record, encode_record

TS = "2026-02-09T02:14:32.676425Z"
T = TS.encode()
TURN = TurnId("turn_1")


def entry(seq: int) -> Entry:
    return to_entry(Draft(TURN, TS, UserPrompt(text="x")), seq)


@given(drafts, st.integers(1, 10**9))
def test_a_record_loads_as_it_was_written(draft: Draft, seq: int) -> None:
    assert decode_record(encode_record(draft), seq) == to_entry(draft, seq)


def test_a_record_is_a_line_of_place_and_time_and_a_line_of_json() -> None:
    prompt = UserPrompt(text="two\nlines")
    assert encode_record(Draft(TURN, TS, prompt)) == b'1 %s\n{"type":"user.prompt","text":"two\\nlines"}' % T
    draft = Draft(NO_TURN, TS, prompt, original='{"type": "user.prompt",\n"text": "two\\nlines"}')
    assert encode_record(draft).startswith(b"- ")
    assert decode_record(encode_record(draft), 1) == to_entry(draft, 1)


def test_a_record_of_a_newer_type_loads_as_unknown() -> None:
    data = b'1 %s\n{"type":"new.kind","x":1}' % TS.encode()
    found = decode_record(data, 3)
    assert found.block == Unknown(json='{"type":"new.kind","x":1}', foreign_type="new.kind")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"1 x\n{}",
        b"\xff",
        b"1 %s\n" % T,
        b"1 %s\n[]" % T,
        b"1 %s\n{" % T,
        b'../x %s\n{"type":"y"}' % T,
        b'1 %s\n{"type":"y"}\n{' % T,
        b'1 %s\n{"type":"y","x":"\xff"}' % T,
        b'1 %s\n{"type":"y","x":' % T + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_record_is_named_by_its_seq(data: bytes) -> None:
    with pytest.raises(RecordError, match="entry 7"):
        decode_record(data, 7)


def test_text_without_a_utf8_form_is_refused_before_it_is_written() -> None:
    with pytest.raises(BlockError, match="lone surrogate"):
        encode_record(Draft(TURN, TS, UserPrompt(text="a\ud800")))


@pytest.mark.parametrize("ts", ["", "2026-02-09", "2026-02-09 02:14:32Z", "2026-02-09T02:14:32+01:00", TS + "\n"])
def test_a_time_that_is_not_utc_is_refused(ts: str) -> None:
    with pytest.raises(EntryError):
        Draft(TURN, ts, UserPrompt(text="x"))


@pytest.mark.parametrize("turn", ["turn_", "t1", "turn_../x", "turn_" + "x" * 200])
def test_a_turn_of_another_shape_is_refused(turn: str) -> None:
    with pytest.raises(EntryError):
        Draft(TurnId(turn), TS, UserPrompt(text="x"))


def test_seqs_count_from_one() -> None:
    with pytest.raises(EntryError):
        entry(0)


def test_an_entry_has_the_path_of_its_block() -> None:
    assert entry(3).path == "ar:turn_1.user.prompt"


def test_ids_have_their_documented_shapes() -> None:
    turn = ids.make_turn_id(1770603271112, 36**6 + 35)
    assert turn == "turn_1770603271112_00000z"
    assert ids.make_call_id(16**12 + 255) == "0000000000ff"
    assert ids.make_conversation_id(5, 1) == "conv_5_00000001"
    assert ids.make_plan_id(turn, 0xABCD) == f"plan:{turn}:abcd"


@given(st.integers(0, 10**13), st.integers(0, 2**64))
def test_ids_made_here_are_accepted(epoch_ms: int, bits: int) -> None:
    turn = ids.make_turn_id(epoch_ms, bits)
    assert ids.parse_turn_id(turn) == turn
    assert ids.parse_call_id(ids.make_call_id(bits))
    assert ids.parse_conversation_id(ids.make_conversation_id(epoch_ms, bits))
    assert ids.parse_plan_id(ids.make_plan_id(turn, bits))


@pytest.mark.parametrize(
    "shape", [ids.parse_turn_id, ids.parse_call_id, ids.parse_conversation_id, ids.parse_message_id, ids.parse_plan_id]
)
@pytest.mark.parametrize("text", ["", "a b", "../x", "x\n", "é", "-a", "turn_" + "x" * 129])
def test_what_is_no_id_is_refused(shape: Callable[[str], str], text: str) -> None:
    with pytest.raises(IdError):
        shape(text)
