"""The view of requested compactions."""

from timeloom.core.blocks import AnyBlock, CompactionEnded, CompactionRequested
from timeloom.core.blocks.redact import redact_block
from timeloom.core.ids import MessageId, TurnId
from timeloom.core.timeline import Entry
from timeloom.core.view.context.compactions import CompactionRequest, CompactionsView

ONE, TWO = MessageId("r1"), MessageId("r2")


def fold(*blocks: AnyBlock) -> CompactionsView:
    view = CompactionsView()
    for seq, block in enumerate(blocks, 1):
        view.add(Entry(turn_id=TurnId("turn_1"), ts="2026-02-09T02:14:32Z", block=block, seq=seq))
    return view


def test_a_request_waits_until_its_outcome_is_recorded() -> None:
    requests = CompactionRequested(message_id=ONE, text="x", keep=3), CompactionRequested(message_id=TWO)
    view = fold(*requests)
    assert view.next_request == CompactionRequest(1, ONE, 3, "x")
    view = fold(*requests, CompactionEnded(message_id=ONE, outcome="completed"))
    assert view.next_request == CompactionRequest(2, TWO)
    view = fold(*requests, *(CompactionEnded(message_id=one, outcome="skipped") for one in (ONE, TWO, ONE)))
    assert view.next_request is None
    assert view.outcomes == {ONE: 3, TWO: 4}


def test_a_request_that_is_recorded_twice_counts_once() -> None:
    twice = [CompactionRequested(message_id=ONE, text=text) for text in ("first", "second")]
    assert [one.focus for one in fold(*twice).pending] == ["first"]
    done = CompactionEnded(message_id=ONE, outcome="completed")
    assert fold(twice[0], done, twice[1]).pending == []


def test_an_outcome_without_its_request_changes_nothing() -> None:
    assert fold(CompactionEnded(message_id=ONE, outcome="completed")) == CompactionsView()


def test_an_erased_request_has_no_focus() -> None:
    erased = redact_block(CompactionRequested(message_id=ONE, text="the secret"))
    assert isinstance(erased, CompactionRequested)
    assert erased.text == "[ERASED]"
