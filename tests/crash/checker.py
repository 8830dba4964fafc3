"""Checks the journal and the effect log of a conversation whose process was killed repeatedly."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from tests.crash.crash_scenes import IRREVERSIBLE
from tests.crash.external_world import (
    DecisionRequested,
    EffectDone,
    EntryAcknowledged,
    Line,
    ProcessFinished,
    ProcessStarted,
    ToolStarted,
)
from tests.crash.victim_process import record_sha256
from timeloom.core.blocks import (
    AnyBlock,
    ApprovalDecided,
    Completion,
    Followup,
    Gate,
    ModelAnswered,
    ModelCalled,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    ToolCall,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views, fold

B = TypeVar("B", bound=AnyBlock)

MAX_REPLY_TOKENS = 500
"""No reply of a scene has more tokens, and a reservation presumes many more."""

Result = ResultContent | ResultDigest | ResultStatus


class CrashEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The journal of a conversation, the findings of `verify` and `replay`, the effect log and the files."""

    entries: Sequence[Entry]
    lines: Sequence[Line]
    findings: Sequence[str] = ()
    open_turns: Sequence[str] = ()
    files: Mapping[str, str] = {}
    spent_tokens: int = 0
    """The tokens that the user's shared budget has paid for."""


def find_problems(evidence: CrashEvidence, undisturbed: CrashEvidence) -> list[str]:
    """Return the problems of a killed conversation, compared with the same conversation without a kill."""
    return [
        *evidence.findings,
        *_check_entries(evidence),
        *_check_turns(evidence),
        *_check_endings(evidence),
        *_check_tool_runs(evidence),
        *_check_approvals(evidence),
        *_check_receipts(evidence),
        *_check_effects(evidence, undisturbed),
        *_check_requests(evidence),
        *_check_spend(evidence),
        *_check_differences(evidence, undisturbed),
    ]


def _check_entries(evidence: CrashEvidence) -> Iterator[str]:
    """No acknowledged entry is missing or changed."""
    known = {entry.seq: record_sha256(entry) for entry in evidence.entries}
    for line, tail in _with_tails(evidence.lines):
        match line:
            case EntryAcknowledged(seq=seq, sha256=sha256) if known.get(seq) != sha256:
                yield f"entry {seq} was acknowledged, and the journal has it not or has another"
            case ProcessStarted(tail=found) if found < tail:
                yield f"a life found {found} entries, and {tail} had been acknowledged"
            case _:
                pass


def _check_turns(evidence: CrashEvidence) -> Iterator[str]:
    """Every turn has ended exactly once, and the list of open turns is empty."""
    started = [entry.turn_id for entry in evidence.entries if isinstance(entry.block, TurnStarted)]
    ended = [entry.turn_id for entry in evidence.entries if isinstance(entry.block, TurnEnded)]
    if started != ended:
        yield f"the turns {started} were begun and {ended} were ended"
    if evidence.open_turns:
        yield f"open turns are listed: {list(evidence.open_turns)}"


def _check_endings(evidence: CrashEvidence) -> Iterator[str]:
    """A process that ended by itself left no open turn, or one with an open question on the timeline."""
    for line, tail in _with_tails(evidence.lines):
        if isinstance(line, ProcessFinished):
            progress = fold(evidence.entries[:tail], Views()).progress
            waits = progress.running and progress.open_call is not None and progress.open_call.is_pending
            if progress.running if line.done else not waits:
                yield f"a life rested at {tail} ({line}) with a turn that neither has ended nor waits for a person"
    if not evidence.lines or evidence.lines[-1] != ProcessFinished(done=True):
        yield "the last life did not come to its end"


def _check_tool_runs(evidence: CrashEvidence) -> Iterator[str]:
    """A tool runs after its intent is stored, never after its receipt, and once per process."""
    intents = _first_entries([(seq, block.tool_call_id) for seq, block in _blocks(evidence, ToolCall)])
    receipts = _first_entries([(seq, block.tool_call_id) for seq, block in _results(evidence)])
    begun: set[str] = set()
    for line, tail in _with_tails(evidence.lines):
        if isinstance(line, ProcessStarted):
            begun.clear()
        if not isinstance(line, ToolStarted):
            continue
        if intents.get(line.call, tail + 1) > tail:
            yield f"{line.tool} ran as {line.call} before that was on the timeline"
        if receipts.get(line.call, tail + 1) <= tail:
            yield f"{line.tool} ran as {line.call} after it had its receipt"
        if line.call in begun:
            yield f"{line.tool} ran twice in one life as {line.call}"
        begun.add(line.call)


def _check_approvals(evidence: CrashEvidence) -> Iterator[str]:
    """An irreversible call runs only after a person approved it and the gate allowed it."""
    decisions = [(seq, one.tool_call_id) for seq, one in _blocks(evidence, ApprovalDecided) if one.approved]
    gates = [(seq, one.tool_call_id) for seq, one in _blocks(evidence, Gate) if one.verdict == "allow"]
    approved, allowed = _first_entries(decisions), _first_entries(gates)
    for line, tail in _with_tails(evidence.lines):
        if not isinstance(line, ToolStarted) or line.tool not in IRREVERSIBLE:
            continue
        if max(approved.get(line.call, tail + 1), allowed.get(line.call, tail + 1)) > tail:
            yield f"{line.tool} ran as {line.call} without leave"


def _check_receipts(evidence: CrashEvidence) -> Iterator[str]:
    """Every call has one receipt: results that were stored together."""
    for _, call in _blocks(evidence, ToolCall):
        times = {evidence.entries[seq - 1].ts for seq, block in _results(evidence) if _belongs(block, call)}
        if len(times) != 1:
            yield f"{call.tool_id} has {len(times)} receipts as {call.tool_call_id}"


