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
from timeloom.core.policy.forking import broken_off, standing
from timeloom.core.view.views import Views
from timeloom.ports.clock import Clock
from timeloom.ports.ids import Ids
from timeloom.ports.store import Store
from timeloom.runtime.fork.fork import Forking, copy_until
from timeloom.runtime.rerun.compare import models_of, read_text
from timeloom.runtime.rerun.recorded_inputs import Prompted, Said, SayingAgain, say_again
from timeloom.runtime.rerun.recorded_tools import RecordedTools, Recording, spared
from timeloom.runtime.rerun.trajectory import Effort, TurnMade, TurnPair, course_of, effort_of, side_by_side
from timeloom.runtime.session.load_views import load_views
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import Pause, Turns
from timeloom.stores.overlay import AsideStore

HOLDER: Final = "timeloom replay"
"""The lease holder of a fork during its re-run."""

BROKEN_OFF: Final = "the re-run was broken off here"
"""The end text of a turn whose re-run was interrupted by its own process."""

WORKSPACES: Final = "workspaces"
"""The folder of a data directory that contains the files of conversations."""

OpenTurns = Callable[[Session, Path], Turns]
"""Builds the turn runner of a session, with its files below that data directory and the model of the re-run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerunning:
    """How conversations of a store are run again.

    With `live_tools`, a call that was not recorded is executed, subject to gates and budgets. With `keep`, the fork
    stays in the store. Live tools always keep it, because their effects on the world must be recorded.
    """

    store: Store
    data_dir: Path
    open_turns: OpenTurns
    clock: Clock
    ids: Ids
    live_tools: bool = False
    keep: bool = False
    most_turns: int | None = None
    tell: Callable[[ConversationId], None] = lambda _: None
    """Called with the id of a kept fork as soon as its lease is held; interrupting the re-run later ends its turn."""

    @property
    def keeps(self) -> bool:
        """Whether the fork stays in the store."""
        return self.keep or self.live_tools


class Rerun(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="rerun"):
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


async def rerun(how: Rerunning, source: ConversationId, seq: int) -> Rerun:
    """Run the conversation again after that entry and compare; the source is not changed and needs no lease."""
    views = await load_views(how.store, source)
    place = await _place(how.store, source, seq, views)
    record = await how.store.load(source, after=place)
    if not any(isinstance(entry.block, ModelCalled) for entry in record):
        raise CodedError(
            "entry_unknown", f"there is no model call after entry {place}, so there is nothing to run again"
        )
    tenant = (await how.store.info(source)).tenant
    async with _stage(how) as (store, data_dir):
        text = partial(read_text, store, tenant)
        forking = Forking(
            store=store,
            workspaces=how.data_dir / WORKSPACES,
            into=data_dir / WORKSPACES,
            clock=how.clock,
            ids=how.ids,
        )
        forked = await copy_until(forking, source, place, views, stays_open=True)
        said = await say_again(store, tenant, record)
        async with _session(how, store, forked.conversation) as session:
            if how.keeps:
                how.tell(forked.conversation)
            turns = how.open_turns(session, data_dir)
            recording = await Recording.of(record, text, turns.workshop.registry)
            run = _Run(_with_record(turns, recording, said, live=how.live_tools), said, how.most_turns)
            try:
                await run.all()
            finally:
                await turns.titles.give_up()
        before = await course_of(record, text)
        after = await course_of(await store.load(forked.conversation, after=place), text)
    before = before[: how.most_turns]
    after = [_with_origins(turn, recording) for turn in after]
    pairs = side_by_side(before, after)
    return Rerun(
        forked_from=forked.forked_from,
        asked_for_seq=seq,
        model=turns.asking.model.name,
        recorded_models=models_of(record),
        kept=forked.conversation if how.keeps else None,
        waits=run.waits,
        unsaid=said.unsaid,
        is_same=all(pair.verdict == "same" for pair in pairs),
        recorded=effort_of(before),
        rerun=effort_of(after),
        turns=pairs,
    )


async def _place(store: Store, source: ConversationId, seq: int, views: Views) -> int:
    if not 1 <= seq <= views.tail:
        raise CodedError("entry_unknown", f"expected an entry from 1 to {views.tail}, got {seq}")
    starts = [known.spans[0][0] for known in views.turns.turns.values() if known.spans[0][0] <= seq]
    if not starts:
        return seq
    loaded = await store.load(source, after=starts[-1] - 1, limit=seq - starts[-1] + 2)
    turn = loaded[: seq - starts[-1] + 1]
    return standing(turn, next(iter(loaded[len(turn) :]), None))


@asynccontextmanager
async def _stage(how: Rerunning) -> AsyncGenerator[tuple[Store, Path]]:
    """Yield the store and data directory for the fork: the real ones, or a temporary overlay and folder."""
    if how.keeps:
        yield how.store, how.data_dir
        return
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="timeloom-")
    try:
        yield AsideStore(how.store, how.clock), Path(folder.name)
    finally:
        await asyncio.to_thread(folder.cleanup)


@asynccontextmanager
async def _session(how: Rerunning, store: Store, fork: ConversationId) -> AsyncGenerator[Session]:
    """Yield a session of the fork; an error or Ctrl-C ends its open turn."""
    async with await Session.resume(store, fork, how.clock, how.ids, holder=HOLDER) as session:
        try:
            yield session
        except BaseException:
            progress = session.views.progress
            if progress.running:
                seqs = list(session.views.turns.turns[progress.turn_id].seqs())
                await session.append(broken_off(await session.entries(seqs), BROKEN_OFF), progress.turn_id)
            raise


def _with_record(turns: Turns, recording: Recording, said: Said, *, live: bool) -> Turns:
    """Return the turn runner with recorded tools, relaxed gates and replayed inputs."""
    governor = turns.workshop.governor
    governor.policies = tuple(spared(policy, recording, live=live) for policy in governor.policies)
    turns.asking.prompter = SayingAgain(turns.asking.prompter, said, turns.inbox.interrupt)
    tools = RecordedTools(turns.workshop.registry, recording, live=live)
    return dataclasses.replace(turns, workshop=dataclasses.replace(turns.workshop, registry=tools), rerun=True)


class _Run:
    """Runs the turns of a re-run one after another."""

    def __init__(self, turns: Turns, said: Said, most_turns: int | None) -> None:
        self._turns = turns
        self._said = said
        self._left = most_turns
        self.waits = False

    async def all(self) -> None:
        """Resume the open turn, then run a turn for each recorded prompt."""
        if self._turns.session.views.progress.running and not await self._goes_on(None):
            return
        for prompt in self._said.prompts:
            if not await self._goes_on(prompt):
                return

    async def _goes_on(self, prompt: Prompted | None) -> bool:
        """Run one turn; return whether the next one can follow."""
        if self._left is not None:
            if not self._left:
                return False
            self._left -= 1
        pause = await self._turns.go_on() if prompt is None else await self._say(prompt)
        self.waits = pause == "waiting"
        return not self.waits and pause != "provider_error" and await self._too_late()

    async def _say(self, prompt: Prompted) -> Pause:
        # With the recorded turn id, so that paths which contain it lead to the same content.
        return await self._turns.run(prompt.text, prompt.attachments, prompt.turn_id)

    async def _too_late(self) -> bool:
        """Run a turn for each recorded follow-up that the re-run's turn ended too early to receive."""
        turn = self._turns.session.views.progress.turn_id
        for text in self._said.left_over(turn):
            pause = await self._turns.run(text)
            self.waits = pause == "waiting"
            if self.waits or pause == "provider_error":
                return False
        return True


def _with_origins(turn: TurnMade, recording: Recording) -> TurnMade:
    """Return the turn with the origin of each call's result."""
    rounds = tuple(
        replace(
            made, calls=tuple(replace(call, result=recording.given.get(call.tool_call_id, "")) for call in made.calls)
        )
        for made in turn.rounds
    )
    return replace(turn, rounds=rounds)
