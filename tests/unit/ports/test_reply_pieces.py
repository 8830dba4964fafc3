"""Pieces of a reply: halves of a character are joined across them, and lone ones replaced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import Usage
from timeloom.core.stream.surrogates import replace_lone_surrogates
from timeloom.ports.model import FinishEvent, ModelError, ModelEvent, ModelRequest, TextPiece, ThinkingPiece
from timeloom.ports.reply_pieces import ReplyPieces

HALVES = st.text(st.sampled_from("aé\U0001f600\ud83d\ude00"), max_size=4)
PIECES = st.lists(st.builds(TextPiece, HALVES) | st.builds(ThinkingPiece, HALVES), max_size=10)
REQUEST = ModelRequest(system="", segments=(), max_output_tokens=1)
END = FinishEvent("end", Usage(), "m")


def joined(events: list[ModelEvent], kind: type[TextPiece] | type[ThinkingPiece]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


@given(PIECES)
def test_the_joined_text_is_valid_and_does_not_depend_on_the_cuts(given_pieces: list[ModelEvent]) -> None:
    pieces = ReplyPieces(REQUEST)
    passed = [event for piece in (*given_pieces, END) for event in pieces.take(piece)]
    assert passed[-1] is END
    for kind in (TextPiece, ThinkingPiece):
        assert joined(passed, kind) == replace_lone_surrogates(joined(given_pieces, kind))


def test_a_whole_piece_is_passed_on_as_it_is() -> None:
    pieces, piece = ReplyPieces(REQUEST), TextPiece("plain")
    assert pieces.take(piece)[0] is piece


def test_a_model_name_is_valid_text_too() -> None:
    (end,) = ReplyPieces(REQUEST).take(FinishEvent("end", Usage(), "m\ud800"))
    assert end == FinishEvent("end", Usage(), "m\ufffd")


def test_a_cut_reply_gives_back_what_was_held() -> None:
    pieces = ReplyPieces(REQUEST)
    assert pieces.take(TextPiece("\ud83d")) == pieces.take(ThinkingPiece("\ud83d")) == ()
    assert pieces.close() == (ThinkingPiece("\ufffd"), TextPiece("\ufffd"))
    assert pieces.close() == ()


def test_text_and_thinking_share_one_bound_and_the_piece_beyond_it_is_refused() -> None:
    pieces, half = ReplyPieces(REQUEST), "x" * (REQUEST.max_reply_chars // 2)
    taken = [*pieces.take(TextPiece(half)), *pieces.take(ThinkingPiece(half))]
    assert taken == [TextPiece(half), ThinkingPiece(half)]
    with pytest.raises(ModelError, match="longer than 1 tokens") as error:
        pieces.take(TextPiece("x"))
    assert (error.value.kind, pieces.close()) == ("cut", ())


def test_the_bound_grows_with_the_tokens_of_reply_and_thinking() -> None:
    larger = ModelRequest(system="", segments=(), max_output_tokens=8_192, thinking_tokens=1_000)
    assert larger.max_reply_chars - REQUEST.max_reply_chars == 128 * (8_191 + 1_000)
