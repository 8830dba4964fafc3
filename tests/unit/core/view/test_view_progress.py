"""The progress of a turn: which messages the model has not been shown yet."""

import pytest

from timeloom.core.blocks import AnyBlock, ConversationStarted, Followup, ModelCalled, RoundStarted, Steer, TurnStarted
from timeloom.core.ids import MessageId, TurnId
from timeloom.core.timeline import NO_TURN, Draft, Entry, to_entry
from timeloom.core.view.progress import ProgressView
from timeloom.core.view.views import fold

TS = "2026-02-09T02:14:32.676425Z"
TURN = TurnId("turn_1")
FOLLOWUP = Followup(message_id=MessageId("m1"), text="and back")
STEER = Steer(message_id=MessageId("m2"), text="by train")


def progress_after(*blocks: AnyBlock) -> ProgressView:
    """Return the progress after a turn's beginning (entries 2 and 3) and these blocks (from entry 4)."""
    drafts = [Draft(NO_TURN, TS, ConversationStarted(tenant="t", project="p", user="u"))]
    drafts += [Draft(TURN, TS, block) for block in (TurnStarted(n=1), RoundStarted(round=1), *blocks)]
    entries: list[Entry] = [to_entry(draft, seq) for seq, draft in enumerate(drafts, 1)]
    return fold(entries).progress


def call(seen: int = 0) -> ModelCalled:
    return ModelCalled(round=1, model="m", request_sha256="0", seen=seen)


@pytest.mark.parametrize(
    ("seen", "unseen"),
    [(0, []), (5, []), (4, [5]), (3, [4, 5]), (99, [])],
    ids=["not recorded", "all", "the first", "none", "beyond the call"],
)
def test_a_call_leaves_the_messages_unseen_that_its_request_does_not_contain(seen: int, unseen: list[int]) -> None:
    assert progress_after(FOLLOWUP, FOLLOWUP, call(seen)).unseen == unseen


@pytest.mark.parametrize(("seen", "steered"), [(0, False), (4, False), (3, True)])
def test_a_steer_counts_until_a_request_contains_it(seen: int, *, steered: bool) -> None:
    assert progress_after(STEER, call(seen)).steered is steered