def _check_effects(evidence: CrashEvidence, undisturbed: CrashEvidence) -> Iterator[str]:
    """Irreversible effects happen as often as without a kill, each by one call; all others at least once."""
    for (tool, call), times in Counter((line.tool, line.call) for line in _effects_done(evidence)).items():
        if times > 1 and tool in IRREVERSIBLE:
            yield f"{tool} had its effect {times} times as {call}"
    found, expected = (
        Counter((line.tool, line.what) for line in _effects_done(one)) for one in (evidence, undisturbed)
    )
    for tool, what in found.keys() | expected.keys():
        times, should = found[tool, what], expected[tool, what]
        if bool(times) != bool(should) or (tool in IRREVERSIBLE and times != should):
            yield f"{tool} of {what} was done {times} times, and {should} times without a kill"


def _check_requests(evidence: CrashEvidence) -> Iterator[str]:
    """Every model request is on the timeline before it is sent, and attempts of a round are numbered."""
    calls = [seq for seq, block in _blocks(evidence, ModelCalled) if block.purpose == "decision"]
    asked = 0
    for line, tail in _with_tails(evidence.lines):
        if isinstance(line, DecisionRequested):
            asked += 1
            if asked > sum(seq <= tail for seq in calls):
                yield f"request {asked} was sent at {tail} before it was on the timeline"
    attempt = 0
    for entry in evidence.entries:
        match entry.block:
            case RoundStarted():
                attempt = 0
            case ModelCalled(purpose="decision", attempt=number):
                attempt += 1
                if number != attempt:
                    yield f"entry {entry.seq} is attempt {attempt} of its round and says {number}"
            case _:
                pass


def _check_spend(evidence: CrashEvidence) -> Iterator[str]:
    """A shared budget pays for the usage of each call, and for one that was cut for its prompt and at most a reply."""
    answered = [block.usage for _, block in _blocks(evidence, ModelAnswered)]
    used = sum(usage.input_tokens + usage.output_tokens for usage in answered)
    cut = {(entry.turn_id, one.round, one.attempt): one for entry, one in _entries(evidence, ModelCalled)}
    for entry, one in _entries(evidence, ModelAnswered):
        cut.pop((entry.turn_id, one.round, one.attempt), None)
    most = used + sum(one.estimated_tokens + MAX_REPLY_TOKENS for one in cut.values())
    if evidence.spent_tokens > most:
        yield f"{evidence.spent_tokens} tokens were paid for, and the calls used {most} at most"


def _check_differences(evidence: CrashEvidence, undisturbed: CrashEvidence) -> Iterator[str]:
    """Messages, decisions, answers and files equal those without a kill."""
    for what, found, expected in (
        ("answers", _answers(evidence), _answers(undisturbed)),
        ("ends", _ends(evidence), _ends(undisturbed)),
        ("words of the user", _user_messages(evidence), _user_messages(undisturbed)),
        ("replies of the model", _replies(evidence), _replies(undisturbed)),
        ("calls", _tool_calls(evidence), _tool_calls(undisturbed)),
        ("files", evidence.files, undisturbed.files),
    ):
        if found != expected:
            yield f"the {what} are {found}, and without a kill {expected}"


def _answers(evidence: CrashEvidence) -> list[object]:
    return [block.text for _, block in _blocks(evidence, Completion)]


def _ends(evidence: CrashEvidence) -> list[str]:
    return [block.reason for _, block in _blocks(evidence, TurnEnded)]


def _user_messages(evidence: CrashEvidence) -> list[object]:
    said = [*_blocks(evidence, UserPrompt), *_blocks(evidence, Followup)]
    return [block.text for _, block in said]


def _replies(evidence: CrashEvidence) -> list[object]:
    return [block.text for _, block in _blocks(evidence, ModelAnswered) if not block.error]


def _tool_calls(evidence: CrashEvidence) -> list[tuple[str, object]]:
    return [(block.tool_id, block.params) for _, block in _blocks(evidence, ToolCall)]


def _with_tails(lines: Sequence[Line]) -> Iterator[tuple[Line, int]]:
    """Yield each line with the journal length that was known before it."""
    tail = 0
    for line in lines:
        yield line, tail
        if isinstance(line, ProcessStarted | EntryAcknowledged):
            tail = max(tail, line.tail if isinstance(line, ProcessStarted) else line.seq)


def _entries(evidence: CrashEvidence, kind: type[B]) -> list[tuple[Entry, B]]:
    return [(entry, entry.block) for entry in evidence.entries if isinstance(entry.block, kind)]


def _blocks(evidence: CrashEvidence, kind: type[B]) -> list[tuple[int, B]]:
    return [(entry.seq, entry.block) for entry in evidence.entries if isinstance(entry.block, kind)]


def _results(evidence: CrashEvidence) -> list[tuple[int, Result]]:
    return [(entry.seq, entry.block) for entry in evidence.entries if isinstance(entry.block, Result)]


def _belongs(result: Result, call: ToolCall) -> bool:
    return result.tool_call_id == call.tool_call_id


def _effects_done(evidence: CrashEvidence) -> Iterator[EffectDone]:
    return (line for line in evidence.lines if isinstance(line, EffectDone))


def _first_entries(found: Sequence[tuple[int, str | None]]) -> dict[str, int]:
    """Return the first entry number of each call."""
    return {call: seq for seq, call in reversed(found) if call}
