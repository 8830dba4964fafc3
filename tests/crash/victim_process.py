"""A fork server for the crash tests: each fork runs a conversation and is killed as planned.

It reads plans from standard input, one JSON object per line, and answers each with the exit status of that process.
Modules are imported once, so that a fork starts within milliseconds.
"""

import asyncio
import hashlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.crash.crash_scenes import SCENES, CrashModel, CrashScene, ScriptedUser, crash_registry
from tests.crash.external_world import EffectLog, EntryAcknowledged, ProcessFinished, ProcessStarted
from timeloom.app import AgentSettings, build_turn_runner
from timeloom.core.blocks import ConversationStarted, RoundStarted, ToolCall
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.leases import Lease
from timeloom.ports.reader import ConversationUnknownError
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.runtime.turn.resume_open_turns import OpenTurnEnded, OpenTurnWaiting, resume_open_turns
from timeloom.stores.sqlite import SqliteStore
from timeloom.wire.record import encode_record

CONVERSATION = ConversationId("conv_crash")
HEADER = ConversationStarted(tenant="t", project="p", user="ann")
DONE, BROKEN, WAITING = 0, 1, 3


class ExitPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a process is to end; by default it ends by itself."""

    kill_at: int | None = None
    """Kill the process at that boundary, counted over all processes."""
    kill_at_new: str = ""
    """Kill the process at the first boundary that no process has reached before and whose name matches the pattern."""
    kill_after_s: float | None = None
    fault: str = ""
    """A fault to inject for the checker to find."""


class VictimPlan(msgspec.Struct, frozen=True):
    """The folder and the scene of a process, and how it is to end."""

    folder: str
    scene: str
    exit_plan: ExitPlan = ExitPlan()


class VictimExit(msgspec.Struct, frozen=True):
    """The exit status of a process; negative for a signal."""

    status: int


class InstrumentedStore(SqliteStore):
    """A store with a boundary before and after each append, which logs the acknowledged entries."""

    effect_log: EffectLog

    async def append(
        self, conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], lease: Lease | None = None
    ) -> tuple[Entry, ...]:
        types = " ".join(draft.block.type_name for draft in drafts)
        self.effect_log.reach_boundary(f"before {types}")
        entries = await super().append(conversation, expected_tail, drafts, lease)
        self.effect_log.reach_boundary(f"stored {types}")
        for entry in entries:
            self.effect_log.write_line(EntryAcknowledged(entry.seq, record_sha256(entry)))
        self.effect_log.rounds += sum(isinstance(draft.block, RoundStarted) for draft in drafts)
        return entries


def record_sha256(entry: Entry) -> str:
    """Return the hash of the entry's stored record."""
    return hashlib.sha256(encode_record(entry)).hexdigest()


class VictimProcess:
    """One process from its start to its end."""

    def __init__(self, plan: VictimPlan, store: InstrumentedStore, effect_log: EffectLog) -> None:
        self._plan = plan
        self._scene: CrashScene = SCENES[plan.scene]
        self._store = store
        self._effect_log = effect_log
        self._user = ScriptedUser(self._scene, effect_log)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Resume open turns, then send the remaining prompts of the scene."""
        if self._plan.exit_plan.fault == "a turn is left open":
            return DONE
        for outcome in await resume_open_turns(self._store, self._open_turns):
            match outcome:
                case OpenTurnWaiting():
                    return WAITING
                case OpenTurnEnded(reason="completed"):
                    pass
                case _:
                    raise RuntimeError(f"the turn was not gone on with: {outcome}")
        turns = await self._open_or_start()
        try:
            while len(turns.session.views.turns.turns) < len(self._scene.prompts):
                if await turns.run(self._scene.prompts[len(turns.session.views.turns.turns)]) == "waiting":
                    return WAITING
            await turns.ensure_title()
        finally:
            await asyncio.gather(*self._tasks)
            await turns.session.close()
        return DONE

    async def _open_or_start(self) -> TurnRunner:
        try:
            return await self._open_turns(CONVERSATION)
        except ConversationUnknownError:
            clock, ids = SystemClock(), RandomIds()
            return self._turns(await Session.start(self._store, CONVERSATION, HEADER, clock, ids, holder="life"))

    async def _open_turns(self, conversation: ConversationId) -> TurnRunner:
        session = await Session.resume(self._store, conversation, SystemClock(), RandomIds(), holder="life")
        turns = self._turns(session)
        await self._user.catch_up(turns)
        return turns

    def _turns(self, session: Session) -> TurnRunner:
        folder = Path(self._plan.folder)
        fault = self._plan.exit_plan.fault
        model = CrashModel(self._scene, self._effect_log, "!" if fault == "another answer is given" else "")
        registry = crash_registry(self._effect_log, folder / "room", fault)
        settings = AgentSettings(data_dir=folder / "data", budgets=self._scene.budgets)
        turns = build_turn_runner(session, model, settings, lambda _: None, registry)

        def say_more(entry: Entry) -> None:
            if isinstance(entry.block, ToolCall) and entry.block.tool_id == self._scene.followup_after:
                self._tasks.add(asyncio.create_task(self._user.send_followup(turns)))

        session.listen(say_more)
        return turns


async def run_plan(plan: VictimPlan) -> int:
    """Run a process by that plan and return its exit status."""
    folder = Path(plan.folder)
    effect_log = EffectLog(folder / "outside.jsonl", plan.exit_plan.kill_at, plan.exit_plan.kill_at_new)
    async with await InstrumentedStore.open(folder / "data") as store:
        store.effect_log = effect_log
        entries = await store.load(CONVERSATION) if await store.conversation_ids() else []
        effect_log.rounds = sum(isinstance(entry.block, RoundStarted) for entry in entries)
        effect_log.write_line(ProcessStarted(len(entries)))
        status = await VictimProcess(plan, store, effect_log).run()
    effect_log.write_line(ProcessFinished(status == DONE))
    return status


def fork_victim(plan: VictimPlan) -> VictimExit:
    """Run the plan in a forked child and return its exit status."""
    child = os.fork()
    if not child:
        status = BROKEN
        try:
            status = asyncio.run(run_plan(plan))
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            # Nothing of the parent process may run in the child, also after an error.
            sys.stderr.flush()
            os._exit(status)
    if plan.exit_plan.kill_after_s is not None:
        return VictimExit(_kill_after(child, plan.exit_plan.kill_after_s))
    return VictimExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _kill_after(child: int, after_s: float) -> int:
    deadline = time.monotonic() + after_s
    while time.monotonic() < deadline:
        time.sleep(0.0005)
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    print("ready", flush=True)
    for line in sys.stdin.buffer:
        print(msgspec.json.encode(fork_victim(msgspec.json.decode(line, type=VictimPlan))).decode(), flush=True)
