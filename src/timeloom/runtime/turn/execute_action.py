"""Executes one action of the model's reply: a tool call or the final answer."""

import asyncio
from collections.abc import Callable, Sequence
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
    make_tool_error,
)
from timeloom.core.blocks.digest import with_unknown_outcome
from timeloom.core.citations.rewriter import describe_unknown_sids, find_cited_sids
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, TurnId
from timeloom.core.plans.acknowledge import read_notes
from timeloom.core.plans.changes import Moment
from timeloom.core.policy.gates import PolicyResult, ToolStep
from timeloom.core.policy.next_step import (
    INTERRUPTED_POLICY,
    WARN_SAME_RESULTS,
    DropCall,
    RunCall,
    SettleCall,
    is_polled,
)
from timeloom.core.policy.read_reply import ParsedReply
from timeloom.core.policy.repair_reply import is_mechanical
from timeloom.core.render.copied_text import undo_escapes
from timeloom.core.render.editions import SECOND_EDITION
from timeloom.core.render.foreign_text.fence import ESCAPE
from timeloom.core.render.v2.fence import unfence_words
from timeloom.core.stream.decision import CallToolDecision, CompleteDecision, Decision, ExitDecision
from timeloom.core.view.calls import OUTCOME_UNKNOWN, CallEntries
from timeloom.core.view.plans import find_current_plan
from timeloom.core.view.repeated_calls import call_key
from timeloom.core.view.seen_addresses import find_param_texts
from timeloom.ports.ledger import Amounts, MaxAmounts
from timeloom.ports.store import StoreError
from timeloom.ports.tool import Tool, ToolContext
from timeloom.runtime.governance.costs import tool_reservation_key
from timeloom.runtime.governance.governor import Admission, Governor
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.added_sources import AddedSources
from timeloom.runtime.turn.file_sources import AppendSettings, append_result
from timeloom.runtime.turn.nested_calls import NestedCalls, interrupted_result
from timeloom.runtime.turn.run_tool import RunSettings, Show, reconcile_call, run_call
from timeloom.runtime.turn.tool_result import UNKNOWN_TEXT
from timeloom.tools.registry import ToolRegistry

APPROVAL: Final = "approval"
"""The policy name recorded in the gate of a call that a person has approved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionContext:
    """The session, tools and settings that actions are executed with."""

    session: Session
    registry: ToolRegistry
    show: Show
    out_dir: Path
    """The conversation's folder; it is created when the first call needs it."""
    emit: Callable[[str, str], None]
    interrupt: asyncio.Event
    governor: Governor
    window_tokens: int
    """The model's window."""

    @property
    def run_settings(self) -> RunSettings:
        """How the calls of the actions run."""
        return RunSettings(show=self.show, interrupt=self.interrupt, window_tokens=self.window_tokens)


async def execute_action(actions: ActionContext, decision: Decision, reply: ParsedReply | None) -> None:
    """Execute the action and append its blocks; a call is durable on the timeline before it runs."""
    match decision:
        case CallToolDecision():
            await _execute_call(actions, decision, reply or ParsedReply())
        case CompleteDecision() | ExitDecision():
            await _execute_answer(actions, decision, reply or ParsedReply())
        case _:
            assert_never(decision)


async def settle_open_call(actions: ActionContext, step: SettleCall | RunCall | DropCall) -> None:
    """Give the open call its result: a crashed process began it, or a person was asked to approve it."""
    session, call = actions.session, await _open_call(actions.session)
    turn = session.views.progress.turn_id
    await _close_nested_calls(session, call, turn)
    match step:
        case SettleCall(again=True):
            await _settle_interrupted(actions, call, turn)
        case SettleCall():
            await session.append(_interrupted_blocks(actions, call, _CALLED_OFF_TEXT), turn)
        case RunCall():
            if actions.registry.get(call.tool_id) is None:
                raise CodedError("unknown_tool", _TOOL_MISSING_TEXT.format(call.tool_id))
            await _run_recorded_call(actions, call, turn, APPROVAL)
        case DropCall(code="tool_interrupted", text=text):
            await session.append(_interrupted_blocks(actions, call, text), turn)
        case DropCall(code=code, text=text):
            await session.append([_error_result(call.tool_call_id, code, text)], turn)
        case _:
            assert_never(step)


