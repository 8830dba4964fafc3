"""Hypothesis strategies for blocks, drafts and timelines; needs the package `hypothesis`.

Ids, turns and paths come from small pools, so that blocks often refer to each other.
"""

from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from timeloom.core.blocks import (
    AgentLogStarted,
    AnyBlock,
    ApprovalDecided,
    ApprovalRequested,
    Attachment,
    AttachmentMeta,
    ChannelText,
    CompactionEnded,
    CompactionRequested,
    Completion,
    ConversationStarted,
    Cut,
    Digest,
    Erased,
    ExternalEvent,
    Feedback,
    Followup,
    ForkPoint,
    Gate,
    Hidden,
    Hosting,
    ModelAnswered,
    ModelCalled,
    Note,
    Notes,
    Notice,
    Pinned,
    PlanAcknowledged,
    PlanRecorded,
    PlansCompacted,
    PlanSkeleton,
    Pruned,
    RangeSummary,
    ReactCompletion,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    SourcesAdded,
    StageClarification,
    StageClarificationResolved,
    StageCoordinator,
    StageFeedback,
    StageGate,
    Steer,
    Thinking,
    Titled,
    ToolCall,
    ToolCode,
    ToolError,
    ToolTraits,
    TurnEnded,
    TurnStarted,
    Unknown,
    Usage,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.ids import CallId, ConversationId, MessageId, PlanId, TurnId
from timeloom.core.payload import ref_of
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import NO_TURN, Draft, Entry, to_entry

TURNS: Final = tuple(TurnId(f"turn_{n}") for n in range(1, 4))
CALLS: Final = tuple(CallId(f"c{n}") for n in range(1, 4))
MESSAGES: Final = tuple(MessageId(f"m{n}") for n in range(1, 3))
PLANS: Final = tuple(PlanId(f"plan:turn_1:{n:04x}") for n in range(1, 3))
FILES: Final = tuple(f"fi:{turn}.files/{name}" for turn in TURNS for name in ("a.md", "b.csv"))

texts: SearchStrategy[str] = st.text(max_size=40)
some_text: SearchStrategy[str] = st.text(min_size=1, max_size=40)
turns = st.sampled_from(TURNS)
calls = st.sampled_from(CALLS)
messages = st.sampled_from(MESSAGES)
rounds = st.integers(1, 4)
blob_refs = st.binary(min_size=1, max_size=8).map(ref_of)
payload_texts = texts | blob_refs
payload_bytes = st.binary(max_size=20) | blob_refs
mimes = st.sampled_from(("text/markdown", "application/json", "image/png", "text/csv"))
errors = st.builds(ToolError, code=st.sampled_from(("tool_timeout", "odd")), message=some_text)
timestamps = st.integers(0, 59).map(lambda second: f"2026-02-09T02:14:{second:02d}.000000Z")


@st.composite
def paths(draw: st.DrawFn) -> str:
    """Draw a path from the pools, which another drawn block may have."""
    turn, call = draw(turns), draw(calls)
    forms = (f"tc:{turn}.{call}.result", f"tc:{turn}.{call}.call", f"ar:{turn}.user.prompt")
    return draw(st.sampled_from((*FILES, *forms, f"ar:{turn}.assistant.completion", f"ar:{turn}.react.thinking.1")))


digests = st.builds(
    Digest,
    artifact_path=st.sampled_from(FILES) | st.just("tc:turn_1.c1.result"),
    mime=mimes,
    kind=st.sampled_from(("file", "display", None)),
    visibility=st.sampled_from(("external", "internal", None)),
    sources_used=st.lists(st.integers(1, 9), max_size=2).map(tuple),
    tokens=st.none() | st.integers(0, 99),
    size_bytes=st.none() | st.integers(0, 99),
    edited=st.booleans(),
    error=st.none() | errors,
)
hostings = st.none() | st.builds(Hosting, hosted_uri=some_text, rn=texts, key=texts)
usages = st.builds(
    Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9), cost_nano_usd=st.integers(0, 9)
)
params = st.sampled_from(("{}", '{"path": "a.md"}', '{"n":1,"deep":{"x":[1,2]}}'))


@st.composite
def snapshots(draw: st.DrawFn) -> PlanSnapshot:
    """Draw a plan from the pool in any state."""
    steps = draw(st.lists(st.sampled_from(("look", "weigh", "write")), min_size=1, max_size=3))
    status = st.sampled_from(("pending", "in_progress", "done", "failed"))
    return PlanSnapshot(
        plan_id=draw(st.sampled_from(PLANS)),
        steps=tuple(steps),
        statuses=tuple(draw(st.lists(status, min_size=len(steps), max_size=len(steps)))),
        created_ts=draw(timestamps),
        last_ts=draw(timestamps),
        origin_turn_id=draw(st.none() | turns),
        closed_ts=draw(st.just("") | timestamps),
        superseded_ts=draw(st.just("") | timestamps),
    )


