"""Fixed sample blocks: at least one of every block class, with every field set."""

from typing import Final

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
    Shown,
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
    TurnEnded,
    TurnStarted,
    Unknown,
    Usage,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.ids import CallId, ConversationId, MessageId, PlanId, TurnId
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import NO_TURN, Draft

TURN: Final = TurnId("turn_1770603271112_2yz1lp")
TS: Final = "2026-02-09T02:14:32.676425Z"

_WRITE, _READ, _EXEC = CallId("18f62649fb3b"), CallId("6a3f1e0d9b21"), CallId("0c44d1a7be90")
_REPORT: Final = f"fi:{TURN}.files/reports/summary.md"
_MENU: Final = f"fi:{TURN}.user.attachments/menu.pdf"
_DIGEST: Final = Digest(
    artifact_path=_REPORT,
    physical_path=f"{TURN}/files/reports/summary.md",
    mime="text/markdown",
    kind="display",
    visibility="external",
    channel="canvas",
    sources_used=(1, 2),
    tokens=1234,
    size_bytes=5000,
    write_warning="small",
)
_HOSTING: Final = Hosting(
    hosted_uri="s3://bucket/summary.md", rn="ef:t:p:chatbot:prod:u:c:1:artifact:summary.md", key="k"
)
_PLAN: Final = PlanSnapshot(
    plan_id=PlanId(f"plan:{TURN}:abcd"),
    steps=("collect metrics", "compare trends", "draft answer"),
    statuses=("done", "in_progress", "pending"),
    created_ts=TS,
    last_ts=TS,
    origin_turn_id=TURN,
    last_turn_id=TURN,
)
_OLD_PLAN: Final = PlanSnapshot(
    plan_id=PlanId("plan_old"), steps=("one",), statuses=("failed",), closed_ts=TS, superseded_ts=TS
)
_ROWS: Final = (
    SourceRow(
        sid=1,
        source_type="web",
        title="Ferry fares",
        url="https://ferries.example/fares",
        text="Family ticket 74.00 €",
        content="The full page. " * 4000,
        mime="text/html",
        domain="ferries.example",
        published_time_iso="2026-01-01T00:00:00Z",
        provider_rank=1.0,
        authority=0.5,
    ),
    SourceRow(sid=2, source_type="manual", title="A note", text="by hand", extra='{"colour":"green"}'),
)

SAMPLE_HEADER: Final = ConversationStarted(
    tenant="tenant",
    project="project",
    user="user",
    bundle="bundle",
    parent=ConversationId("conv_0"),
    forked_from=ForkPoint(ConversationId("conv_0"), 7),
)