async def _close_nested_calls(session: Session, call: ToolCall, turn: TurnId) -> None:
    """Append an interrupted result for each nested call that has none."""
    if missing := [
        interrupted_result(one.tool_call_id) for one in _nested_calls(session, call, turn) if not one.receipt_seqs
    ]:
        await session.append(missing, turn)


def _nested_calls(session: Session, call: ToolCall, turn: TurnId) -> list[CallEntries]:
    """Return the nested calls that the call made."""
    calls = session.views.calls
    known = calls.get(turn, call.tool_call_id)
    return [one for call_id in known.inner if (one := calls.get(turn, call_id))] if known else []


async def _settle_interrupted(actions: ActionContext, call: ToolCall, turn: TurnId) -> None:
    """Run an interrupted call again if that is harmless; else ask its tool for the outcome, then a person."""
    tool = actions.registry.get(call.tool_id)
    if tool is None:
        # Another program began the call with a tool that is not available here and may be irreversible.
        outcome = "unknown"
    elif tool.spec.effect == "irreversible":
        outcome = await _reconcile(actions, tool, call)
    elif _made_irreversible_calls(actions, call, turn):
        outcome = "unknown"
    else:
        outcome = "not_done"
    match outcome:
        case "not_done":
            await _run_recorded_call(actions, call, turn, INTERRUPTED_POLICY)
        case "unknown":
            await actions.session.append(
                [_approval_request(actions, call, PolicyResult("ask", _UNKNOWN_OUTCOME_TEXT, INTERRUPTED_POLICY))], turn
            )
        case _:
            await append_result(actions.session, outcome, turn, _append_settings(actions))


def _made_irreversible_calls(actions: ActionContext, call: ToolCall, turn: TurnId) -> bool:
    """Return whether the call made irreversible nested calls, so that running it again may do harm."""
    inner = _nested_calls(actions.session, call, turn)
    return any(actions.registry.resolve(one.tool_id).spec.effect == "irreversible" for one in inner)


async def _open_call(session: Session) -> ToolCall:
    progress = session.views.progress
    assert progress.open_call is not None
    known = session.views.calls.get(progress.turn_id, progress.open_call.call_id)
    assert known is not None
    assert known.call_seq is not None
    (entry,) = await session.entries([known.call_seq])
    assert isinstance(entry.block, ToolCall)
    return entry.block


async def _execute_call(actions: ActionContext, decision: CallToolDecision, reply: ParsedReply) -> None:
    session, turn = actions.session, actions.session.views.progress.turn_id
    call_id = session.new_call_id()
    traits = actions.registry.custom_traits.get(decision.tool_id)
    call = ToolCall(tool_id=decision.tool_id, tool_call_id=call_id, params=decision.params, traits=traits)
    repairs = () if is_mechanical(reply.repairs) else reply.repairs
    admission = await _admit(actions, call, turn, repairs=repairs)
    ruling, blocks = admission.ruling, _call_blocks(actions, decision, call, reply)
    match ruling.verdict:
        case "allow":
            await session.append(blocks, turn)
            await _run_admitted(actions, call, turn, admission)
        case "refuse":
            await session.append([*blocks, *_refusal_blocks(call_id, ruling)], turn)
        case "ask":
            await session.append(
                [*blocks, _gate_block(call_id, ruling), _approval_request(actions, call, ruling)], turn
            )
        case _:
            assert_never(ruling.verdict)