@st.composite
def cuts(draw: st.DrawFn) -> tuple[Cut, ...]:
    """Draw one or two ordered cuts that do not overlap."""
    bounds = sorted(draw(st.lists(st.integers(1, 40), min_size=2, max_size=4, unique=True)))
    pairs = zip(bounds[::2], bounds[1::2], strict=False)
    return tuple(Cut(first, last, draw(texts)) for first, last in pairs)


@st.composite
def contents(draw: st.DrawFn) -> AnyBlock:
    """Draw a result or an attachment with text, bytes or neither."""
    which = draw(st.sampled_from(("text", "data", "none")))
    path, mime, hosting = draw(st.sampled_from(FILES)), draw(mimes), draw(hostings)
    text = draw(payload_texts) if which == "text" else None
    data = draw(payload_bytes) if which == "data" else None
    digest = draw(st.none() | digests)
    if draw(st.booleans()):
        return Attachment(artifact_path=path, mime=mime, text=text, data=data, hosting=hosting, digest=digest)
    return ResultContent(
        artifact_path=path, mime=mime, text=text, data=data, hosting=hosting, digest=digest, tool_call_id=draw(calls)
    )


@st.composite
def range_summaries(draw: st.DrawFn) -> RangeSummary:
    """Draw a summary of turns or of a range of seqs."""
    first, last = sorted(draw(st.tuples(st.integers(1, 40), st.integers(1, 40))))
    covered = tuple(draw(st.lists(turns, min_size=1, max_size=2)))
    text, n = draw(some_text), draw(st.integers(1, 2))
    if draw(st.booleans()):
        return RangeSummary(covered_turn_ids=covered, text=text, n=n)
    return RangeSummary(covered_turn_ids=covered, text=text, first_seq=first, last_seq=last, n=n)


source_rows = st.builds(SourceRow, sid=st.integers(1, 9), title=texts, url=texts, content=payload_texts)

