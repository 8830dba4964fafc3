"""Executes one action of the model's reply: a tool call or the final answer."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, assert_never, cast

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    ApprovalRequested,
    Completion,
    Gate,
    Notes,
    Notice,
    PlanAcknowledged,
    PlanRecorded,
    ResultStatus,
    ToolCall,
    ToolCode,
    WorkingSummary,
    registered_error,
)
from timeloom.core.citations.rewriter import sources_used
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, TurnId
from timeloom.core.plans.acknowledge import read_notes
from timeloom.core.plans.changes import Moment
from timeloom.core.policy.gates import Ruling, ToolStep
from timeloom.core.policy.next_step import INTERRUPTED, DropCall, FinishCall, RunCall
from timeloom.core.policy.read_reply import EXEC_PREFIX, Reply
from timeloom.core.render.foreign_text.fence import ESCAPE, unescape
from timeloom.core.stream.decision import CallTool, Complete, Decision, Exit
from timeloom.core.view.calls import Call
from timeloom.core.view.plans import carried_over
from timeloom.ports.ledger import Amounts, Most
from timeloom.ports.store import StoreError
from timeloom.ports.tool import Tool, ToolContext
from timeloom.runtime.governance.costs import tool_key
from timeloom.runtime.governance.governor import Admission, Governor
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.nested_calls import NestedCalls, interrupted
from timeloom.runtime.turn.run_tool import RunSettings, Show, reconcile_call, run_call
from timeloom.tools.registry import ToolRegistry

PLAN_TOOL: Final = "react.plan"

APPROVAL: Final = "approval"
"""The policy name recorded in the gate of a call that a person has approved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """The session, tools and settings that actions are executed with."""

    session: Session
    registry: ToolRegistry
    show: Show
    out_dir: Path
    """The conversation's folder; it is created when the first call needs it."""
    emit: Callable[[str, str], None]
    interrupt: asyncio.Event
    governor: Governor


async def carry_out(workshop: Workshop, decision: Decision, reply: Reply | None) -> None:
    """Execute the action and append its blocks; a call is durable on the timeline before it runs."""
    match decision:
        case CallTool():
            await _call(workshop, decision, reply or Reply())
        case Complete() | Exit():
            await _answer(workshop, decision, reply or Reply())
        case _:
            assert_never(decision)


async def close_call(workshop: Workshop, step: FinishCall | RunCall | DropCall) -> None:
    """Give the open call its result: a crashed process began it, or a person was asked to approve it."""
    session, call = workshop.session, await _open_call(workshop.session)
    turn = session.views.progress.turn_id
    await _close_inner(session, call, turn)
    match step:
        case FinishCall(again=True):
            await _finish(workshop, call, turn)
        case FinishCall():
            await session.append([_dropped(call.tool_call_id, "tool_interrupted", _CALLED_OFF)], turn)
        case RunCall():
            if workshop.registry.get(call.tool_id) is None:
                raise CodedError("unknown_tool", _NOT_HERE.format(call.tool_id))
            await _run_after_all(workshop, call, turn, APPROVAL)
        case DropCall(code=code, text=text):
            await session.append([_dropped(call.tool_call_id, code, text)], turn)
        case _:
            assert_never(step)


async def _close_inner(session: Session, call: ToolCall, turn: TurnId) -> None:
    """Append an interrupted result for each nested call that has none."""
    if left := [interrupted(one.tool_call_id) for one in _inner(session, call, turn) if not one.receipt_seqs]:
        await session.append(left, turn)


def _inner(session: Session, call: ToolCall, turn: TurnId) -> list[Call]:
    """Return the nested calls that the call made."""
    calls = session.views.calls
    known = calls.get(turn, call.tool_call_id)
    return [one for call_id in known.inner if (one := calls.get(turn, call_id))] if known else []


async def _finish(workshop: Workshop, call: ToolCall, turn: TurnId) -> None:
    """Run an interrupted call again if that is harmless; else ask its tool for the outcome, then a person."""
    tool = workshop.registry.get(call.tool_id)
    if tool is None:
        # Another program began the call with a tool that is not available here and may be irreversible.
        known = "unknown"
    elif tool.spec.effect == "irreversible":
        known = await _reconciled(workshop, tool, call)
    elif _has_called_for_good(workshop, call, turn):
        known = "unknown"
    else:
        known = "not_done"
    match known:
        case "not_done":
            await _run_after_all(workshop, call, turn, INTERRUPTED)
        case "unknown":
            await workshop.session.append([_question(workshop, call, Ruling("ask", _UNKNOWN, INTERRUPTED))], turn)
        case _:
            await workshop.session.append(known, turn)