async def _run_recorded_call(actions: ActionContext, call: ToolCall, turn: TurnId, because: str) -> None:
    """Run a call that is already on the timeline, unless a policy or a budget forbids it now."""
    admission = await _admit(actions, call, turn, begun=True)
    ruling = admission.ruling
    if ruling.verdict == "refuse":
        await actions.session.append(_refusal_blocks(call.tool_call_id, ruling), turn)
        return
    # The start of the call is durable before it runs.
    await actions.session.append([_gate_block(call.tool_call_id, PolicyResult("allow", policy=because))], turn)
    await _run_admitted(actions, call, turn, admission)


async def _admit(
    actions: ActionContext, call: ToolCall, turn: TurnId, *, begun: bool = False, repairs: tuple[str, ...] = ()
) -> Admission:
    registry = actions.registry
    spec = registry.resolve(call.tool_id).spec
    made = actions.session.views.progress.tool_calls
    # Calls under an alias of the tool count as well.
    times = sum(count for name, count in made.items() if registry.canonical_id(name) == spec.tool_id)
    params = await _unescaped_params(actions, call)
    urls = find_param_texts(params, registry.traits_of(spec.tool_id).address_params)
    step = ToolStep(
        tool_id=spec.tool_id,
        params=params,
        effect=spec.effect,
        calls_before=times - begun,
        new_addresses=actions.session.views.addresses.find_new(urls),
        unknown_call=_find_unknown_call(actions, spec.tool_id),
        repairs=repairs,
    )
    # The time of a nested call is part of the reservation for the call that makes it.
    most = MaxAmounts(tool_calls=1, wall_ms=0 if call.by else round(spec.deadline_s * 1000))
    return await actions.governor.admit(step, tool_reservation_key(turn, call.tool_call_id), most, begun=begun)


def _find_unknown_call(actions: ActionContext, tool_id: str) -> str:
    """Return the call of the tool whose effect is unknown; calls under an alias of the tool count as well."""
    unknown, canonical_id = actions.session.views.calls.unknown_outcomes, actions.registry.canonical_id
    return next((call_id for name, call_id in unknown.items() if canonical_id(name) == tool_id), "")


def _gate_block(call_id: CallId, ruling: PolicyResult) -> Gate:
    return Gate(policy=ruling.policy, verdict=ruling.verdict, text=ruling.text, tool_call_id=call_id)


def _refusal_blocks(call_id: CallId, ruling: PolicyResult) -> list[AnyBlock]:
    return [_gate_block(call_id, ruling), _error_result(call_id, "gate_refused", ruling.text)]


def _approval_request(actions: ActionContext, call: ToolCall, ruling: PolicyResult) -> ApprovalRequested:
    tool_id = actions.registry.resolve(call.tool_id).spec.tool_id
    return ApprovalRequested(tool_call_id=call.tool_call_id, tool_id=tool_id, text=ruling.text, policy=ruling.policy)


def _call_blocks(
    actions: ActionContext, decision: CallToolDecision, call: ToolCall, reply: ParsedReply
) -> list[AnyBlock]:
    """Return the blocks of the call: notes before it, notices after it, and code where the edition has its channel."""
    call_id = call.tool_call_id
    blocks: list[AnyBlock] = []
    if decision.notes.strip():
        blocks.append(Notes(tool_call_id=call_id, text=decision.notes))
        blocks += _plan_blocks(actions, decision.notes, reply, call_id)
    notices = [block for block in blocks if isinstance(block, Notice)]
    before = [block for block in blocks if block not in notices]
    runs_code = call.known_traits.runs_code and reply.code is not None
    code = [ToolCode(tool_call_id=call_id, text=reply.code or "")] if runs_code else []
    if actions.session.views.turns.edition >= SECOND_EDITION:
        # Prompts show the blocks in this order, and the model writes its code after the action.
        return [*before, call, *code, *notices]
    return [*before, *code, call, *notices]


