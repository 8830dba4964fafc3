"""The checker finds each planted fault, in the program or in its evidence, and no fault where there is none."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.crash.checker import CrashEvidence, find_problems
from tests.crash.external_world import (
    DecisionRequested,
    EffectDone,
    EntryAcknowledged,
    Line,
    ProcessFinished,
    ProcessStarted,
    ToolStarted,
)
from tests.crash.victim_pool import KILLED, BaselineRun, ForkServer, KilledConversation
from tests.crash.victim_process import CONVERSATION, ExitPlan
from timeloom.core.blocks import (
    AnyBlock,
    ApprovalDecided,
    Completion,
    Gate,
    ModelCalled,
    ResultContent,
    ResultDigest,
    ResultStatus,
    ToolCall,
    TurnEnded,
)
from timeloom.core.timeline import Entry

FAULTS = {
    "a tool runs twice": ("files", "before t.look", "t.look ran twice in one life"),
    "another answer is given": ("files", "heard", "the answers are ['Done: seen-look-harbour seen-put-1!']"),
    "a turn is left open": ("files", "after t.put", "with a turn that neither has ended nor waits"),
    "an irreversible call is repeated": ("money", "after t.send", "t.send had its effect 2 times"),
}
"""For each fault, the boundary at which a process dies first, and the expected problem."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_program_is_found(
    fault: str, forks: ForkServer, undisturbed: Mapping[str, BaselineRun], tmp_path: Path
) -> None:
    scene, place, found = FAULTS[fault]
    expected = undisturbed[scene]
    history = KilledConversation(forks, tmp_path / "faulty", scene)
    while history.run_victim(ExitPlan(kill_at=expected.boundary(place))) != KILLED:
        pass
    evidence = history.run_to_end([ExitPlan(fault=fault)] * 10)
    assert any(found in problem for problem in find_problems(evidence, expected.evidence))


def test_a_store_that_loses_what_it_acknowledged_is_found(
    forks: ForkServer, undisturbed: Mapping[str, BaselineRun], tmp_path: Path
) -> None:
    """The loss is reported first; unrecorded requests follow from it."""
    expected = undisturbed["files"]
    history = KilledConversation(forks, tmp_path / "faulty", "files")
    assert history.run_victim(ExitPlan(kill_at=expected.boundary("4 asked"))) == KILLED
    lose_last_entry(history.folder / "data" / "journal.db")
    evidence = history.run_to_end()
    found = find_problems(evidence, expected.evidence)
    assert "was acknowledged, and the journal has it not or has another" in found[0]
    assert "entries, and " in found[1]
    assert all("before it was on the timeline" in problem for problem in found[2:])


def lose_last_entry(journal: Path) -> None:
    """Leaves the journal as if its newest entry had never been there."""
    with closing(sqlite3.connect(journal)) as connection, connection:
        ((head,),) = connection.execute("SELECT before FROM entries ORDER BY place DESC LIMIT 1")
        connection.execute("DELETE FROM entries WHERE place = (SELECT max(place) FROM entries)")
        ((record,),) = connection.execute("SELECT record FROM entries ORDER BY place DESC LIMIT 1")
        last_ts = record.partition(b"\n")[0].decode().split(" ")[1]
        connection.execute("UPDATE conversations SET tail = tail - 1, last_ts = ?, head = ?", (last_ts, head))


def test_damage_is_found(forks: ForkServer, undisturbed: Mapping[str, BaselineRun], tmp_path: Path) -> None:
    history = KilledConversation(forks, tmp_path / "faulty", "files")
    history.run_to_end()
    with closing(sqlite3.connect(history.folder / "data" / "journal.db")) as connection, connection:
        connection.execute("UPDATE conversations SET open_turn = 'turn_1'")
    evidence = asyncio.run(history.collect_evidence())
    found = find_problems(evidence, undisturbed["files"].evidence)
    assert f"open turns are listed: ['{CONVERSATION}']" in found
    assert any("does not match its entries" in problem for problem in found)


Change = Callable[[CrashEvidence], CrashEvidence]


def with_lines(change: Callable[[list[Line]], list[Line]]) -> Change:
    return lambda evidence: msgspec.structs.replace(evidence, lines=change(list(evidence.lines)))


def without(*kinds: type[AnyBlock]) -> Change:
    """Replace these blocks by another one; all entries keep their sequence numbers."""

    def blank(entry: Entry) -> Entry:
        return msgspec.structs.replace(entry, block=Completion(text="x")) if isinstance(entry.block, kinds) else entry

    return lambda evidence: msgspec.structs.replace(evidence, entries=[blank(entry) for entry in evidence.entries])


def first(lines: Sequence[Line], kind: type[Line]) -> int:
    return next(at for at, line in enumerate(lines) if isinstance(line, kind))


def again(lines: list[Line]) -> list[Line]:
    """A process that calls the first tool again when all is done."""
    return [*lines[:-1], lines[first(lines, ToolStarted)], lines[-1]]


def elsewhere(evidence: CrashEvidence) -> CrashEvidence:
    return msgspec.structs.replace(evidence, files={**evidence.files, "1/files/note.md": "half"})


def two_receipts(evidence: CrashEvidence) -> CrashEvidence:
    at = next(at for at, entry in enumerate(evidence.entries) if isinstance(entry.block, ResultContent))
    later = msgspec.structs.replace(evidence.entries[at], ts="2026-01-01T00:00:00.000000Z")
    return msgspec.structs.replace(evidence, entries=[*evidence.entries[:at], later, *evidence.entries[at + 1 :]])


CHANGES: dict[str, tuple[Change, str]] = {
    "a finished call runs again": (with_lines(again), "after it had its receipt"),
    "a call runs without its intent": (without(ToolCall), "before that was on the timeline"),
    "a call runs without a decision": (without(ApprovalDecided), "without leave"),
    "a call runs before its leave is recorded": (without(Gate), "without leave"),
    "a call has no receipt": (without(ResultContent, ResultDigest, ResultStatus), "has 0 receipts"),
    "a call has two receipts": (two_receipts, "has 2 receipts"),
    "a turn has no end": (without(TurnEnded), "and [] were ended"),
    "an effect is missing": (
        with_lines(lambda lines: [line for line in lines if not isinstance(line, EffectDone)]),
        "was done 0 times, and 1 times without a kill",
    ),
    "an attempt is not recorded": (without(ModelCalled), "was sent at"),
    "a request is sent twice": (
        with_lines(lambda lines: [*lines[: (at := first(lines, DecisionRequested))], DecisionRequested(), *lines[at:]]),
        "was sent at",
    ),
    "an acknowledged entry is another": (
        with_lines(lambda lines: [*lines[:-1], EntryAcknowledged(2, "0" * 64), lines[-1]]),
        "entry 2 was acknowledged",
    ),
    "a life finds less than was acknowledged": (
        with_lines(lambda lines: [*lines[:-1], ProcessStarted(3), lines[-1]]),
        "a life found 3 entries",
    ),
    "a life rests in the middle": (
        with_lines(
            lambda lines: [*lines[: (at := first(lines, ToolStarted))], ProcessFinished(done=False), *lines[at:]]
        ),
        "neither has ended nor waits",
    ),
    "the last life is cut short": (with_lines(lambda lines: lines[:-1]), "did not come to its end"),
    "a file is another": (elsewhere, "the files are"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_is_left_is_found(change: str, undisturbed: Mapping[str, BaselineRun]) -> None:
    apply, found = CHANGES[change]
    whole = undisturbed["money"].evidence
    assert find_problems(whole, whole) == []
    assert any(found in problem for problem in find_problems(apply(whole), whole))
