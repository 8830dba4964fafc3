"""Runs the turns of a conversation through the workflow of its bundle.

The turn is the one that the hub, the terminal or the worker runs. The workflow is called around its steps, on the same
session. It decides when the agent works, and the driver records the end of the turn.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, assert_never, cast

from timeloom.agent.answer import Answer
from timeloom.agent.workflow.base import BaseWorkflow
from timeloom.agent.workflow.faults import CodeFault, fault_at, fault_of_error
from timeloom.agent.workflow.parts import WorkflowParts
from timeloom.agent.workflow.payload import PayloadCause, read_payload
from timeloom.agent.workflow.steps import TurnSteps
from timeloom.agent.workflow.supervise import (
    BundleCode,
    CodeOutcome,
    Faulty,
    Interrupted,
    Returned,
    run_hook,
    run_workflow,
    start_code,
)
from timeloom.agent.workflow.turn_call import TurnCall
from timeloom.bundles.context import set_scratchpad, use_bundle
from timeloom.core.blocks import AnyBlock, Completion, Notice, TurnStarted
from timeloom.core.citations.rewriter import describe_unknown_sids, find_cited_sids
from timeloom.core.ids import TurnId
from timeloom.core.policy.answer.check import check_answer
from timeloom.core.policy.next_step import DropCall, EndTurn
from timeloom.core.timeline import Entry
from timeloom.platform.secrets import SECRETS, RedactingFilter
from timeloom.runtime.turn.execute_action import settle_open_call
from timeloom.runtime.turn.loop import TurnRunner

_logger = logging.getLogger(__name__)
_logger.addFilter(RedactingFilter(SECRETS))

_DROPPED_TEXT = "the workflow answered without this call; it is unknown whether a call that was begun had an effect"


class WorkflowDriver:
    """Calls a bundle's workflow for each turn of one open conversation; it implements `TurnWorkflow`."""

    def __init__(self, workflow: type[BaseWorkflow], parts: WorkflowParts) -> None:
        self._workflow = workflow
        self._parts = parts
        self._opened: set[TurnId] = set()
        """The turns that were opened while this driver existed and whose `run` was not called yet."""
        parts.session.watch(self._on_entry)

    def _on_entry(self, entry: Entry) -> None:
        if isinstance(entry.block, TurnStarted):
            self._opened = {entry.turn_id}

    async def run_turn(self, turns: TurnRunner) -> Literal["ended", "waiting"]:
        """Call the workflow until the open turn has ended or waits for a person."""
        # The message is durable before the bundle's code has any effect.
        await turns.session.flush()
        turn = turns.session.views.progress.turn_id
        is_new = turn in self._opened
        self._opened.clear()
        cause: PayloadCause = "opened" if is_new else "resumed"
        while True:
            call = await self._make_call(turns, cause, resumed=not is_new)
            with use_bundle(self._parts.context):
                end = await self._run_call(call)
            if end != "again":
                return end
            is_new, cause = False, "steer" if turns.session.views.progress.steered else "message"

    async def _make_call(self, turns: TurnRunner, cause: PayloadCause, *, resumed: bool) -> TurnCall:
        delivered = turns.session.views.tail
        payload = await read_payload(turns.session, cause, resumed=resumed)
        return TurnCall(parts=self._parts, turns=turns, payload=payload, steps=TurnSteps(), delivered=delivered)

    async def _run_call(self, call: TurnCall) -> Literal["ended", "waiting", "again"]:
        """Run the hooks and `run` once, and end the turn if it has an end; "again" if a message is left to handle."""
        if fault := await self._load():
            return await self._end_with_fault(call, fault)
        workflow = self._make_workflow()
        if isinstance(workflow, CodeFault):
            return await self._end_with_fault(call, workflow)
        workflow.bind(call)
        before = await self._run_hook(workflow, "pre_run_hook", call.payload)
        if isinstance(before, Faulty):
            return await self._end_with_fault(call, before.fault)
        outcome = await self._supervise(workflow, call)
        if call.steps.error:
            # The store or the lease failed: the turn stays open, as without a workflow.
            raise call.steps.error
        answer = await call.read_answer()
        if workflow.scratchpad is not None:
            # The hook runs in another task than `run`, which set it for itself.
            set_scratchpad(workflow.scratchpad)
        after = await self._run_hook(workflow, "post_run_hook", call.payload, _result_of(call, outcome, answer))
        end = await self._end(call, outcome, answer.text if call.steps.end else None)
        if isinstance(after, Faulty):
            self._parts.on_fault(after.fault)
        return end

    async def _load(self) -> CodeFault | None:
        """Run `on_bundle_load` if this process has not done so, and return its fault."""
        parts, function = self._parts, self._workflow.on_bundle_load
        code = self._code("on_bundle_load", function, parts.hook_s)
        if function is BaseWorkflow.on_bundle_load:
            return await parts.loads.ensure(self._workflow, code, parts.folder, None)
        workflow = self._make_workflow()
        if isinstance(workflow, CodeFault):
            return workflow
        workflow.bind(parts)
        return await parts.loads.ensure(self._workflow, code, parts.folder, workflow.on_bundle_load)

    def _make_workflow(self) -> BaseWorkflow | CodeFault:
        try:
            return self._workflow()
        except Exception as error:
            _logger.exception("an object of the workflow cannot be made")
            return fault_of_error(self._parts.bundle.name, "workflow_failed", "__init__", error, self._workflow)

    def _code(self, where: str, function: object, limit_s: float) -> BundleCode:
        return BundleCode(bundle=self._parts.bundle.name, where=where, owner=function, limit_s=limit_s)

    async def _supervise(self, workflow: BaseWorkflow, call: TurnCall) -> CodeOutcome:
        code = self._code("run", type(workflow).run, workflow.idle_s)
        return await run_workflow(
            code, start_code("run", workflow.run, call.payload), call.steps, call.turns.inbox, call.is_interrupted
        )

    async def _run_hook(
        self, workflow: BaseWorkflow, name: Literal["pre_run_hook", "post_run_hook"], *args: object
    ) -> CodeOutcome:
        function: Callable[..., object] = getattr(type(workflow), name)
        if function is getattr(BaseWorkflow, name):
            return Returned(None)
        return await run_hook(
            self._code(name, function, self._parts.hook_s), start_code(name, getattr(workflow, name), *args)
        )

    async def _end(
        self, call: TurnCall, outcome: CodeOutcome, known: str | None
    ) -> Literal["ended", "waiting", "again"]:
        """End the turn after a call; `known` is the answer of the agent."""
        match outcome:
            case Faulty(fault=fault):
                return await self._end_with_fault(call, fault)
            case Interrupted():
                return await self._end_interrupted(call)
            case Returned(value=value):
                return await self._end_returned(call, value, known)
            case _:
                assert_never(outcome)

    async def _end_interrupted(self, call: TurnCall) -> Literal["ended", "waiting", "again"]:
        """End a turn that was stopped or cancelled; after a steer, call the workflow again."""
        if not call.turns.session.views.progress.is_called_off:
            return "again"
        # The policy settles an open call first, and then ends the turn.
        end = await call.turns.run_steps()
        if isinstance(end, EndTurn):
            await call.turns.end_turn(end)
        return "ended"

    async def _end_returned(
        self, call: TurnCall, value: object, known: str | None
    ) -> Literal["ended", "waiting", "again"]:
        progress = call.turns.session.views.progress
        if not progress.running:
            return "ended"
        if call.steps.end == "waiting":
            return "waiting" if call.is_waiting else "again"
        if progress.is_called_off:
            return await self._end_interrupted(call)
        match _to_text(value):
            case None:
                return await self._end_as_chosen(call)
            case str(text):
                if text == known:
                    return await self._end_as_chosen(call)
                return await self._end_with_text(call, SECRETS.redact(text))
            case _:
                kind = type(value).__name__
                return await self._fail(call, f"run must return text, an Answer or None, got {kind}")

    async def _end_as_chosen(self, call: TurnCall) -> Literal["ended", "again"]:
        """End the turn as the policy chose; a message that arrived meanwhile is handled first."""
        end = call.steps.end
        if not isinstance(end, EndTurn):
            return await self._fail(call, "run returned nothing and did not run the agent")
        while not call.has_unhandled_message:
            tail = call.turns.session.views.tail
            if await call.turns.end_turn(end, after=tail):
                return "ended"
        return "again"

    async def _end_with_text(self, call: TurnCall, text: str) -> Literal["ended", "again"]:
        """Record the text as the answer of the turn, and end the turn unless another message has arrived."""
        session = call.turns.session
        if not text.strip():
            return await self._fail(call, "run returned an empty text")
        schema = session.views.turns.output
        if schema and (problem := check_answer(text, schema).problem):
            return await self._fail(call, f"the text that run returned does not fit the output schema: {problem}")
        await _drop_open_call(call.turns)
        while True:
            tail, blocks = session.views.tail, _answer_blocks(call.turns, text)
            if call.has_unhandled_message:
                if await session.append(blocks, session.views.progress.turn_id, after=tail):
                    return "again"
            elif await call.turns.end_turn(EndTurn("completed"), blocks, after=tail):
                return "ended"

    async def _fail(self, call: TurnCall, reason: str) -> Literal["ended"]:
        fault = fault_at(self._parts.bundle.name, "workflow_failed", "run", reason, self._workflow.run)
        _logger.error("%s", fault.text)
        return await self._end_with_fault(call, fault)

    async def _end_with_fault(self, call: TurnCall, fault: CodeFault) -> Literal["ended"]:
        """End the turn with the fault as its reason."""
        self._parts.on_fault(fault)
        if call.turns.session.views.progress.running:
            await _drop_open_call(call.turns)
            await call.turns.end_turn(EndTurn("runtime_error", f"{fault.code}: {fault.text}"))
        return "ended"