async def _run_admitted(actions: ActionContext, call: ToolCall, turn: TurnId, admission: Admission) -> None:
    session = actions.session
    settings = actions.run_settings
    tool = actions.registry.resolve(call.tool_id)
    unescaped = replace(call, params=await _unescaped_params(actions, call))
    async with actions.governor.charge_on_exit(admission) as charge:
        charge.cost = Amounts(tool_calls=1)
        results = await run_call(tool, unescaped, _with_nested(actions, _tool_context(actions, call, turn)), settings)
        # A result lost in a crash costs another run, which is harmless unless the tool is irreversible.
        deferred = tool.spec.effect != "irreversible"
        await append_result(session, results, turn, _append_settings(actions, deferred=deferred))
    await _warn_of_repetition(actions, call, turn)


async def _warn_of_repetition(actions: ActionContext, call: ToolCall, turn: TurnId) -> None:
    """Append a notice if the call had the same result for the third time."""
    times = actions.session.views.repeated.times(call_key(call.tool_id, call.params))
    if times == WARN_SAME_RESULTS and not is_polled(call.tool_id, actions.registry.custom_traits):
        notice = Notice(code="repeated_call", text=_REPEATED_TEXT, tool_call_id=call.tool_call_id)
        await actions.session.append_deferred([notice], turn)


def _append_settings(actions: ActionContext, *, deferred: bool = False) -> AppendSettings:
    return AppendSettings(deferred=deferred, cites_files=actions.registry.cites_files)


async def _reconcile(
    actions: ActionContext, tool: Tool, call: ToolCall
) -> tuple[AnyBlock, ...] | Literal["not_done", "unknown"]:
    session = actions.session
    settings = actions.run_settings
    unescaped = replace(call, params=await _unescaped_params(actions, call))
    return await reconcile_call(tool, unescaped, _tool_context(actions, call, session.views.progress.turn_id), settings)


def _tool_context(actions: ActionContext, call: ToolCall, turn: TurnId) -> ToolContext:
    session = actions.session
    return ToolContext(
        conversation=session.conversation,
        turn_id=turn,
        tool_call_id=call.tool_call_id,
        caller=session.caller,
        timeline=session,
        out_dir=_ensure_folder(actions.out_dir),
        emit=actions.emit,
        epoch_us=session.epoch_us(),
        copies_from=1 if call.by else session.views.turns.edition,
        window_tokens=actions.window_tokens,
        new_sources=AddedSources(session),
    )


def _ensure_folder(folder: Path) -> Path:
    try:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except FileNotFoundError:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError("store_unwritable", f"the conversation's folder cannot be made: {error.strerror}") from error
    return folder


def _with_nested(actions: ActionContext, context: ToolContext) -> ToolContext:
    """Return the context with the ability to make nested calls; nested calls cannot make further ones."""
    turn = context.turn_id

    async def run(call: ToolCall) -> tuple[AnyBlock, ...]:
        settings = actions.run_settings
        return await run_call(
            actions.registry.resolve(call.tool_id), call, _tool_context(actions, call, turn), settings
        )

    nested = NestedCalls(
        session=actions.session,
        registry=actions.registry,
        governor=actions.governor,
        turn=turn,
        by=context.tool_call_id,
        admit=lambda call: _admit(actions, call, turn),
        run=run,
    )
    return replace(context, nested=nested)


async def _unescaped_params(actions: ActionContext, call: ToolCall) -> str:
    """Return the parameters without the escapes that prompts add to foreign text and models copy.

    From edition 2 on, the calls of a program and the exact parameters of a tool stay as they are.
    """
    params = await actions.session.text(call.params)
    edition = actions.session.views.turns.edition
    if ESCAPE not in params or (call.by and edition > 1):
        return params
    exact = actions.registry.resolve(call.tool_id).spec.exact_params if edition > 1 else ()
    fields = msgspec.json.decode(params, type=dict[str, object])
    return msgspec.json.encode(
        {name: value if name in exact else _unescape_value(value, edition) for name, value in fields.items()}
    ).decode()


def _unescape_value(value: object, edition: int) -> object:
    match value:
        case str():
            return undo_escapes(value, edition)
        case list():
            return [_unescape_value(one, edition) for one in cast(list[object], value)]
        case dict():
            return {name: _unescape_value(one, edition) for name, one in cast(dict[str, object], value).items()}
        case _:
            return value