def _has_called_for_good(workshop: Workshop, call: ToolCall, turn: TurnId) -> bool:
    """Return whether the call made irreversible nested calls, so that running it again may do harm."""
    inner = _inner(workshop.session, call, turn)
    return any(workshop.registry.resolve(one.tool_id).spec.effect == "irreversible" for one in inner)


async def _open_call(session: Session) -> ToolCall:
    progress = session.views.progress
    assert progress.open_call is not None
    known = session.views.calls.get(progress.turn_id, progress.open_call.call_id)
    assert known is not None
    assert known.call_seq is not None
    (entry,) = await session.entries([known.call_seq])
    assert isinstance(entry.block, ToolCall)
    return entry.block


async def _call(workshop: Workshop, decision: CallTool, reply: Reply) -> None:
    session, turn = workshop.session, workshop.session.views.progress.turn_id
    call_id = session.new_call_id()
    call = ToolCall(tool_id=decision.tool_id, tool_call_id=call_id, params=decision.params)
    admission = await _admission(workshop, call, turn)
    ruling, blocks = admission.ruling, _announced_call(session, decision, call, reply)
    match ruling.verdict:
        case "allow":
            await session.append(blocks, turn)
            await _run(workshop, call, turn, admission)
        case "refuse":
            await session.append([*blocks, *_refused(call_id, ruling)], turn)
        case "ask":
            await session.append([*blocks, _gate(call_id, ruling), _question(workshop, call, ruling)], turn)
        case _:
            assert_never(ruling.verdict)


async def _run_after_all(workshop: Workshop, call: ToolCall, turn: TurnId, because: str) -> None:
    """Run a call that is already on the timeline, unless a policy or a budget forbids it now."""
    admission = await _admission(workshop, call, turn, begun=True)
    ruling = admission.ruling
    if ruling.verdict == "refuse":
        await workshop.session.append(_refused(call.tool_call_id, ruling), turn)
        return
    # The start of the call is durable before it runs.
    await workshop.session.append([_gate(call.tool_call_id, Ruling("allow", policy=because))], turn)
    await _run(workshop, call, turn, admission)


async def _admission(workshop: Workshop, call: ToolCall, turn: TurnId, *, begun: bool = False) -> Admission:
    registry = workshop.registry
    spec = registry.resolve(call.tool_id).spec
    made = workshop.session.views.progress.tool_calls
    # Calls under an alias of the tool count as well.
    times = sum(count for name, count in made.items() if registry.own_id(name) == spec.tool_id)
    step = ToolStep(
        tool_id=spec.tool_id,
        params=_as_meant(await workshop.session.text(call.params)),
        effect=spec.effect,
        calls_before=times - begun,
    )
    # The time of a nested call is part of the reservation for the call that makes it.
    most = Most(tool_calls=1, wall_ms=0 if call.by else round(spec.deadline_s * 1000))
    return await workshop.governor.admit(step, tool_key(turn, call.tool_call_id), most, begun=begun)


def _gate(call_id: CallId, ruling: Ruling) -> Gate:
    return Gate(policy=ruling.policy, verdict=ruling.verdict, text=ruling.text, tool_call_id=call_id)


def _refused(call_id: CallId, ruling: Ruling) -> list[AnyBlock]:
    return [_gate(call_id, ruling), _dropped(call_id, "gate_refused", ruling.text)]


def _question(workshop: Workshop, call: ToolCall, ruling: Ruling) -> ApprovalRequested:
    tool_id = workshop.registry.resolve(call.tool_id).spec.tool_id
    return ApprovalRequested(tool_call_id=call.tool_call_id, tool_id=tool_id, text=ruling.text, policy=ruling.policy)


def _announced_call(session: Session, decision: CallTool, call: ToolCall, reply: Reply) -> list[AnyBlock]:
    """Return the blocks of the call: notes and code before it, notices after it."""
    call_id = call.tool_call_id
    blocks: list[AnyBlock] = []
    if decision.notes.strip():
        blocks.append(Notes(tool_call_id=call_id, text=decision.notes))
        blocks += _acknowledged(session, decision.notes, reply, call_id)
    if decision.tool_id.startswith(EXEC_PREFIX) and reply.code is not None:
        blocks.append(ToolCode(tool_call_id=call_id, text=reply.code))
    notices = [block for block in blocks if isinstance(block, Notice)]
    return [*(block for block in blocks if block not in notices), call, *notices]


async def _run(workshop: Workshop, call: ToolCall, turn: TurnId, admission: Admission) -> None:
    session = workshop.session
    settings = RunSettings(show=workshop.show, interrupt=workshop.interrupt)
    tool = workshop.registry.resolve(call.tool_id)
    meant = replace(call, params=_as_meant(await session.text(call.params)))
    async with workshop.governor.charging(admission) as bill:
        bill.cost = Amounts(tool_calls=1)
        receipt = await run_call(tool, meant, _with_nested(workshop, _context(workshop, call, turn)), settings)
        # A result lost in a crash costs another run, which is harmless unless the tool is irreversible.
        keep = session.append if tool.spec.effect == "irreversible" else session.append_deferred
        await keep(receipt, turn)


