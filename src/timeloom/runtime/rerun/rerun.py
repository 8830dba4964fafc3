"""Runs a conversation again from an entry, with another model, and compares the result with the record.

The re-run works on a fork, so the conversation does not change. The user's later messages are sent again at the same
positions, and calls that equal recorded ones get the recorded results.
"""

import asyncio
import dataclasses
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import ForkPoint, ModelCalled
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.policy.forking import end_stopped_rerun, find_restart_seq
from timeloom.core.view.views import Views
from timeloom.ports.clock import Clock
from timeloom.ports.ids import Ids
from timeloom.ports.store import Store
from timeloom.runtime.fork.fork import ForkContext, create_fork
from timeloom.runtime.rerun.compare import find_models, read_text
from timeloom.runtime.rerun.recorded_inputs import InputReplayer, RecordedInputs, RecordedPrompt, read_recorded_inputs
from timeloom.runtime.rerun.recorded_tools import CallRecording, RecordedTools, skip_gates_for_recorded
from timeloom.runtime.rerun.trajectory import Effort, TurnPair, TurnTrace, extract_trajectory, pair_turns, total_effort
from timeloom.runtime.session.load_views import load_views
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnOutcome, TurnRunner
from timeloom.stores.overlay import OverlayStore

HOLDER: Final = "timeloom replay"
"""The lease holder of a fork during its re-run."""

INTERRUPTED_TEXT: Final = "the re-run was broken off here"
"""The end text of a turn whose re-run was interrupted by its own process."""

WORKSPACES: Final = "workspaces"
"""The folder of a data directory that contains the files of conversations."""