SAMPLE_BLOCKS: Final[tuple[AnyBlock, ...]] = (
    TurnStarted(n=1, rerun=True),
    UserPrompt(text="Wo kann man in Wuppertal gut essen? 🍽️"),
    AttachmentMeta(digest=Digest(artifact_path=_MENU, mime="application/pdf", size_bytes=9), summary="2-page menu"),
    Attachment(artifact_path=_MENU, mime="application/pdf", data=b"%PDF-1.7\n", shown=Shown("stub", 9, "menu.pdf")),
    AgentLogStarted(text="[AGENT LOG]"),
    StageGate(text="open"),
    StageCoordinator(text='{"next":"react"}', mime="application/json"),
    RoundStarted(round=1),
    ModelCalled(round=1, model="script:x", request_sha256="ab" * 32, system="You are timeloom.", tail="ANNOUNCE"),
    ModelAnswered(
        round=1,
        model="script:x",
        stop_reason="end",
        attempt=2,
        usage=Usage(input_tokens=3, cache_read_tokens=900, cache_write_tokens=30, output_tokens=60, cost_nano_usd=12),
        interrupted=True,
        text="<channel:thinking>half a",
        error="cut",
    ),
    Thinking(round=1, text="Two fares to find."),
    PlanRecorded(snapshot=_PLAN),
    PlanAcknowledged(round=1, text="✓ [1] collect metrics", plan_id=_PLAN.plan_id),
    Notes(tool_call_id=_WRITE, text="Drafting summary"),
    ToolCall(
        tool_id="react.write", tool_call_id=_WRITE, params='{"path":"files/reports/summary.md","content":"# Report"}'
    ),
    Notice(code="protocol_violation.path_rewritten", text="rewritten", tool_call_id=_WRITE),
    ResultDigest(tool_call_id=_WRITE, digest=_DIGEST),
    ResultContent(
        tool_call_id=_WRITE,
        artifact_path=_REPORT,
        mime="text/markdown",
        text="# Report\n" + "A line of the report.\n" * 2000,
        hosting=_HOSTING,
        digest=_DIGEST,
    ),
    Note(tool_call_id=_WRITE, text="[D] decided to compare by price"),
    SourcesAdded(rows=_ROWS, tool_call_id=_READ),
    Notice(code="protocol_violation.decision_malformed", text="no JSON object"),
    Gate(policy="irreversible", verdict="ask", text="sends mail", tool_call_id=_EXEC),
    ApprovalRequested(
        tool_call_id=_EXEC, tool_id="exec_tools.execute_code_python", text="Run it?", policy="irreversible"
    ),
    ApprovalDecided(tool_call_id=_EXEC, approved=True, by="user", text="go on"),
    ToolCode(tool_call_id=_EXEC, text="print('hello')\n"),
    ToolCall(tool_id="exec_tools.execute_code_python", tool_call_id=_EXEC, params='{"contract":[]}'),
    ResultStatus(
        tool_call_id=_EXEC,
        text="Runtime error: execution_failed",
        error=ToolError(
            code="missing_artifact", message="not produced", where="exec", details={"missing_artifact": "x"}
        ),
    ),
    ResultContent(tool_call_id=_EXEC, artifact_path=f"fi:{TURN}.outputs/data.xlsx", mime="application/vnd.ms-excel"),
    ToolCall(tool_id="react.read", tool_call_id=_READ, params="{}"),
    ResultStatus(tool_call_id=_READ, text='{"paths":[]}', mime="application/json", shown=Shown("whole", 3)),
    ResultContent(tool_call_id=_READ, artifact_path=_REPORT, mime="text/markdown", text="# Report"),
    Followup(message_id=MessageId("m1"), text="and by bus?"),
    Steer(message_id=MessageId("m2"), text="stop the search"),
    ExternalEvent(kind="form", message_id=MessageId("m3"), text="{}", mime="application/json", started_ts=TS),
    Hidden(target=_REPORT, replacement="the report, see the file"),
    Completion(text="Frisia is cheaper [[S:1]].", sources_used=(1,), suggested_followups=("And by bus?",)),
    Completion(text="By bus it is cheaper still.", n=2),
    ReactCompletion(text="done"),
    PlanRecorded(snapshot=_OLD_PLAN, change="close"),
    PlansCompacted(plans=(PlanSkeleton(_OLD_PLAN, "ar:plan.latest:plan_old"),)),
    WorkingSummary(text="Goal: fares. Outcome: Frisia."),
    StageFeedback(text="good"),
    StageClarification(text="Which day?"),
    StageClarificationResolved(text="Sunday"),
    TurnEnded(reason="completed", text="answered"),
    Feedback(origin="user", reaction="ok", text="Very helpful!", given_ts="2026-03-21T10:00:00Z"),
    Feedback(origin="machine", reaction="neutral", confidence=0.5, author="machine"),
    Titled(text="Ferries"),
    Pruned(cuts=(Cut(3, 4, "[menu.pdf]"), Cut(6, 7)), reason="cold"),
    RangeSummary(covered_turn_ids=(TURN,), text="They compared ferries.", first_seq=2, last_seq=20),
    Unknown(json='{"type": "react.dream", "text": "sheep"}', foreign_type="react.dream"),
    Erased(by="user", text="asked for it"),
    CompactionRequested(message_id=MessageId("m4"), text="keep the fares", keep=3),
    CompactionEnded(message_id=MessageId("m4"), outcome="completed", turns=1, covered_tokens=900, summary_tokens=120),
    Pinned(target=_REPORT, tokens=40, author="user"),
    ChannelText(channel="chart", mime="application/json", text='{"bars":[74,89]}', round=1, widget="bars"),
)
"""All sample blocks except the header, in an order that a conversation could have."""


def sample_drafts() -> list[Draft]:
    """Return the drafts of a conversation with all samples: the header, then the rest in one turn."""
    return [Draft(NO_TURN, TS, SAMPLE_HEADER), *(Draft(TURN, TS, block) for block in SAMPLE_BLOCKS)]
