"""Checks what clients, the model service and the effects of tools saw of a killed server against its timelines."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from tests.crash.crash_scenes import IRREVERSIBLE
from tests.crash.external_world import EffectDone, Line, ToolStarted, read_lines
from tests.crash.server_clients import Clients, SentText, StreamRead
from tests.crash.server_world import MARK, OutsideModel, ReceivedRequest, text_sha256
from timeloom.core.blocks import (
    AnyBlock,
    ApprovalDecided,
    ExternalEvent,
    Followup,
    ModelAnswered,
    ModelCalled,
    ResultContent,
    ResultDigest,
    ResultStatus,
    Steer,
    ToolCall,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.ports.store import Store, StoreProblem
from timeloom.runtime.read.export import encode_whole_block
from timeloom.runtime.replay.walk import ReplayedCall, ReplayWalker
from timeloom.stores.sqlite import SqliteStore

B = TypeVar("B", bound=AnyBlock)

Said = UserPrompt | Followup | Steer | ExternalEvent | ApprovalDecided
"""Blocks that hold a text of a client."""

NOT_HEARD = ("cancelled", "stopped")
"""Ends of turns that came before the model had to see all messages."""


class RebuiltRequest(msgspec.Struct, frozen=True):
    """A model call of the log: the hash of its rebuilt text, and whether the rebuilt request has the recorded hash."""

    seq: int
    attempt: tuple[str, int, int]
    """The turn, the round and the number of the attempt."""
    sha256: str
    verdict: str


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of a conversation, their blocks as bytes, and their rebuilt requests."""

    entries: Sequence[Entry]
    blocks: Sequence[bytes]
    requests: Sequence[RebuiltRequest]


class ServerEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was left after the last server of a folder had stopped."""

    timelines: Mapping[str, Timeline]
    sent: Sequence[SentText]
    reads: Sequence[StreamRead]
    received: Sequence[ReceivedRequest]
    lines: Sequence[Line]
    findings: Sequence[str] = ()
    """Findings of `verify` and of the replay."""
    open_turns: Sequence[str] = ()


async def collect_evidence(folder: Path, clients: Clients, model: OutsideModel) -> ServerEvidence:
    """Read the data folder of a stopped server, verify it and replay all conversations."""
    async with await SqliteStore.open(folder / "data") as store:
        findings = [finding.message for finding in (await store.verify()).findings]
        timelines: dict[str, Timeline] = {}
        for conversation in await store.conversation_ids():
            timelines[conversation], found = await _read_timeline(store, conversation)
            findings += found
        return ServerEvidence(
            timelines=timelines,
            sent=tuple(clients.sent),
            reads=tuple(clients.reads),
            received=tuple(model.requests),
            lines=tuple(read_lines(folder / "outside.jsonl")),
            findings=findings,
            open_turns=await store.open_turns(),
        )


async def _read_timeline(store: Store, conversation: ConversationId) -> tuple[Timeline, list[str]]:
    walker = ReplayWalker(store, conversation)
    await walker.begin()
    tenant = (await store.info(conversation)).tenant
    entries = await store.load(conversation)
    found: list[ReplayedCall | StoreProblem] = []
    requests: list[RebuiltRequest] = []
    for entry in entries:
        if isinstance(entry.block, ModelCalled):
            attempt = (entry.turn_id, entry.block.round, entry.block.attempt)
            rebuilt = await walker.rebuild_prompt(entry, entry.block)
            text = "".join((rebuilt.system, *(one.text for one in rebuilt.segments), rebuilt.tail))
            requests.append(RebuiltRequest(entry.seq, attempt, text_sha256(text), rebuilt.call.verdict))
        found += await walker.replay_entry(entry)
    found += walker.finish()
    problems = [f"{conversation}: {one.message}" for one in found if isinstance(one, StoreProblem)]
    blocks = [await encode_whole_block(store, tenant, entry) for entry in entries]
    return Timeline(entries=entries, blocks=blocks, requests=requests), problems


def find_server_problems(evidence: ServerEvidence) -> list[str]:
    """Return everything that a client, the model service or a tool saw and that the timelines contradict."""
    return [
        *evidence.findings,
        *_check_texts(evidence),
        *_check_conversations(evidence),
        *_check_streams(evidence),
        *_check_requests(evidence),
        *_check_heard(evidence),
        *_check_turns(evidence),
        *_check_effects(evidence),
        *_check_receipts(evidence),
    ]


def _check_texts(evidence: ServerEvidence) -> Iterator[str]:
    """An acknowledged text is on the timeline once and where its receipt says, a refused one is on none."""
    places: dict[str, list[tuple[str, Entry]]] = {}
    for conversation, entry, text in _said(evidence):
        for mark in MARK.findall(text):
            places.setdefault(mark, []).append((conversation, entry))
    for sent in evidence.sent:
        found = places.pop(sent.mark, [])
        least, most = {"accepted": (1, 1), "refused": (0, 0), "unknown": (0, 1)}[sent.outcome]
        if not least <= len(found) <= most:
            where = [f"{conversation} {entry.seq}" for conversation, entry in found]
            yield f"{sent.kind} {sent.mark} was {sent.outcome} ({sent.why}), and is on the timeline at {where}"
        for conversation, entry in found:
            if sent.conversation not in ("", conversation):
                yield f"{sent.kind} {sent.mark} was sent to {sent.conversation} and is in {conversation}"
            receipt = sent.receipt
            if receipt and (receipt.conversation_id, receipt.seq, receipt.turn_id) != (
                conversation,
                entry.seq,
                entry.turn_id,
            ):
                yield f"{sent.kind} {sent.mark} is in {conversation} at {entry.seq}, and its receipt says {receipt}"
    for mark in places:
        yield f"{mark} is on a timeline, and nobody sent it"


def _check_conversations(evidence: ServerEvidence) -> Iterator[str]:
    """Every conversation was started by a client, and each client's conversation exists."""
    for conversation, timeline in evidence.timelines.items():
        first = next((entry.block for entry in timeline.entries if isinstance(entry.block, UserPrompt)), None)
        if first is None:
            yield f"{conversation} has no first message"
    for read in evidence.reads:
        if read.conversation not in evidence.timelines:
            yield f"{read.conversation} was read by a client and is not stored"


