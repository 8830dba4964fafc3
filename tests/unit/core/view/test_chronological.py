"""Restored order: events stand where they began, and nothing else moves."""

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    Digest,
    ExternalEvent,
    Followup,
    RoundStarted,
    Steer,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import MessageId, TurnId
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.core.view.chronological import sort_chronologically

TURN = TurnId("turn_1770603272000_000001")


def at(second: float) -> str:
    return f"2026-02-09T02:14:{second:09.6f}Z"


def log(*blocks: tuple[float, AnyBlock]) -> list[Entry]:
    return [to_entry(Draft(TURN, at(second), block), seq) for seq, (second, block) in enumerate(blocks, 1)]


def order(*blocks: tuple[float, AnyBlock]) -> list[int]:
    return [
        entry.seq for entry in sort_chronologically(log((1, TurnStarted(n=1)), (1, UserPrompt(text="go")), *blocks))
    ]


def event(began: float | None) -> ExternalEvent:
    return ExternalEvent(kind="alert", message_id=MessageId("m1"), started_ts="" if began is None else at(began))


def test_an_event_stands_where_it_began_inside_the_rounds() -> None:
    rounds = [(2, RoundStarted(round=1)), (4, RoundStarted(round=2)), (6, RoundStarted(round=3))]
    assert order(*rounds, (7, event(3))) == [1, 2, 3, 6, 4, 5]
    assert order(*rounds, (7, Followup(message_id=MessageId("m"), text="x", started_ts=at(5)))) == [1, 2, 3, 4, 6, 5]
    assert order(*rounds, (7, Steer(message_id=MessageId("m"), text="x", started_ts=at(6)))) == [1, 2, 3, 4, 5, 6]


def test_without_a_time_of_its_own_an_event_stands_where_it_was_stored() -> None:
    assert order((2, RoundStarted(round=1)), (3, event(None)), (4, RoundStarted(round=2))) == [1, 2, 3, 4, 5]


def test_an_event_does_not_leave_its_turn_nor_come_from_the_future() -> None:
    assert order((2, RoundStarted(round=1)), (3, event(0)), (4, RoundStarted(round=2))) == [1, 2, 4, 3, 5]
    assert order((2, RoundStarted(round=1)), (3, event(9)), (4, RoundStarted(round=2))) == [1, 2, 3, 4, 5]


def test_two_events_that_overtook_each_other_change_places() -> None:
    later = Followup(message_id=MessageId("m2"), text="second", started_ts=at(3))
    assert order((2, RoundStarted(round=1)), (5, later), (6, event(2.5))) == [1, 2, 3, 5, 4]


def test_attachments_go_with_their_event() -> None:
    path = f"fi:{TURN}.external.alert.attachments/m1/a.txt"
    own = f"fi:{TURN}.user.attachments/b.txt"
    attached: list[tuple[float, AnyBlock]] = [
        (7, event(3)),
        (7, AttachmentMeta(digest=Digest(artifact_path=path, mime="text/plain"))),
        (7, Attachment(artifact_path=path, mime="text/plain", text="x")),
    ]
    prompted = (1, Attachment(artifact_path=own, mime="text/plain", text="x"))
    assert order(prompted, (2, RoundStarted(round=1)), (4, RoundStarted(round=2)), *attached) == [
        1,
        2,
        3,
        4,
        6,
        7,
        8,
        5,
    ]


def test_a_clock_that_goes_back_changes_nothing() -> None:
    assert order((5, RoundStarted(round=1)), (2, RoundStarted(round=2)), (3, event(None))) == [1, 2, 3, 4, 5]


def test_events_of_a_turn_whose_beginning_is_not_there_stay() -> None:
    entries = log((2, RoundStarted(round=1)), (3, event(1)))
    assert [entry.seq for entry in sort_chronologically(entries)] == [1, 2]
