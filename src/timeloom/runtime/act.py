"""Acting: carrying out one action of the model's reply."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never, cast

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    Completion,
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
from timeloom.core.ids import CallId, TurnId
from timeloom.core.plans.acknowledging import read_notes
from timeloom.core.plans.changes import Moment
from timeloom.core.policy.reading import EXEC_PREFIX, Reply
from timeloom.core.render.fence import ESCAPE, unescape
from timeloom.core.stream.citations import sources_used
from timeloom.core.stream.decision import CallTool, Complete, Decision, Exit
from timeloom.core.view.plans import carried_over
from timeloom.ports.tool import ToolContext
from timeloom.runtime.run_tools import RunSettings, Show, run_call
from timeloom.runtime.session import Session
from timeloom.tools.registry import ToolRegistry

PLAN_TOOL = "react.plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What actions are carried out with."""

    session: Session
    registry: ToolRegistry
    show: Show
    out_dir: Path
    emit: Callable[[str, str], None]
    interrupt: asyncio.Event


async def carry_out(workshop: Workshop, decision: Decision, reply: Reply | None) -> None:
    """Appends what the action is and what came of it; a call's intent is durable before it runs."""
    match decision:
        case CallTool():
            await _call(workshop, decision, reply or Reply())
        case Complete() | Exit():
            await _answer(workshop, decision, reply or Reply())
        case _:
            assert_never(decision)


async def finish_call(workshop: Workshop) -> None:
    """Sees to the receipt of a call that was begun by somebody who is gone: runs it again where that does no harm."""
    session = workshop.session
    progress = session.views.progress
    assert progress.open_call is not None
    known = session.views.calls.get(progress.turn_id, progress.open_call)
    assert known is not None
    assert known.call_seq is not None
    (entry,) = await session.entries([known.call_seq])
    assert isinstance(entry.block, ToolCall)
    if workshop.registry.resolve(entry.block.tool_id).spec.effect == "irreversible":
        await session.append([_interrupted(progress.open_call)], progress.turn_id)
    else:
        await _run(workshop, entry.block, progress.turn_id)


async def _call(workshop: Workshop, decision: CallTool, reply: Reply) -> None:
    session, turn = workshop.session, workshop.session.views.progress.turn_id
    call_id = session.new_call_id()
    call = ToolCall(tool_id=decision.tool_id, tool_call_id=call_id, params=decision.params)
    blocks: list[AnyBlock] = []
    if decision.notes.strip():
        blocks.append(Notes(tool_call_id=call_id, text=decision.notes))
        blocks += _acknowledged(session, decision.notes, reply, call_id)
    if decision.tool_id.startswith(EXEC_PREFIX) and reply.code is not None:
        blocks.append(ToolCode(tool_call_id=call_id, text=reply.code))
    await session.append([*blocks, call], turn)
    await _run(workshop, call, turn)


async def _run(workshop: Workshop, call: ToolCall, turn: TurnId) -> None:
    session = workshop.session
    context = ToolContext(
        conversation=session.conversation,
        turn_id=turn,
        tool_call_id=call.tool_call_id,
        caller=session.caller,
        timeline=session,
        out_dir=workshop.out_dir,
        emit=workshop.emit,
        epoch_us=session.epoch_us(),
    )
    settings = RunSettings(show=workshop.show, interrupt=workshop.interrupt)
    tool = workshop.registry.resolve(call.tool_id)
    meant = replace(call, params=_as_meant(await session.text(call.params)))
    await session.append(await run_call(tool, meant, context, settings), turn)


def _as_meant(params: str) -> str:
    """The parameters without the escapes that a prompt shows foreign text with, and that a model copies along."""
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
    await session.append(blocks, progress.turn_id)


def _acknowledged(session: Session, notes: str, reply: Reply, call_id: CallId | None = None) -> list[AnyBlock]:
    """What the marks in the notes do to the current plan."""
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


def _interrupted(call_id: CallId) -> ResultStatus:
    text = "nobody knows whether this call was carried out: the program stopped while it ran, and it must not run twice"
    return ResultStatus(tool_call_id=call_id, text=text, error=registered_error("tool_interrupted", text))
