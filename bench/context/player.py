"""Plays a trace through the runtime: the recorded replies and results, at the recorded times."""

import asyncio
import dataclasses
import random
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from bench.context.agent import RecordedAgent, RecordedTool
from bench.context.asks import TraceCall, TraceRequest
from bench.context.counting import TokenCounter
from bench.context.forecasts import ForecastErrors, compare_forecasts
from bench.context.provider_cache import OPUS, Bill, ProviderCache
from bench.context.reads_again import RepeatedReads
from bench.context.sent import SentRequest, to_pieces
from timeloom.app import AgentSettings, SideModels, build_turn_runner
from timeloom.config.sandboxes import open_sandbox
from timeloom.config.sections.execution import ExecutionSettings
from timeloom.core.blocks import ConversationStarted, Pruned, RangeSummary, ToolError, Usage
from timeloom.core.blocks.extract_payloads import find_blob_refs, restore_payloads
from timeloom.core.ids import ConversationId
from timeloom.core.policy.next_step import AskModel, TurnLimits
from timeloom.core.policy.pruning import PruneSettings
from timeloom.core.render.section import Section
from timeloom.core.stream.channels import DECISION
from timeloom.core.timeline import Entry
from timeloom.ports.model import FinishEvent, ModelEvent, ModelRequest
from timeloom.ports.tool import Outcome, ToolContext, ToolSpec
from timeloom.providers.script import ScriptedModel, Step
from timeloom.runtime.context.fit_window import ContextFitter
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.inbox import Inbox
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.sqlite import SqliteStore
from timeloom.tools.exec.tool import ExecTool
from timeloom.tools.outcome import to_outcome
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry

_MODEL_NAME: Final = "claude-opus-4-6"
MODEL: Final = f"anthropic:{_MODEL_NAME}"
"""The model of the recorded sessions; no request is sent to it."""

HEADER: Final = ConversationStarted(tenant="bench", project="bench", user="somebody")
_WINDOW_TOKENS: Final = 200_000
_NO_LIMIT: Final = 10_000_000
"""A window so large that only the recorded summaries apply."""

_NO_PRUNING: Final = PruneSettings(min_saving_tokens=_NO_LIMIT)
_SUMMARY_CHARS: Final = 4_000
"""Length of the recorded summary that the summariser returns: about a thousand tokens."""

_GO_ON: Final = "Go on."
_DONE: Final = "Done."


class PlayMode(msgspec.Struct, frozen=True):
    """How a trace is played: where summaries apply, and whether old rounds are pruned."""

    own_summary: bool = False
    """Whether the runtime compacts by itself, and not where the recorded agent did."""
    prunes: bool = False
    forgets: bool = True
    """Whether anything leaves the prompt; otherwise neither summaries nor pruning apply."""
    edition: int = 3
    """The edition of everything that a model reads and writes."""


APPEND_ONLY: Final = "recorded summary"
OWN_SUMMARY: Final = "own summary"
FULL: Final = "own summary, pruning"
PLAY_MODES: Final = {
    APPEND_ONLY: PlayMode(),
    "recorded summary, pruning": PlayMode(prunes=True),
    OWN_SUMMARY: PlayMode(own_summary=True),
    FULL: PlayMode(own_summary=True, prunes=True),
}


class PlayResult(msgspec.Struct, frozen=True):
    """The result of a play: each request as it was sent, and the accuracy of the cache forecasts."""

    sent: list[SentRequest]
    forecasts: ForecastErrors
    reads_again: list[Bill]
    prunes: int


class ShownEntry(msgspec.Struct, frozen=True):
    """An entry of the timeline with its stored texts, and the text that the prompt shows for it."""

    entry: Entry
    text: str


class ShownTimeline(msgspec.Struct, frozen=True):
    """The whole timeline as the last prompt shows it; `titles` are the lines before it that belong to no entry."""

    entries: tuple[ShownEntry, ...]
    titles: str
    sent: list[SentRequest]


async def play(asks: Sequence[TraceRequest], agent: RecordedAgent, counter: TokenCounter, way: PlayMode) -> PlayResult:
    """Run the trace in a new conversation."""
    state = _PlayState(asks, counter, way)
    conversation = ConversationId(f"conv_trace_{way.own_summary:d}{way.prunes:d}")
    with tempfile.TemporaryDirectory() as folder:
        store = await SqliteStore.open(Path(folder))
        async with await Session.start(store, conversation, HEADER, state, _DeterministicIds()) as session:
            await _run_turns(session, state, agent, Path(folder))
        forecasts = await compare_forecasts(store, conversation, state.bills)
        await store.close()
    return PlayResult(state.sent, forecasts, state.reads_again.bills, state.prunes)