TurnRunnerFactory = Callable[[Session, Path], TurnRunner]
"""Builds the turn runner of a session, with its files below that data directory and the model of the re-run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunSettings:
    """How conversations of a store are run again.

    With `live_tools`, a call that was not recorded is executed, subject to gates and budgets. With `keep`, the fork
    stays in the store. Live tools always keep it, because their effects on the world must be recorded.
    """

    store: Store
    data_dir: Path
    make_turn_runner: TurnRunnerFactory
    clock: Clock
    ids: Ids
    live_tools: bool = False
    keep: bool = False
    max_turns: int | None = None
    on_fork: Callable[[ConversationId], None] = lambda _: None
    """Called with the id of a kept fork as soon as its lease is held; interrupting the re-run later ends its turn."""

    @property
    def keeps_fork(self) -> bool:
        """Whether the fork stays in the store."""
        return self.keep or self.live_tools


class RerunResult(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="rerun"):
    """The recorded course after an entry, and the course of its re-run.

    `forked_from` is the last position at or before the requested entry at which the model could be called.
    """

    forked_from: ForkPoint
    asked_for_seq: int
    model: str
    recorded_models: tuple[str, ...]
    kept: ConversationId | None
    waits: bool
    """Whether the re-run stopped because a person has to decide."""
    unsaid: int
    """The number of recorded messages that were not sent, because the turn had already ended in the re-run."""
    is_same: bool
    recorded: Effort
    rerun: Effort
    turns: tuple[TurnPair, ...]


async def rerun_conversation(settings: RerunSettings, source: ConversationId, seq: int) -> RerunResult:
    """Run the conversation again after that entry and compare; the source is not changed and needs no lease."""
    views = await load_views(settings.store, source)
    fork_seq = await _find_fork_seq(settings.store, source, seq, views)
    record = await settings.store.load(source, after=fork_seq)
    if not any(isinstance(entry.block, ModelCalled) for entry in record):
        raise CodedError(
            "entry_unknown", f"there is no model call after entry {fork_seq}, so there is nothing to run again"
        )
    tenant = (await settings.store.info(source)).tenant
    async with _prepare_store(settings) as (store, data_dir):
        text = partial(read_text, store, tenant)
        fork_context = ForkContext(
            store=store,
            workspaces=settings.data_dir / WORKSPACES,
            into=data_dir / WORKSPACES,
            clock=settings.clock,
            ids=settings.ids,
        )
        forked = await create_fork(fork_context, source, fork_seq, views, stays_open=True)
        inputs = await read_recorded_inputs(store, tenant, record)
        async with _open_session(settings, store, forked.conversation) as session:
            if settings.keeps_fork:
                settings.on_fork(forked.conversation)
            turns = settings.make_turn_runner(session, data_dir)
            recording = await CallRecording.from_entries(record, text, turns.action_context.registry)
            loop = _RerunLoop(
                _with_recording(turns, recording, inputs, live=settings.live_tools), inputs, settings.max_turns
            )
            try:
                await loop.run_all()
            finally:
                await turns.titles.stop()
        recorded_turns = await extract_trajectory(record, text)
        rerun_turns = await extract_trajectory(await store.load(forked.conversation, after=fork_seq), text)
    recorded_turns = recorded_turns[: settings.max_turns]
    rerun_turns = [_with_origins(turn, recording) for turn in rerun_turns]
    pairs = pair_turns(recorded_turns, rerun_turns)
    return RerunResult(
        forked_from=forked.forked_from,
        asked_for_seq=seq,
        model=turns.model_caller.model.name,
        recorded_models=find_models(record),
        kept=forked.conversation if settings.keeps_fork else None,
        waits=loop.is_waiting,
        unsaid=inputs.unsent_count,
        is_same=all(pair.verdict == "same" for pair in pairs),
        recorded=total_effort(recorded_turns),
        rerun=total_effort(rerun_turns),
        turns=pairs,
    )


async def _find_fork_seq(store: Store, source: ConversationId, seq: int, views: Views) -> int:
    if not 1 <= seq <= views.tail:
        raise CodedError("entry_unknown", f"expected an entry from 1 to {views.tail}, got {seq}")
    starts = [known.spans[0][0] for known in views.turns.turns.values() if known.spans[0][0] <= seq]
    if not starts:
        return seq
    loaded = await store.load(source, after=starts[-1] - 1, limit=seq - starts[-1] + 2)
    turn = loaded[: seq - starts[-1] + 1]
    return find_restart_seq(turn, next(iter(loaded[len(turn) :]), None))


@asynccontextmanager
async def _prepare_store(settings: RerunSettings) -> AsyncGenerator[tuple[Store, Path]]:
    """Yield the store and data directory for the fork: the real ones, or a temporary overlay and folder."""
    if settings.keeps_fork:
        yield settings.store, settings.data_dir
        return
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="timeloom-")
    try:
        yield OverlayStore(settings.store, settings.clock), Path(folder.name)
    finally:
        await asyncio.to_thread(folder.cleanup)


@asynccontextmanager
async def _open_session(settings: RerunSettings, store: Store, fork: ConversationId) -> AsyncGenerator[Session]:
    """Yield a session of the fork; an error or Ctrl-C ends its open turn."""
    async with await Session.resume(store, fork, settings.clock, settings.ids, holder=HOLDER) as session:
        try:
            yield session
        except BaseException:
            progress = session.views.progress
            if progress.running:
                seqs = list(session.views.turns.turns[progress.turn_id].seqs())
                await session.append(end_stopped_rerun(await session.entries(seqs), INTERRUPTED_TEXT), progress.turn_id)
            raise


def _with_recording(turns: TurnRunner, recording: CallRecording, inputs: RecordedInputs, *, live: bool) -> TurnRunner:
    """Return the turn runner with recorded tools, relaxed gates and replayed inputs."""
    governor = turns.action_context.governor
    governor.policies = tuple(skip_gates_for_recorded(policy, recording, live=live) for policy in governor.policies)
    governor.fixed_policies = tuple(
        skip_gates_for_recorded(policy, recording, live=live) for policy in governor.fixed_policies
    )
    turns.model_caller.prompt_source = InputReplayer(turns.model_caller.prompt_source, inputs, turns.inbox.interrupt)
    tools = RecordedTools(turns.action_context.registry, recording, live=live)
    caller = turns.model_caller
    caller.repair_context = msgspec.structs.replace(caller.repair_context, custom=tools.custom_traits)
    return dataclasses.replace(
        turns, action_context=dataclasses.replace(turns.action_context, registry=tools), rerun=True
    )


class _RerunLoop:
    """Runs the turns of a re-run one after another."""

    def __init__(self, turns: TurnRunner, inputs: RecordedInputs, max_turns: int | None) -> None:
        self._turns = turns
        self._inputs = inputs
        self._turns_left = max_turns
        self.is_waiting = False

    async def run_all(self) -> None:
        """Resume the open turn, then run a turn for each recorded prompt."""
        if self._turns.session.views.progress.running and not await self._run_turn(None):
            return
        for prompt in self._inputs.prompts:
            if not await self._run_turn(prompt):
                return

    async def _run_turn(self, prompt: RecordedPrompt | None) -> bool:
        """Run one turn; return whether the next one can follow."""
        if self._turns_left is not None:
            if not self._turns_left:
                return False
            self._turns_left -= 1
        outcome = await self._turns.resume() if prompt is None else await self._run_prompt(prompt)
        self.is_waiting = outcome == "waiting"
        return not self.is_waiting and outcome != "provider_error" and await self._run_late_followups()

    async def _run_prompt(self, prompt: RecordedPrompt) -> TurnOutcome:
        # With the recorded turn id, so that paths which contain it lead to the same content.
        return await self._turns.run(
            prompt.text, prompt.attachments, prompt.turn_id, prompt.quoted_roles, prompt.output
        )

    async def _run_late_followups(self) -> bool:
        """Run a turn for each recorded follow-up that the re-run's turn ended too early to receive."""
        turn = self._turns.session.views.progress.turn_id
        for late in self._inputs.take_unsent_followups(turn):
            outcome = await self._turns.run(late.text, quoted_roles=late.quoted_roles)
            self.is_waiting = outcome == "waiting"
            if self.is_waiting or outcome == "provider_error":
                return False
        return True


def _with_origins(turn: TurnTrace, recording: CallRecording) -> TurnTrace:
    """Return the turn with the origin of each call's result."""
    rounds = tuple(
        replace(
            made,
            calls=tuple(
                replace(call, result=recording.result_origins.get(call.tool_call_id, "")) for call in made.calls
            ),
        )
        for made in turn.rounds
    )
    return replace(turn, rounds=rounds)