conversation_blocks: SearchStrategy[AnyBlock] = st.one_of(
    st.builds(Titled, text=some_text),
    st.builds(
        SourcesAdded, rows=st.lists(source_rows, min_size=1, max_size=3).map(tuple), tool_call_id=st.none() | calls
    ),
    st.builds(WorkingSummary, text=some_text | blob_refs, n=st.integers(1, 3)),
    range_summaries(),
    st.builds(Erased, by=some_text, text=texts),
)
quoted_roles = st.sampled_from(((), ("tool",), ("assistant", "system")))
user_blocks: SearchStrategy[AnyBlock] = st.one_of(
    st.builds(UserPrompt, text=payload_texts, quoted_roles=quoted_roles),
    st.builds(AttachmentMeta, digest=digests, summary=texts),
    st.builds(Followup, message_id=messages, text=payload_texts, quoted_roles=quoted_roles),
    st.builds(Steer, message_id=messages, text=payload_texts),
    st.builds(
        ExternalEvent, kind=st.sampled_from(("form", "alert", "cancel")), message_id=messages, text=texts, mime=mimes
    ),
    st.builds(
        Feedback,
        origin=st.sampled_from(("user", "machine")),
        reaction=st.sampled_from(("ok", "not_ok", "neutral", None)),
        text=texts,
        given_ts=st.sampled_from(("", "2026-03-21T10:00:00Z")),
        confidence=st.none() | st.floats(0, 1),
    ),
)
round_blocks: SearchStrategy[AnyBlock] = st.one_of(
    st.builds(RoundStarted, round=rounds),
    st.builds(
        ModelCalled,
        round=rounds,
        model=some_text,
        request_sha256=some_text,
        system=payload_texts,
        tail=payload_texts,
        estimated_tokens=st.integers(0, 10**6),
        sections=st.sampled_from(("", "agent.1 reply.2")),
        protocol=st.sampled_from(("channels", "native")),
        tools=payload_texts,
    ),
    st.builds(
        ModelAnswered,
        round=rounds,
        model=st.sampled_from(("a", "b")),
        stop_reason=texts,
        usage=usages,
        usage_reported=st.booleans(),
        priced=st.booleans(),
        text=payload_texts,
        protocol=st.sampled_from(("channels", "native")),
        tool_calls=payload_texts,
    ),
    st.builds(Thinking, round=rounds, text=payload_texts),
    st.builds(Notes, tool_call_id=calls, text=some_text | blob_refs),
    st.builds(Note, tool_call_id=calls, text=some_text),
    st.builds(
        ChannelText,
        channel=st.sampled_from(("chart", "map_2", "to-do")),
        mime=mimes,
        text=payload_texts,
        round=rounds,
        n=st.integers(1, 3),
        widget=st.sampled_from(("", "bars")),
        cut=st.booleans(),
    ),
    st.builds(
        Completion,
        text=payload_texts,
        n=st.integers(1, 3),
        sources_used=st.lists(st.integers(1, 9), max_size=2).map(tuple),
    ),
    st.builds(ReactCompletion, text=payload_texts),
)
traits = st.builds(
    ToolTraits,
    result_text=st.sampled_from(("foreign", "file", "own")),
    reads_artifacts=st.booleans(),
    numbers_lines=st.booleans(),
    content_param=st.sampled_from(("", "text")),
)
tool_blocks: SearchStrategy[AnyBlock] = st.one_of(
    st.builds(ToolCode, tool_call_id=calls, text=payload_texts),
    st.builds(
        ToolCall,
        tool_id=st.sampled_from(("react.read", "react.write", "x.y")),
        tool_call_id=calls,
        params=params | blob_refs,
        by=st.none() | calls,
        traits=st.none() | traits,
    ),
    st.builds(Notice, code=st.sampled_from(("tool_timeout", "odd")), text=some_text, tool_call_id=st.none() | calls),
    st.builds(ResultDigest, tool_call_id=calls, digest=digests),
    st.builds(ResultStatus, tool_call_id=calls, text=payload_texts, mime=mimes, error=st.none() | errors),
    contents(),
    st.builds(
        Gate, policy=some_text, verdict=st.sampled_from(("allow", "refuse", "ask")), tool_call_id=st.none() | calls
    ),
    st.builds(ApprovalRequested, tool_call_id=calls, tool_id=some_text, text=payload_texts),
    st.builds(ApprovalDecided, tool_call_id=calls, approved=st.booleans(), by=some_text),
)
plan_blocks: SearchStrategy[AnyBlock] = st.one_of(
    st.builds(
        PlanRecorded, snapshot=snapshots(), change=st.sampled_from(("new", "replace", "activate", "close", "progress"))
    ),
    st.builds(PlanAcknowledged, round=rounds, text=some_text, plan_id=st.none() | st.sampled_from(PLANS)),
    st.builds(
        PlansCompacted,
        plans=st.lists(
            st.builds(PlanSkeleton, snapshot=snapshots(), snapshot_ref=some_text), min_size=1, max_size=2
        ).map(tuple),
    ),
)
forgetting_blocks: SearchStrategy[AnyBlock] = st.one_of(
    st.builds(Hidden, target=paths(), replacement=some_text),
    st.builds(Pruned, cuts=cuts(), reason=texts),
    st.builds(Pinned, target=paths(), pinned=st.booleans(), tokens=st.integers(0, 99)),
    st.builds(CompactionRequested, message_id=messages, text=texts, keep=st.integers(0, 9)),
    st.builds(
        CompactionEnded,
        message_id=messages,
        outcome=st.sampled_from(("completed", "skipped")),
        turns=st.integers(0, 9),
        covered_tokens=st.integers(0, 9_000),
        text=texts,
    ),
)
turn_blocks: SearchStrategy[AnyBlock] = st.one_of(
    st.builds(TurnStarted, n=st.integers(1, 3), rerun=st.booleans()),
    st.builds(AgentLogStarted, text=texts),
    st.builds(TurnEnded, reason=st.sampled_from(("completed", "stopped", "provider_error")), text=texts),
)
stage_blocks: SearchStrategy[AnyBlock] = st.one_of(
    *(
        st.builds(stage, text=payload_texts, mime=mimes)
        for stage in (StageGate, StageCoordinator, StageFeedback, StageClarification, StageClarificationResolved)
    )
)
headers: SearchStrategy[ConversationStarted] = st.builds(
    ConversationStarted,
    tenant=some_text,
    project=some_text,
    user=some_text,
    bundle=texts,
    parent=st.none() | st.just(ConversationId("conv_0")),
    forked_from=st.none()
    | st.builds(ForkPoint, conversation_id=st.just(ConversationId("conv_0")), seq=st.integers(1, 9)),
)
unknown_blocks: SearchStrategy[AnyBlock] = st.builds(
    Unknown,
    json=st.integers(0, 9).map(lambda n: f'{{"type": "new.kind", "x": {n}}}'),
    foreign_type=st.just("new.kind"),
    foreign_path=st.just("") | st.sampled_from(FILES),
)
later_blocks: SearchStrategy[AnyBlock] = st.one_of(
    conversation_blocks,
    user_blocks,
    round_blocks,
    tool_blocks,
    plan_blocks,
    forgetting_blocks,
    turn_blocks,
    stage_blocks,
    unknown_blocks,
)
"""Any block except the header of a conversation."""

blocks: SearchStrategy[AnyBlock] = headers | later_blocks
drafts: SearchStrategy[Draft] = st.builds(Draft, turn_id=turns | st.just(NO_TURN), ts=timestamps, block=blocks)
later_drafts: SearchStrategy[Draft] = st.builds(Draft, turn_id=turns, ts=timestamps, block=later_blocks)


def timelines(max_size: int = 40) -> SearchStrategy[Sequence[Entry]]:
    """Return a strategy for the entries of a conversation: a header, then any blocks in any order."""
    first = st.builds(Draft, turn_id=st.just(NO_TURN), ts=timestamps, block=headers)
    return st.builds(_place_all, first, st.lists(later_drafts, max_size=max_size))


def _place_all(first: Draft, rest: list[Draft]) -> list[Entry]:
    return [to_entry(draft, seq) for seq, draft in enumerate([first, *rest], 1)]
