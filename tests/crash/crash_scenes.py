"""Scenes of the crash tests: user messages, model decisions, tools and a scripted user who approves."""

import json
import re
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import msgspec

from tests.crash.external_world import DecisionRequested, EffectDone, EffectLog, ToolStarted
from timeloom.core.blocks import Followup, ToolCall
from timeloom.core.policy.budget import Allowance, Budgets
from timeloom.core.policy.gates import Effect
from timeloom.core.policy.next_step import INTERRUPTED_POLICY
from timeloom.ports.model import ModelEvent, ModelRequest, TextSegment
from timeloom.ports.tool import Outcome, ReconcileResult, Tool, ToolContext, ToolSpec
from timeloom.providers.script import ScriptedModel, Step
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.tools.define import tool
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry

SEEN = re.compile(r"seen-[a-z]+-\w+")
"""Marks that tools return and that the model repeats in its answer: equal answers imply equal prompts."""

IRREVERSIBLE = ("t.send", "t.pay")

REFUSED = "spam"
"""The parameter that the scripted user never approves."""


class CrashScene(msgspec.Struct, frozen=True):
    """User messages and model decisions; an answer ends a turn."""

    prompts: Sequence[str]
    decisions: Sequence[dict[str, object]]
    followup_after: str = ""
    """The tool during whose first call the user sends a followup."""
    budgets: Budgets = Budgets()


def calls(tool_id: str, **params: object) -> dict[str, object]:
    return {"action": "call_tool", "notes": f"I use {tool_id}.", "tool_call": {"tool_id": tool_id, "params": params}}


AMPLE = Allowance(tokens=10**12)
"""A budget that is read and reserved from before every call, and that no scene spends."""

ANSWER: dict[str, object] = {"action": "complete", "final_answer": "Done: @SEEN@"}

PATCH = "@@ -1,2 +1,2 @@\n # Note\n-first\n+second\n"

SCENES = {
    "files": CrashScene(
        prompts=("Look, put it away, and write a note.",),
        decisions=(
            calls("t.look", what="harbour"),
            calls("t.put", what="parcel"),
            calls("react.write", path="files/note.md", content="# Note\nfirst\n"),
            calls("react.patch", path="files/note.md", patch=PATCH),
            ANSWER,
        ),
        followup_after="t.put",
        budgets=Budgets(user=AMPLE, project=AMPLE, tree=AMPLE),
    ),
    "money": CrashScene(
        prompts=("Send the letter and pay.", "And once more."),
        decisions=(
            calls("t.send", what="letter"),
            calls("t.pay", what="fee"),
            calls("t.send", what=REFUSED),
            ANSWER,
            calls("t.pay", what="tip"),
            ANSWER,
        ),
    ),
}


class CrashModel:
    """A scripted model that streams, and whose answer repeats the marks in its prompt."""

    def __init__(self, scene: CrashScene, effect_log: EffectLog, addition: str = "") -> None:
        self._scene = scene
        self._effect_log = effect_log
        self._addition = addition

    @property
    def name(self) -> str:
        return "script"

    @property
    def window_tokens(self) -> int:
        return 200_000

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self._effect_log.write_line(DecisionRequested())
        self._effect_log.reach_boundary("asked")
        shown = "".join(segment.text for segment in request.segments if isinstance(segment, TextSegment))
        seen = " ".join(sorted(set(SEEN.findall(shown)))) + self._addition
        replies = [json.dumps(decision).replace("@SEEN@", seen) for decision in self._scene.decisions]
        script = ScriptedModel([Step(reply=_reply_text(reply), chunk=60, delay_ms=0.2) for reply in replies])
        halfway = False
        async for event in script.stream(request):
            yield event
            if not halfway:
                self._effect_log.reach_boundary("streaming")
            halfway = True
        self._effect_log.reach_boundary("heard")

    async def close(self) -> None:
        pass


def _reply_text(decision: str) -> str:
    return (
        f"<channel:thinking>Let me see.</channel:thinking><channel:ReactDecisionOutV2>{decision}"
        "</channel:ReactDecisionOutV2>"
    )


class InstrumentedTool:
    """A tool whose calls are logged, with a boundary before and after."""

    def __init__(self, inner: Tool, effect_log: EffectLog, *, times: int = 1) -> None:
        self._inner = inner
        self._effect_log = effect_log
        self._times = times

    @property
    def spec(self) -> ToolSpec:
        return self._inner.spec

    async def call(self, params: str, context: ToolContext) -> Outcome:
        outcome = Outcome()
        for _ in range(self._times):
            self._effect_log.write_line(ToolStarted(self.spec.tool_id, context.tool_call_id))
            self._effect_log.reach_boundary(f"before {self.spec.tool_id}")
            outcome = await self._inner.call(params, context)
            self._effect_log.reach_boundary(f"after {self.spec.tool_id}")
        return outcome

    async def reconcile(self, params: str, context: ToolContext) -> ReconcileResult:
        reconcile = getattr(self._inner, "reconcile", None)
        return "unknown" if reconcile is None else await reconcile(params, context)


