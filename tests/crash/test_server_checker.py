"""The checker of killed servers finds each planted fault, in the server or in its evidence."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from tests.crash.external_world import EffectDone, ToolStarted
from tests.crash.server_checker import ServerEvidence, Timeline, find_server_problems
from tests.crash.server_clients import StreamRead
from tests.crash.server_run import RunPlan, run_killed_server
from tests.crash.victim_server import REPEATED_CALL
from timeloom.core.blocks import Completion, ResultStatus, TurnEnded, UserPrompt
from timeloom.core.timeline import Entry

SENDS = {"answer": 60, "t.send": 40}
TEXTS = {"message": 1, "followup": 1}
PLAN = RunPlan(seed=1, kills=0, conversations=1, replies=SENDS, texts=TEXTS, kill_at=4)
"""The first `t.send` gets its receipt, the second is killed before it, and nobody cancels the turn.

One conversation, because calls of two could overlap and leave no effect with a receipt."""


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> ServerEvidence:
    return asyncio.run(run_killed_server(tmp_path_factory.mktemp("killed") / "served", PLAN))


def accepted(evidence: ServerEvidence) -> int:
    """Return the place of a text that was acknowledged with a receipt."""
    return next(at for at, sent in enumerate(evidence.sent) if sent.receipt)


def without_answer_to_a_text(evidence: ServerEvidence) -> ServerEvidence:
    at = accepted(evidence)
    lost = replace(evidence.sent[at], mark="mark-999999")
    return replace(evidence, sent=(*evidence.sent[:at], lost, *evidence.sent[at + 1 :]))


def refuse_a_stored_text(evidence: ServerEvidence) -> ServerEvidence:
    at = accepted(evidence)
    refused = replace(evidence.sent[at], outcome="refused", receipt=None)
    return replace(evidence, sent=(*evidence.sent[:at], refused, *evidence.sent[at + 1 :]))


def move_a_receipt(evidence: ServerEvidence) -> ServerEvidence:
    at = accepted(evidence)
    sent = evidence.sent[at]
    assert sent.receipt
    moved = replace(sent, receipt=replace(sent.receipt, seq=sent.receipt.seq + 1))
    return replace(evidence, sent=(*evidence.sent[:at], moved, *evidence.sent[at + 1 :]))


def send_to_another_conversation(evidence: ServerEvidence) -> ServerEvidence:
    at = accepted(evidence)
    moved = replace(evidence.sent[at], conversation="conv_other")
    return replace(evidence, sent=(*evidence.sent[:at], moved, *evidence.sent[at + 1 :]))


def double_a_text(evidence: ServerEvidence) -> ServerEvidence:
    return change_entries(
        evidence, lambda entries: [*entries, *(one for one in entries if isinstance(one.block, UserPrompt))]
    )


def forget_the_texts_that_were_sent(evidence: ServerEvidence) -> ServerEvidence:
    return replace(evidence, sent=())


def change_entries(evidence: ServerEvidence, change: Callable[[list[Entry]], list[Entry]]) -> ServerEvidence:
    """Change the entries of the first conversation."""
    name, timeline = next(iter(evidence.timelines.items()))
    changed = replace(timeline, entries=change(list(timeline.entries)))
    return replace(evidence, timelines={**evidence.timelines, name: changed})


def change_block(evidence: ServerEvidence, change: Callable[[Entry], Entry]) -> ServerEvidence:
    """Change each entry of all conversations."""
    timelines = {
        name: replace(timeline, entries=[change(entry) for entry in timeline.entries])
        for name, timeline in evidence.timelines.items()
    }
    return replace(evidence, timelines=timelines)


def change_read(
    evidence: ServerEvidence, change: Callable[[list[tuple[int, bytes]]], list[tuple[int, bytes]]]
) -> ServerEvidence:
    """Change what the first client received."""
    first, *others = evidence.reads
    changed = StreamRead(conversation=first.conversation, blocks=change(list(first.blocks)), problems=[])
    return replace(evidence, reads=(changed, *others))


def change_timeline(evidence: ServerEvidence, change: Callable[[Timeline], Timeline]) -> ServerEvidence:
    return replace(evidence, timelines={name: change(one) for name, one in evidence.timelines.items()})


def first_effect(evidence: ServerEvidence) -> EffectDone:
    receipts = {
        cast(str, entry.block.tool_call_id)
        for timeline in evidence.timelines.values()
        for entry in timeline.entries
        if isinstance(entry.block, ResultStatus) and entry.block.error
    }
    return next(line for line in evidence.lines if isinstance(line, EffectDone) and line.call not in receipts)


FAULTS: dict[str, tuple[Callable[[ServerEvidence], ServerEvidence], str]] = {
    "an acknowledged text is lost": (
        without_answer_to_a_text,
        "mark-999999 was accepted (), and is on the timeline at []",
    ),
    "a refused text is stored": (refuse_a_stored_text, " was refused (), and is"),
    "a text is elsewhere than its receipt says": (move_a_receipt, "and its receipt says"),
    "a text is in another conversation": (send_to_another_conversation, "was sent to conv_other and is in"),
    "a text is stored twice": (double_a_text, " was accepted (), and is on the timeline at ['conv_"),
    "a text comes from nobody": (forget_the_texts_that_were_sent, "and nobody sent it"),
    "a conversation has no message": (
        lambda one: change_entries(one, lambda entries: [e for e in entries if not isinstance(e.block, UserPrompt)]),
        "has no first message",
    ),
    "a conversation is lost": (lambda one: replace(one, timelines={}), "was read by a client and is not stored"),
    "a stream has a gap": (lambda one: change_read(one, lambda blocks: blocks[:3] + blocks[4:]), "a client received"),
    "a stream repeats": (lambda one: change_read(one, lambda blocks: blocks[:3] + blocks[2:]), "a client received"),
    "a stream is in another order": (
        lambda one: change_read(one, lambda blocks: [blocks[1], blocks[0], *blocks[2:]]),
        "a client received",
    ),
    "a stream ends early": (lambda one: change_read(one, lambda blocks: blocks[:-1]), "a client has "),
    "a stream has other bytes": (
        lambda one: change_read(one, lambda blocks: [(1, blocks[0][1] + b" "), *blocks[1:]]),
        "a client received",
    ),
    "a stream was refused": (
        lambda one: replace(one, reads=[replace(read, problems=["it was refused"]) for read in one.reads]),
        "it was refused",
    ),
    "a request cannot be made again": (
        lambda one: change_timeline(
            one, lambda timeline: replace(timeline, requests=[replace(r, verdict="differs") for r in timeline.requests])
        ),
        "differs when it is made again",
    ),
    "a request was not recorded": (
        lambda one: replace(one, received=[*one.received, replace(one.received[0], sha256="other")]),
        "that no timeline renders to",
    ),
    "a recorded request was not sent": (lambda one: replace(one, received=()), "and received another request"),
    "the model never gets a message": (
        lambda one: replace(one, received=[replace(request, marks=frozenset()) for request in one.received]),
        "was never sent to the model",
    ),
    "a turn does not end": (
        lambda one: change_entries(one, lambda entries: [e for e in entries if not isinstance(e.block, TurnEnded)]),
        "were started and [] were ended",
    ),
    "a turn fails": (
        lambda one: change_block(
            one,
            lambda entry: (
                replace(entry, block=replace(entry.block, reason="budget_exhausted"))
                if isinstance(entry.block, TurnEnded)
                else entry
            ),
        ),
        "a turn ended as budget_exhausted",
    ),
    "a turn is listed as open": (lambda one: replace(one, open_turns=["conv_a"]), "open turns are listed: ['conv_a']"),
    "an irreversible effect is doubled": (
        lambda one: replace(one, lines=[*one.lines, first_effect(one)]),
        "had its effect 2 times",
    ),
    "a tool runs without a call": (
        lambda one: replace(one, lines=[*one.lines, ToolStarted("t.look", "nobody")]),
        "t.look ran as nobody, which is on no timeline",
    ),
    "an irreversible tool runs unasked": (
        lambda one: replace(one, lines=[*one.lines, ToolStarted("t.send", "nobody")]),
        "t.send ran as nobody without an approval",
    ),
    "a receipt has no effect": (
        lambda one: replace(one, lines=[line for line in one.lines if line != first_effect(one)]),
        "has a receipt and had no effect",
    ),
    "a call has no receipt": (
        lambda one: change_block(
            one,
            lambda entry: replace(entry, block=Completion(n=1, text="")) if hasattr(entry.block, "digest") else entry,
        ),
        "has 0 receipts",
    ),
    "the folder is damaged": (lambda one: replace(one, findings=["a payload is missing"]), "a payload is missing"),
}
"""For each fault, the change of the evidence and the expected problem."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_evidence_is_found(fault: str, evidence: ServerEvidence) -> None:
    change, expected = FAULTS[fault]
    known, found = find_server_problems(evidence), find_server_problems(change(evidence))
    assert sum(expected in problem for problem in found) > sum(expected in problem for problem in known)


def test_a_server_that_repeats_an_irreversible_call_is_found(tmp_path: Path) -> None:
    evidence = asyncio.run(run_killed_server(tmp_path / "served", replace(PLAN, fault=REPEATED_CALL)))
    problems = find_server_problems(evidence)
    assert any("t.send had its effect 2 times" in problem for problem in problems)
    assert any("without an approval" in problem for problem in problems)