def _to_text(value: object) -> object:
    return cast("Answer[object]", value).text if isinstance(value, Answer) else value


def _result_of(call: TurnCall, outcome: CodeOutcome, answer: Answer[str]) -> Answer[str]:
    """Return the result that `post_run_hook` receives."""
    match outcome:
        case Faulty(fault=fault):
            return replace(answer, reason="runtime_error", detail=fault.text)
        case Interrupted():
            cancelled = call.turns.session.views.progress.cancelled
            return replace(answer, reason="cancelled" if cancelled else "stopped", detail=cancelled)
        case Returned(value=str(text)) if call.steps.end != "waiting":
            return replace(answer, reason="completed", text=text, detail="")
        case Returned():
            return answer
        case _:
            assert_never(outcome)


async def _drop_open_call(turns: TurnRunner) -> None:
    """Give an open call a result, so that no call of an ended turn waits for one."""
    if turns.session.views.progress.open_call:
        await settle_open_call(turns.action_context, DropCall("tool_interrupted", _DROPPED_TEXT))


def _answer_blocks(turns: TurnRunner, text: str) -> Sequence[AnyBlock]:
    views = turns.session.views
    known, cited = views.sources.pool.rows, find_cited_sids(text)
    unknown = [sid for sid in cited if sid not in known]
    notices = [Notice(code="source_unknown", text=describe_unknown_sids("answer", unknown))] if unknown else []
    turn = views.turns.turns[views.progress.turn_id]
    used = tuple(sid for sid in cited if sid in known)
    return [*notices, Completion(text=text, n=turn.completions + 1, sources_used=used)]