async def _reconciled(
    workshop: Workshop, tool: Tool, call: ToolCall
) -> tuple[AnyBlock, ...] | Literal["not_done", "unknown"]:
    session = workshop.session
    settings = RunSettings(show=workshop.show, interrupt=workshop.interrupt)
    meant = replace(call, params=_as_meant(await session.text(call.params)))
    return await reconcile_call(tool, meant, _context(workshop, call, session.views.progress.turn_id), settings)


def _context(workshop: Workshop, call: ToolCall, turn: TurnId) -> ToolContext:
    session = workshop.session
    return ToolContext(
        conversation=session.conversation,
        turn_id=turn,
        tool_call_id=call.tool_call_id,
        caller=session.caller,
        timeline=session,
        out_dir=_made(workshop.out_dir),
        emit=workshop.emit,
        epoch_us=session.epoch_us(),
    )


def _made(folder: Path) -> Path:
    try:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except FileNotFoundError:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError("store_unwritable", f"the conversation's folder cannot be made: {error.strerror}") from error
    return folder


def _with_nested(workshop: Workshop, context: ToolContext) -> ToolContext:
    """Return the context with the ability to make nested calls; nested calls cannot make further ones."""
    turn = context.turn_id

    async def run(call: ToolCall) -> tuple[AnyBlock, ...]:
        settings = RunSettings(show=workshop.show, interrupt=workshop.interrupt)
        return await run_call(workshop.registry.resolve(call.tool_id), call, _context(workshop, call, turn), settings)

    nested = NestedCalls(
        session=workshop.session,
        registry=workshop.registry,
        governor=workshop.governor,
        turn=turn,
        by=context.tool_call_id,
        admit=lambda call: _admission(workshop, call, turn),
        run=run,
    )
    return replace(context, nested=nested)


def _as_meant(params: str) -> str:
    """Return the parameters without the escapes that prompts add to foreign text and models copy."""
    if ESCAPE not in params:
        return params
    return msgspec.json.encode(_unescaped(msgspec.json.decode(params))).decode()


def _unescaped(value: object) -> object:
    match value:
        case str():
            return unescape(value)
        case list():
            return [_unescaped(one) for one in cast(list[object], value)]
        case dict():
            return {name: _unescaped(one) for name, one in cast(dict[str, object], value).items()}
        case _:
            return value


async def _answer(workshop: Workshop, decision: Complete | Exit, reply: Reply) -> None:
    session = workshop.session
    progress = session.views.progress
    turn = session.views.turns.turns[progress.turn_id]
    known = session.views.sources.pool.rows
    blocks = _acknowledged(session, decision.notes, reply)
    blocks.append(
        Completion(
            text=decision.final_answer,
            n=turn.completions + 1,
            sources_used=tuple(sid for sid in sources_used(decision.final_answer) if sid in known),
            suggested_followups=decision.suggested_followups,
        )
    )
    if reply.summary:
        blocks.append(WorkingSummary(text=reply.summary, n=turn.working_summaries + 1))
    await session.append_deferred(blocks, progress.turn_id)


def _acknowledged(session: Session, notes: str, reply: Reply, call_id: CallId | None = None) -> list[AnyBlock]:
    """Return the blocks by which the marks in the notes change the current plan."""
    progress = session.views.progress
    changes = any(isinstance(one, CallTool) and one.tool_id == PLAN_TOOL for one in reply.decisions)
    moment = Moment(progress.turn_id, session.now())
    found = read_notes(notes, carried_over(session.views.plans), moment, changes_lifecycle=changes)
    blocks: list[AnyBlock] = []
    if found.changed:
        plan = found.changed.snapshot
        blocks.append(PlanAcknowledged(round=progress.round, text=found.text, plan_id=plan.plan_id))
        blocks.append(PlanRecorded(snapshot=plan, change=found.changed.change))
    if found.notice:
        blocks.append(Notice(code=found.notice.code, text=found.notice.text, tool_call_id=call_id))
    return blocks


_UNKNOWN = (
    "nobody knows whether this call was carried out: the program stopped while it ran. Look before you decide: "
    "approved, it runs again; refused, the model is told that nobody knows"
)
_NOT_HERE = (
    "an approved call needs the tool {}, which is not available here; resume it where the tool is, or stop the turn"
)
_CALLED_OFF = (
    "nobody knows whether this call was carried out: the program stopped while it ran, and it was not run again "
    "because the turn was ended or took another course"
)


def _dropped(call_id: CallId, code: str, text: str) -> ResultStatus:
    return ResultStatus(tool_call_id=call_id, text=text, error=registered_error(code, text))