async def play_timeline(
    asks: Sequence[TraceRequest], agent: RecordedAgent, counter: TokenCounter, way: PlayMode
) -> ShownTimeline:
    """Run the trace in a new conversation and return its timeline as the prompt shows it at the end."""
    state = _PlayState(asks, counter, way)
    with tempfile.TemporaryDirectory() as folder:
        store = await SqliteStore.open(Path(folder))
        conversation = ConversationId("conv_trace")
        async with await Session.start(store, conversation, HEADER, state, _DeterministicIds()) as session:
            turns = await _run_turns(session, state, agent, Path(folder))
            view = await turns.context_fitter.prompt_builder.render()
            views = session.views
            entries = await session.entries(range(1, views.tail + 1))
            refs = {ref for entry in entries for ref in find_blob_refs(entry)}
            payloads = {ref: await session.payload(ref) for ref in refs}
        await store.close()
    shown = [
        ShownEntry(restore_payloads(one, payloads.__getitem__), view.renderer.entry_text(one, views, payloads).text)
        for one in entries
        if one.seq in views.visible.shown
    ]
    return ShownTimeline(tuple(shown), view.renderer.titles.texts[Section.INTACT], state.sent)


async def _run_turns(session: Session, state: "_PlayState", agent: RecordedAgent, folder: Path) -> TurnRunner:
    session.listen(state.on_entry)
    turns = _turns(session, state, agent, folder)
    while state.asked < len(state.asks):
        asked, ask = state.asked, state.asks[state.asked]
        messages = ask.user_messages()
        state.opened_with = 1
        state.now_s = max(state.now_s, ask.at_s)
        await turns.run(messages[0] if messages else _GO_ON)
        if state.asked == asked:
            raise RuntimeError(f"the turn of request {asked} ended without asking the model")
    return turns


class _DeterministicIds:
    """Deterministic ids, so that every run counts the same tokens."""

    def __init__(self) -> None:
        self._chance = random.Random(11)

    def bits(self) -> int:
        return self._chance.getrandbits(64)


class _PlayState:
    """The state of the play: the time, the next request, and the pending results."""

    def __init__(self, asks: Sequence[TraceRequest], counter: TokenCounter, way: PlayMode) -> None:
        self.asks = asks
        self.way = way
        self.counter = counter
        self.cache = ProviderCache(OPUS)
        self.asked = 0
        self.opened_with = 0
        """Number of user messages before the next request that have already opened a turn."""
        self.results: deque[TraceCall] = deque()
        self.sent: list[SentRequest] = []
        self.bills: list[Bill] = []
        self.reads_again = RepeatedReads(counter)
        self.prunes = 0
        self.now_s = asks[0].at_s if asks else 0.0

    def epoch_us(self) -> int:
        """Return the recorded time."""
        return round(self.now_s * 1e6)

    def record_decision(self, bill: Bill) -> None:
        """Record that the next request of the trace was sent, with its bill."""
        self.bills.append(bill)
        self.results.extend(self.next.calls if self.next else ())
        self.asked += 1

    def on_entry(self, entry: Entry) -> None:
        """Process an entry of the timeline."""
        self.reads_again.on_entry(entry)
        self.prunes += isinstance(entry.block, Pruned)

    @property
    def next(self) -> TraceRequest | None:
        """The next request of the trace; None after the last one, when a turn may need one more to end."""
        return self.asks[self.asked] if self.asked < len(self.asks) else None


def _turns(session: Session, state: _PlayState, agent: RecordedAgent, folder: Path) -> TurnRunner:
    model = _BillingModel(state)
    tools = [_RecordedToolPlayer(tool, state) for tool in agent.tools]
    setting = AgentSettings(
        data_dir=folder,
        limits=TurnLimits(max_iterations=1_000_000, fanout="safe_fanout"),
        instructions=agent.instructions,
        prune=PruneSettings() if state.way.prunes else _NO_PRUNING,
        edition=state.way.edition,
    )
    registry = _catalogue().with_tools(tools)
    turns = build_turn_runner(session, model, setting, lambda _: None, registry, SideModels(summary=model))
    fitter = turns.context_fitter
    return dataclasses.replace(
        turns,
        context_fitter=_PlayedContextFitter(
            session=session,
            model=fitter.model,
            prompt_builder=fitter.prompt_builder,
            pruner=fitter.pruner,
            compactor=fitter.compactor,
            reply_tokens=fitter.reply_tokens,
            state=state,
            inbox=turns.inbox,
        ),
    )


