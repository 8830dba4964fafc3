"""The seq of a prompt: a recorded call tells which entries the model was shown, whatever arrived meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.harness.replay import RecordingModel, run_replay
from tests.harness.replies import answers
from tests.harness.turn import TurnHarness, run
from timeloom.core.blocks import Followup, ModelCalled, Steer
from timeloom.core.policy.budget import Allowance, Budgets, Scope
from timeloom.ports.ledger import Amounts, BudgetGrant, Reservation
from timeloom.ports.model import TextSegment
from timeloom.runtime.hub.events import ChatStep, derive_events
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.in_memory.ledger import MemoryLedgerTables
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.ledger import StoreLedger

WORDS = "and by train, please"

Interruption = Callable[[], Awaitable[object]]


class InterruptedTables(MemoryLedgerTables):
    """Budget tables during whose answers something else happens once, as in a store of another thread."""

    at = ""
    interruption: Interruption | None = None

    async def spent(self, scope: str) -> Amounts:
        found = await super().spent(scope)
        await self._interrupt("spent")
        return found

    async def grant(self, reservation: Reservation) -> BudgetGrant:
        granted = await super().grant(reservation)
        await self._interrupt("grant")
        return granted

    async def _interrupt(self, where: str) -> None:
        if self.interruption and self.at == where:
            interruption, self.interruption = self.interruption, None
            # A task of its own, as a request is one: its caller waits for the append, not for the turn.
            await asyncio.create_task(_await(interruption))


class InterruptedStore(MemoryStore):
    """A memory store with such tables."""

    def __init__(self) -> None:
        super().__init__()
        self._ledger_tables = self.tables = InterruptedTables(self._check_open)
        self._ledger = StoreLedger(self.tables)


async def _await(interruption: Interruption) -> None:
    await interruption()


def interrupted_tables(stage: TurnHarness) -> InterruptedTables:
    """Give the harness a store with such tables and return them."""
    stage.store = store = InterruptedStore()
    return store.tables


def budgeted(tmp_path: Path, scope: Scope) -> tuple[TurnHarness, RecordingModel]:
    stage, model = TurnHarness(tmp_path), RecordingModel(answers("by bus"), answers("by train"))
    stage.setting = replace(stage.setting, budgets=Budgets(**{scope: Allowance(tokens=1_000_000)}))
    return stage, model


async def send(turns: TurnRunner, kind: type[Followup] | type[Steer]) -> None:
    await (turns.inbox.follow_up(WORDS) if kind is Followup else turns.inbox.steer(WORDS))


@pytest.mark.parametrize("scope", ["user", "project", "tree"])
@pytest.mark.parametrize("at", ["spent", "grant"])
@pytest.mark.parametrize("kind", [Followup, Steer])
def test_a_message_that_arrives_while_the_ledger_is_read_is_in_the_request_that_marks_it_as_seen(
    tmp_path: Path, scope: Scope, at: str, kind: type[Followup] | type[Steer]
) -> None:
    async def check() -> None:
        stage, model = budgeted(tmp_path, scope)
        tables = interrupted_tables(stage)
        turns = await stage.open()
        turns.model_caller.model = model
        tables.at, tables.interruption = at, lambda: send(turns, kind)
        assert await turns.run("how do I get there?") == "completed"
        entries = await turns.session.entries(range(1, turns.session.views.tail + 1))
        (said,) = [entry.seq for entry in entries if isinstance(entry.block, kind)]
        calls = [entry for entry in entries if isinstance(entry.block, ModelCalled)]
        assert len(calls) == len(model.requests)
        for call, request in zip(calls, model.requests, strict=True):
            # The last segment is the tail, which may name what just arrived and is not kept in later prompts.
            shown = "".join(part.text for part in request.segments[:-1] if isinstance(part, TextSegment))
            (step,) = [event for event in derive_events(call) if isinstance(event, ChatStep)]
            assert (WORDS in shown) == (step.seen >= said)
        assert said < calls[-1].seq
        replayed, findings = await run_replay(stage.store, turns.session.conversation)
        assert [one.verdict for one in replayed] == ["same"] * len(calls)
        assert findings == []

    run(check)