def _check_streams(evidence: ServerEvidence) -> Iterator[str]:
    """What a client received over all its connections is the timeline, byte by byte: no gap, double or other order."""
    for read in evidence.reads:
        yield from (f"{read.conversation}: {problem}" for problem in read.problems)
        timeline = evidence.timelines.get(read.conversation)
        stored = list(enumerate(timeline.blocks, 1))[read.after :] if timeline else []
        if read.blocks == stored:
            continue
        at = next((n for n, (one, other) in enumerate(zip(read.blocks, stored, strict=False)) if one != other), None)
        if at is None:
            yield f"{read.conversation}: a client has {len(read.blocks)} blocks of {len(stored)}"
        else:
            yield f"{read.conversation}: a client received {read.blocks[at]!r:.300} instead of {stored[at]!r:.300}"


def _check_requests(evidence: ServerEvidence) -> Iterator[str]:
    """Every recorded request has its hash when rebuilt; the model service received those requests and no others."""
    recorded: dict[str, str] = {}
    for conversation, timeline in evidence.timelines.items():
        for request in timeline.requests:
            recorded[request.sha256] = f"{conversation} {request.seq}"
            if request.verdict != "same":
                yield f"{conversation}: the request of entry {request.seq} {request.verdict} when it is made again"
    received = {request.sha256 for request in evidence.received}
    for request in evidence.received:
        if request.sha256 not in recorded:
            yield f"the model received a request of {request.tag} that no timeline renders to"
    for conversation, timeline in evidence.timelines.items():
        answered = {
            (entry.turn_id, block.round, block.attempt)
            for entry in timeline.entries
            if isinstance(block := entry.block, ModelAnswered) and not block.error
        }
        for request in timeline.requests:
            if request.attempt in answered and request.sha256 not in received:
                yield f"{conversation}: the model answered entry {request.seq}, and received another request"