def _catalogue() -> ToolRegistry:
    """Return the tools that every conversation has by default; the recorded replies call none of them."""
    return ToolRegistry([*react_tools(), ExecTool(open_sandbox(ExecutionSettings()))])


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlayedContextFitter(ContextFitter):
    """Applies the recorded time, messages and summaries before each request, then fits the context window."""

    state: _PlayState
    inbox: Inbox

    async def fit(self, step: AskModel, interrupt: asyncio.Event) -> str:
        stage, ask = self.state, self.state.next
        if ask is not None:
            stage.now_s = max(stage.now_s, ask.at_s)
            if ask.summary and stage.way.forgets and not stage.way.own_summary:
                await _append_summary(self.session, ask.summary)
            for text in ask.user_messages()[stage.opened_with :]:
                await self.inbox.follow_up(text)
            stage.opened_with = 0
        # Called by name, because a dataclass with slots is a different class than the one that `super` would use.
        return await ContextFitter.fit(self, step, interrupt)


async def _append_summary(session: Session, text: str) -> None:
    turns, turn = session.views.turns.turns, session.views.progress.turn_id
    summary = RangeSummary(covered_turn_ids=tuple(turns), text=text, first_seq=2, last_seq=session.views.tail)
    await session.append([summary], turn)


class _BillingModel:
    """Gives the recorded replies, with the simulated provider's bill for the request."""

    name = MODEL

    def __init__(self, state: _PlayState) -> None:
        self._state = state
        self.window_tokens = _WINDOW_TOKENS if state.way.own_summary else _NO_LIMIT
        replies = [Step(reply=_reply(ask)) for ask in state.asks]
        summary = next((ask.summary for ask in state.asks if ask.summary), _DONE)[:_SUMMARY_CHARS]
        last = Step(reply=_answer(_DONE), repeat=True)
        self._script = ScriptedModel([*replies, last, Step(when="compaction", reply=summary, repeat=True)])

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        state = self._state
        pieces = to_pieces(_MODEL_NAME, request, state.counter)
        bill = state.cache.bill_request(pieces, state.now_s)
        if request.purpose == "decision":
            state.record_decision(bill)
        if state.asked <= len(state.asks):
            state.sent.append(SentRequest(state.now_s, pieces, aside=request.purpose != "decision"))
        async for event in self._script.stream(request):
            yield msgspec.structs.replace(event, usage=_usage(bill)) if isinstance(event, FinishEvent) else event

    async def close(self) -> None:
        await self._script.close()


class _RecordedToolPlayer:
    """A recorded tool: its next call returns the next recorded result at its recorded time."""

    def __init__(self, tool: RecordedTool, state: _PlayState) -> None:
        self._state = state
        self.spec = ToolSpec(
            tool_id=_tool_id(tool.name), purpose=tool.description, params_schema=tool.params_schema, effect="pure"
        )

    async def call(self, params: str, context: ToolContext) -> Outcome:
        state = self._state
        call = state.results.popleft()
        state.now_s = max(state.now_s, call.done_s)
        state.reads_again.on_call(call, context.tool_call_id, context.timeline.views, state.bills[-1].tokens)
        if not call.failed:
            return to_outcome(call.result, context)
        error = ToolError(code="tool_failed", message=call.result[:200])
        return Outcome(status=call.result, status_mime="text/plain", error=error)


def _tool_id(name: str) -> str:
    return f"recorded.{name}"


def _reply(ask: TraceRequest) -> str:
    thinking = f"<channel:thinking>{ask.thinking}</channel:thinking>\n" if ask.thinking else ""
    if not ask.calls:
        return thinking + _answer(ask.text or _DONE)
    notes = [ask.text, *[""] * (len(ask.calls) - 1)]
    return thinking + "\n".join(_call(call, note) for call, note in zip(ask.calls, notes, strict=True))


def _call(call: TraceCall, notes: str) -> str:
    asked = {"tool_id": _tool_id(call.tool), "params": msgspec.Raw(call.params.encode())}
    return _decision({"action": "call_tool", "notes": notes, "tool_call": asked})


def _answer(text: str) -> str:
    return _decision({"action": "complete", "final_answer": text})


def _decision(decision: dict[str, object]) -> str:
    return f"<channel:{DECISION}>{msgspec.json.encode(decision).decode()}</channel:{DECISION}>"


def _usage(bill: Bill) -> Usage:
    return Usage(
        input_tokens=bill.plain,
        cache_read_tokens=bill.read,
        cache_write_tokens=bill.written + bill.written_for_an_hour,
        output_tokens=1,
        cost_nano_usd=round(bill.usd(OPUS) * 1e9),
    )