async def _execute_answer(
    actions: ActionContext, decision: CompleteDecision | ExitDecision, reply: ParsedReply
) -> None:
    session = actions.session
    progress = session.views.progress
    turn = session.views.turns.turns[progress.turn_id]
    known = session.views.sources.pool.rows
    answer = decision.final_answer
    if session.views.turns.edition >= SECOND_EDITION and not session.views.turns.output:
        # Users must not see the escapes of lines that the model copied from its prompt.
        answer = unfence_words(answer)
    cited = find_cited_sids(answer)
    blocks = _plan_blocks(actions, decision.notes, reply)
    # Before the answer, which shows that the notice did not reject the reply.
    blocks += _unknown_source_notice([sid for sid in cited if sid not in known])
    blocks.append(
        Completion(
            text=answer,
            n=turn.completions + 1,
            sources_used=tuple(sid for sid in cited if sid in known),
            suggested_followups=decision.suggested_followups,
            unformatted=not reply.decisions,
        )
    )
    if reply.summary:
        blocks.append(WorkingSummary(text=reply.summary, n=turn.working_summaries + 1))
    await session.append_deferred(blocks, progress.turn_id)


def _unknown_source_notice(sids: Sequence[int]) -> list[AnyBlock]:
    return [Notice(code="source_unknown", text=describe_unknown_sids("answer", sids))] if sids else []


def _plan_blocks(
    actions: ActionContext, notes: str, reply: ParsedReply, call_id: CallId | None = None
) -> list[AnyBlock]:
    """Return the blocks by which the marks in the notes change the current plan."""
    session = actions.session
    progress = session.views.progress
    tool_ids = [one.tool_id for one in reply.decisions if isinstance(one, CallToolDecision)]
    changes = any(actions.registry.traits_of(tool_id).manages_plans for tool_id in tool_ids)
    moment = Moment(progress.turn_id, session.now())
    found = read_notes(notes, find_current_plan(session.views.plans), moment, changes_lifecycle=changes)
    blocks: list[AnyBlock] = []
    if found.changed:
        plan = found.changed.snapshot
        blocks.append(PlanAcknowledged(round=progress.round, text=found.text, plan_id=plan.plan_id))
        blocks.append(PlanRecorded(snapshot=plan, change=found.changed.change))
    if found.notice:
        blocks.append(Notice(code=found.notice.code, text=found.notice.text, tool_call_id=call_id))
    return blocks


_REPEATED_TEXT = (
    f"this call had the same result {WARN_SAME_RESULTS} times in this turn; change its parameters, use another tool, "
    "or answer with what is known"
)
_UNKNOWN_OUTCOME_TEXT = (
    "it is unknown whether this call was carried out, because timeloom stopped while it ran; check before you decide: "
    "approved, it runs again; refused, the model learns that the outcome is unknown"
)
_TOOL_MISSING_TEXT = (
    "an approved call needs the tool {}, which is not available here; resume it where the tool is, or stop the turn"
)
_CALLED_OFF_TEXT = (
    "it is unknown whether this call was carried out: the process stopped while it ran, and it was not run again "
    "because the turn ended or changed course"
)


def _interrupted_blocks(actions: ActionContext, call: ToolCall, text: str) -> list[AnyBlock]:
    """Return the blocks that close a call that a crash interrupted; an irreversible one may have had its effect."""
    result = _error_result(call.tool_call_id, "tool_interrupted", text)
    tool = actions.registry.get(call.tool_id)
    if result.error is None or (tool and tool.spec.effect != "irreversible"):
        return [result]
    notice = Notice(code=OUTCOME_UNKNOWN, text=UNKNOWN_TEXT.format(call.tool_id), tool_call_id=call.tool_call_id)
    return [notice, replace(result, error=with_unknown_outcome(result.error))]


def _error_result(call_id: CallId, code: str, text: str) -> ResultStatus:
    return ResultStatus(tool_call_id=call_id, text=text, error=make_tool_error(code, text))