def _check_heard(evidence: ServerEvidence) -> Iterator[str]:
    """Every acknowledged message of a turn that was not called off is in a request that the model received."""
    heard = {mark for request in evidence.received for mark in request.marks}
    reasons = {
        (conversation, entry.turn_id): entry.block.reason
        for conversation, timeline in evidence.timelines.items()
        for entry in timeline.entries
        if isinstance(entry.block, TurnEnded)
    }
    for conversation, entry, text in _said(evidence):
        if isinstance(entry.block, ApprovalDecided) or reasons.get((conversation, entry.turn_id)) in NOT_HEARD:
            continue
        for mark in MARK.findall(text):
            if mark not in heard:
                yield f"{conversation}: {mark} at {entry.seq} was never sent to the model"


def _check_turns(evidence: ServerEvidence) -> Iterator[str]:
    """Every turn has ended once, for a reason that a client caused."""
    for conversation, timeline in evidence.timelines.items():
        started = [entry.turn_id for entry in timeline.entries if isinstance(entry.block, TurnStarted)]
        ended = [entry.turn_id for entry in timeline.entries if isinstance(entry.block, TurnEnded)]
        if started != ended:
            yield f"{conversation}: the turns {started} were started and {ended} were ended"
        for _, end in _blocks(timeline, TurnEnded):
            if end.reason not in ("completed", "max_iterations", *NOT_HEARD):
                yield f"{conversation}: a turn ended as {end.reason}: {end.text}"
    if evidence.open_turns:
        yield f"open turns are listed: {list(evidence.open_turns)}"


def _check_effects(evidence: ServerEvidence) -> Iterator[str]:
    """A call has its effect after its intent and approval, an irreversible one at most once, never after a receipt."""
    intents = {
        one.tool_call_id: one for timeline in evidence.timelines.values() for _, one in _blocks(timeline, ToolCall)
    }
    approved = {
        one.tool_call_id
        for timeline in evidence.timelines.values()
        for _, one in _blocks(timeline, ApprovalDecided)
        if one.approved
    }
    for line in evidence.lines:
        if isinstance(line, ToolStarted) and line.call not in intents:
            yield f"{line.tool} ran as {line.call}, which is on no timeline"
        if isinstance(line, ToolStarted) and line.tool in IRREVERSIBLE and line.call not in approved:
            yield f"{line.tool} ran as {line.call} without an approval"
    for (tool, call), times in _effects(evidence).items():
        if times > 1 and tool in IRREVERSIBLE:
            yield f"{tool} had its effect {times} times as {call}"


def _check_receipts(evidence: ServerEvidence) -> Iterator[str]:
    """Every call has one receipt; one without an error means that its effect has happened."""
    effects = Counter(call for (_, call), times in _effects(evidence).items() for _ in range(times))
    for conversation, timeline in evidence.timelines.items():
        times: dict[str, set[object]] = {}
        failed: set[str] = set()
        for entry in timeline.entries:
            block = entry.block
            if isinstance(block, ResultContent | ResultDigest | ResultStatus) and block.tool_call_id:
                times.setdefault(block.tool_call_id, set()).add(entry.ts)
                if isinstance(block, ResultStatus) and block.error:
                    failed.add(block.tool_call_id)
        for seq, call in _blocks(timeline, ToolCall):
            count = len(times.get(call.tool_call_id, ()))
            if count != 1:
                yield f"{conversation}: {call.tool_id} at {seq} has {count} receipts"
            is_ours = call.tool_id.startswith("t.")
            if is_ours and call.tool_call_id not in failed and not effects[call.tool_call_id]:
                yield f"{conversation}: {call.tool_id} at {seq} has a receipt and had no effect"


def _effects(evidence: ServerEvidence) -> Counter[tuple[str, str]]:
    return Counter((line.tool, line.call) for line in evidence.lines if isinstance(line, EffectDone))


def _said(evidence: ServerEvidence) -> Iterator[tuple[str, Entry, str]]:
    """Yield every text that came from a client, with its conversation and entry."""
    for conversation, timeline in evidence.timelines.items():
        for entry in timeline.entries:
            if isinstance(entry.block, Said):
                yield conversation, entry, str(entry.block.text)


def _blocks(timeline: Timeline, kind: type[B]) -> list[tuple[int, B]]:
    return [(entry.seq, entry.block) for entry in timeline.entries if isinstance(entry.block, kind)]
