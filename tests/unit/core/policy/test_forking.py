"""Policies of forking: how a turn ends that is cut in two, and from where a model can be asked anew."""

from collections.abc import Sequence

import pytest

from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ConversationStarted,
    Digest,
    Followup,
    ModelAnswered,
    ModelCalled,
    Notes,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    ToolCall,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.policy.forking import end_forked_turn, end_stopped_rerun, find_restart_seq, is_rerun
from timeloom.core.timeline import Entry

TURN, CALL = TurnId("turn_1"), CallId("c1")
FILE = "fi:turn_1.files/a.md"
TURN_BLOCKS: list[AnyBlock] = [
    TurnStarted(n=1),  # 2
    UserPrompt(text="hi"),  # 3
    RoundStarted(round=1),  # 4
    ModelCalled(round=1, model="m", request_sha256="0"),  # 5
    ModelAnswered(round=1, model="m", stop_reason="end"),  # 6
    Notes(tool_call_id=CALL, text="looking"),  # 7
    ToolCall(tool_id="t.look", tool_call_id=CALL),  # 8
    ResultDigest(tool_call_id=CALL, digest=Digest(artifact_path=FILE)),  # 9
    ResultContent(tool_call_id=CALL, artifact_path=FILE, mime="text/plain", text="x"),  # 10
    Followup(message_id=MessageId("m1"), text="and?"),  # 11
    RoundStarted(round=2),  # 12
    ModelCalled(round=2, model="m", request_sha256="0"),  # 13
    ModelAnswered(round=2, model="m", stop_reason="end"),  # 14
    Completion(text="done"),  # 15
    TurnEnded(reason="completed"),  # 16
    ModelCalled(round=2, model="m", request_sha256="0", purpose="title"),  # 17
]


def entries(blocks: Sequence[AnyBlock] = tuple(TURN_BLOCKS)) -> list[Entry]:
    ts = "2026-02-09T02:14:32Z"
    return [Entry(turn_id=TURN, ts=ts, block=block, seq=seq) for seq, block in enumerate(blocks, 2)]


def cut(seq: int) -> list[AnyBlock]:
    found = entries()
    return end_forked_turn(found[: seq - 1], next(iter(found[seq - 1 :]), None))


def codes(blocks: Sequence[AnyBlock]) -> list[str]:
    return [block.error.code for block in blocks if isinstance(block, ResultStatus) and block.error]


@pytest.mark.parametrize("seq", [2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15])
def test_a_turn_that_is_cut_has_ended_there(seq: int) -> None:
    (end,) = cut(seq)
    assert isinstance(end, TurnEnded)
    assert end.reason == "cancelled"
    assert "forked" in end.text


def test_a_call_without_a_result_gets_one_that_says_it_was_cut_off() -> None:
    receipt, end = cut(8)
    assert codes([receipt]) == ["call_cut"]
    assert isinstance(end, TurnEnded)


def test_a_rerun_that_is_broken_off_says_of_its_call_that_nobody_knows() -> None:
    receipt, end = end_stopped_rerun(entries()[:7], "broken off")
    assert codes([receipt]) == ["tool_interrupted"]
    assert end == TurnEnded(reason="cancelled", text="broken off")
    assert end_stopped_rerun(entries()[:8], "broken off") == [end]
    assert end_stopped_rerun(entries(), "broken off") == []


def test_a_turn_says_whether_it_is_one_of_a_rerun() -> None:
    assert not is_rerun(entries())
    assert is_rerun(entries([TurnStarted(n=1, rerun=True), *TURN_BLOCKS[1:]]))


def test_half_a_result_is_said_to_be_half() -> None:
    receipt, _ = cut(9)
    assert isinstance(receipt, ResultStatus)
    assert "middle of this result" in str(receipt.text)


@pytest.mark.parametrize("seq", [16, 17])
def test_where_no_turn_is_under_way_nothing_is_added(seq: int) -> None:
    assert cut(seq) == []
    assert end_forked_turn([], None) == []


def test_calls_of_other_turns_are_left_alone() -> None:
    header = Entry(
        turn_id=TurnId("turn_0"),
        ts="2026-02-09T02:14:32Z",
        block=ToolCall(tool_id="t.look", tool_call_id=CallId("c0")),
        seq=1,
    )
    assert codes(end_forked_turn([header, *entries()[:4]], None)) == []


@pytest.mark.parametrize(
    ("seq", "place"),
    [
        *((seq, 1) for seq in (2,)),
        (3, 3),
        *((seq, 4) for seq in range(4, 11)),
        (11, 11),
        *((seq, 12) for seq in range(12, 16)),
        (16, 16),
        (17, 17),
    ],
)
def test_a_model_is_asked_anew_from_the_last_place_where_it_was_about_to_be(seq: int, place: int) -> None:
    found = entries()
    assert find_restart_seq(found[: seq - 1], next(iter(found[seq - 1 :]), None)) == place


def test_without_a_turn_header_nobody_is_at_work() -> None:
    header = ConversationStarted(tenant="t", project="p", user="u")
    found = [Entry(turn_id=TURN, ts="2026-02-09T02:14:32Z", block=header, seq=1), *entries()[1:3]]
    assert find_restart_seq(found, None) == 4
