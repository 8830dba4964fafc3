"""Harness for the hub: conversations in memory, opened by a hub, with a scripted model and small tools."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.harness.turn import Step, TurnHarness
from timeloom.core.blocks import ConversationStarted
from timeloom.core.ids import ConversationId
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.leases import Lease
from timeloom.ports.ledger import Amounts, BudgetGrant, Reservation
from timeloom.ports.store import StoreError
from timeloom.runtime.hub.events import ConvStatus
from timeloom.runtime.hub.hub import Hub, HubSettings
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.in_memory.ledger import MemoryLedgerTables
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.ledger import StoreLedger


class DelayedLedgerTables(MemoryLedgerTables):
    """Budgets whose answers arrive with a delay."""

    async def grant(self, reservation: Reservation) -> BudgetGrant:
        granted = await super().grant(reservation)
        await _delay()
        return granted

    async def spent(self, scope: str) -> Amounts:
        spent = await super().spent(scope)
        await _delay()
        return spent


class DelayedStore(MemoryStore):
    """A memory store whose answers arrive with a delay, like those of a store in another thread."""

    is_full = False
    _write_failure = ""

    def __init__(self) -> None:
        super().__init__()
        self._ledger_tables = DelayedLedgerTables(self._check_open)
        self._ledger = StoreLedger(self._ledger_tables)

    @property
    def write_failure(self) -> str:
        return self._write_failure

    async def append(
        self, conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], lease: Lease | None = None
    ) -> tuple[Entry, ...]:
        if self.is_full:
            self._write_failure = "the disk is full"
            raise StoreError("store_unwritable", self._write_failure)
        self._write_failure = ""
        entries = await super().append(conversation, expected_tail, drafts, lease)
        await _delay()
        return entries

    async def load(self, conversation: ConversationId, after: int = 0, limit: int | None = None) -> list[Entry]:
        entries = await super().load(conversation, after, limit)
        await asyncio.sleep(0)
        return entries


async def _delay() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


class HubHarness(TurnHarness):
    """A turn harness whose conversations are opened by a hub."""

    def __init__(self, tmp_path: Path, *steps: str | Step) -> None:
        super().__init__(tmp_path, *steps)
        self.store = DelayedStore()
        self.opened: list[TurnRunner] = []

    def hub(self, settings: HubSettings | None = None) -> Hub:
        return Hub(self.store, self._open_turns, SystemClock(), RandomIds(), settings or HubSettings(grace_s=0.01))

    async def _open_turns(
        self, conversation: ConversationId, header: ConversationStarted | None, hear: Callable[[LiveDelta], None]
    ) -> TurnRunner:
        clock, ids = SystemClock(), RandomIds()
        if header:
            turns = await self.open(await Session.start_deferred(self.store, conversation, header, clock, ids))
        else:
            turns = await self.open(await Session.resume(self.store, conversation, clock, ids))
        self.opened.append(turns)
        return turns

    async def blocks(self, conversation: ConversationId) -> list[object]:
        return [entry.block for entry in await self.store.load(conversation)]


async def wait_until_idle(hub: Hub, stage: HubHarness, conversation: ConversationId) -> None:
    async with hub.stream(await stage.store.info(conversation), 0) as (_, events):
        async for event in events:
            if isinstance(event, ConvStatus) and event.state == "idle":
                return