def crash_tools(effect_log: EffectLog, store_room: Path, send_effect: Effect) -> list[Tool]:
    """Return a tool of each effect class; one of the irreversible tools can reconcile its calls."""

    async def look(what: str, context: ToolContext) -> str:
        """Looks at something."""
        effect_log.write_line(EffectDone("t.look", context.tool_call_id, what))
        return f"seen-look-{what}"

    async def put(what: str, context: ToolContext) -> str:
        """Puts something in its place."""
        there = _store_item(store_room, what)
        effect_log.write_line(EffectDone("t.put", context.tool_call_id, what))
        return f"seen-put-{there}"

    async def send(what: str, context: ToolContext) -> str:
        """Sends something for good."""
        effect_log.write_line(EffectDone("t.send", context.tool_call_id, what))
        return "It is sent."

    async def pay(what: str, context: ToolContext) -> str:
        """Pays for something."""
        effect_log.write_line(EffectDone("t.pay", context.tool_call_id, what))
        return f"seen-pay-{what}"

    async def find_payment(what: str, context: ToolContext) -> str | None:
        """Finds a payment."""
        return f"seen-pay-{what}" if _is_done(effect_log, context.tool_call_id) else None

    paying = tool("t.pay", effect="irreversible")(pay)
    paying.reconciled_by(find_payment)
    return [
        tool("t.look", effect="pure")(look),
        tool("t.put", effect="idempotent")(put),
        tool("t.send", effect=send_effect)(send),
        paying,
    ]


def _store_item(store_room: Path, what: str) -> int:
    """Store the item and return the number of stored items."""
    (store_room / what).write_text(what)
    return len(list(store_room.iterdir()))


def crash_registry(effect_log: EffectLog, store_room: Path, fault: str = "") -> ToolRegistry:
    """Return the registry of all instrumented tools; a fault makes a tool run twice or declare a wrong effect."""
    tools: list[Tool] = [*react_tools(), *crash_tools(effect_log, store_room, _send_effect(fault))]
    twice = "t.look" if fault == "a tool runs twice" else ""
    return ToolRegistry(InstrumentedTool(one, effect_log, times=2 if one.spec.tool_id == twice else 1) for one in tools)


def _send_effect(fault: str) -> Effect:
    return "idempotent" if fault == "an irreversible call is repeated" else "irreversible"


class ScriptedUser:
    """A scripted user: sends one followup, and decides on approvals after reading the effect log."""

    def __init__(self, scene: CrashScene, effect_log: EffectLog) -> None:
        self._scene = scene
        self._effect_log = effect_log

    async def catch_up(self, turns: TurnRunner) -> None:
        """Send the followup and the decision that the conversation still needs."""
        await self.send_followup(turns)
        await self._decide(turns)

    async def send_followup(self, turns: TurnRunner) -> None:
        """Send the followup in the turn that uses the tool, unless it was already sent."""
        session = turns.session
        entries = await session.entries(range(1, session.views.tail + 1))
        used = any(isinstance(e.block, ToolCall) and e.block.tool_id == self._scene.followup_after for e in entries)
        if used and not any(isinstance(entry.block, Followup) for entry in entries):
            await turns.inbox.follow_up("And be kind.")

    async def _decide(self, turns: TurnRunner) -> None:
        question = turns.session.views.progress.open_call
        if question is None or not question.is_pending:
            return
        if question.policy == INTERRUPTED_POLICY:
            approved = not _is_done(self._effect_log, question.call_id)
        else:
            approved = REFUSED not in await _params(turns, question.call_id)
        await turns.inbox.decide(question.call_id, approved, by="ann")


async def _params(turns: TurnRunner, call_id: str) -> str:
    session = turns.session
    for entry in await session.entries(range(1, session.views.tail + 1)):
        if isinstance(entry.block, ToolCall) and entry.block.tool_call_id == call_id:
            return await session.text(entry.block.params)
    raise LookupError(f"a question is about {call_id}, and no call has this id")


def _is_done(effect_log: EffectLog, call_id: str) -> bool:
    return any(isinstance(line, EffectDone) and line.call == call_id for line in effect_log.lines())
