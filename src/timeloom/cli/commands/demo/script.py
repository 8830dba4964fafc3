"""The sample conversation of `timeloom demo`, as blocks of a user, a model and three tools."""

from collections.abc import Sequence
from typing import Final

from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ConversationStarted,
    Digest,
    Hidden,
    ModelAnswered,
    ModelCalled,
    Notes,
    PlanAcknowledged,
    PlanRecorded,
    ResultContent,
    ResultDigest,
    RoundStarted,
    SourcesAdded,
    Thinking,
    Titled,
    ToolCall,
    TurnEnded,
    TurnStarted,
    Usage,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.ids import CallId, TurnId, make_call_id, make_plan_id, make_turn_id
from timeloom.core.plans.snapshot import PlanSnapshot, StepStatus
from timeloom.core.sources import NewSource, SourcesPool
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.ids import Ids

QUESTION: Final = "Which of the two ferries to Norderney is cheaper for a family of four?"

_REPORT: Final = """\
# Ferries to Norderney, family of four

| ferry | from | price |
|---|---|---|
| Frisia | Norddeich | 74.00 € [[S:1]] |
| Islander | Norddeich | 89.50 € [[S:2]] |
"""
_PAGES: Final = (
    NewSource(
        title="Ferry fares 2026", url="https://ferries.example/fares?utm_source=demo", text="Family day ticket 74.00 €"
    ),
    NewSource(title="Islander express: prices", url="https://islander.example/prices", text="Two adults, two children"),
)
_STEPS: Final = ("Look up both fares", "Write a comparison", "Answer")


def demo_steps(clock: Clock, ids: Ids) -> Sequence[Sequence[Draft]]:
    """Return the drafts of the conversation, grouped into steps; each group is appended together."""
    turn = make_turn_id(clock.epoch_us() // 1000, ids.bits())

    def drafts(*blocks: AnyBlock, turn_id: TurnId = turn) -> list[Draft]:
        return [Draft(turn_id, timestamp(clock.epoch_us()), block) for block in blocks]

    header = ConversationStarted(tenant="demo", project="demo", user="newcomer")
    return [
        drafts(header, turn_id=NO_TURN),
        drafts(TurnStarted(n=1), UserPrompt(text=QUESTION)),
        *(drafts(*step) for step in _rounds(turn, ids)),
    ]


def _rounds(turn: TurnId, ids: Ids) -> list[list[AnyBlock]]:
    plan_call, search, write = (make_call_id(ids.bits()) for _ in range(3))
    plan_id = make_plan_id(turn, ids.bits())

    def plan(*statuses: StepStatus) -> PlanSnapshot:
        return PlanSnapshot(plan_id=plan_id, steps=_STEPS, statuses=statuses, origin_turn_id=turn, last_turn_id=turn)

    start = plan("pending", "pending", "pending")
    found = plan("done", "in_progress", "pending")
    done = plan("done", "done", "done")
    return [
        _model_round(1, "Two fares to find; a short plan first."),
        [ToolCall(tool_id="react.plan", tool_call_id=plan_call, params='{"mode":"new"}')],
        [PlanRecorded(snapshot=start), _receipt(turn, plan_call)],
        _model_round(2, "Search for both operators."),
        [
            Notes(tool_call_id=search, text="Looking up both fares."),
            ToolCall(
                tool_id="web_tools.web_search", tool_call_id=search, params='{"queries":["Norderney ferry fares"]}'
            ),
        ],
        [SourcesAdded(rows=SourcesPool().merge(_PAGES).added, tool_call_id=search), *_results(turn, search)],
        _model_round(3, "Both are known. Write the comparison."),
        [
            PlanAcknowledged(round=3, text="✓ [1] Look up both fares\n… [2] Write a comparison", plan_id=plan_id),
            PlanRecorded(snapshot=found, change="progress"),
            ToolCall(tool_id="react.write", tool_call_id=write, params='{"path":"files/ferries.md","kind":"display"}'),
        ],
        _write_results(turn, write),
        [
            Hidden(
                target=f"tc:{turn}.{search}.result",
                replacement="search results, two rows; both fares are in the report",
            )
        ],
        _model_round(4, "Enough to answer."),
        [
            PlanRecorded(snapshot=done, change="progress"),
            Completion(text="Frisia is cheaper: 74.00 € [[S:1]] against 89.50 € [[S:2]].", sources_used=(1, 2)),
            WorkingSummary(
                text="Goal: cheapest ferry. Outcome: Frisia, 74.00 €. Refs: files/ferries.md, sources 1 and 2."
            ),
            TurnEnded(reason="completed"),
        ],
        [Titled(text="Ferries to Norderney")],
    ]


def _model_round(number: int, thought: str) -> list[AnyBlock]:
    usage = Usage(input_tokens=40, cache_read_tokens=900 * number, output_tokens=60)
    return [
        RoundStarted(round=number),
        ModelCalled(round=number, model="script:demo", request_sha256=f"{number:064x}"),
        ModelAnswered(round=number, model="script:demo", stop_reason="end", usage=usage),
        Thinking(round=number, text=thought),
    ]


def _receipt(turn: TurnId, call: CallId) -> ResultDigest:
    digest = Digest(artifact_path=f"tc:{turn}.{call}.result", mime="application/json", visibility="internal")
    return ResultDigest(tool_call_id=call, digest=digest)


def _results(turn: TurnId, call: CallId) -> list[AnyBlock]:
    listing = '[{"sid":1,"title":"Ferry fares 2026"},{"sid":2,"title":"Islander express: prices"}]'
    path = f"tc:{turn}.{call}.result"
    content = ResultContent(tool_call_id=call, artifact_path=path, mime="application/json", text=listing)
    return [_receipt(turn, call), content]


def _write_results(turn: TurnId, call: CallId) -> list[AnyBlock]:
    path = f"fi:{turn}.files/ferries.md"
    digest = Digest(
        artifact_path=path,
        physical_path=f"{turn}/files/ferries.md",
        mime="text/markdown",
        kind="display",
        visibility="external",
        sources_used=(1, 2),
        size_bytes=len(_REPORT.encode()),
    )
    content = ResultContent(tool_call_id=call, artifact_path=path, mime="text/markdown", text=_REPORT, digest=digest)
    return [ResultDigest(tool_call_id=call, digest=digest), content]
