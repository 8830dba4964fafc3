"""The ledgers on disk and in memory answer every sequence of operations like a simple model."""

import asyncio
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.policy.budget import MEASURES
from timeloom.ports.ledger import Amounts, BudgetCap, BudgetGrant, Ledger, MaxAmounts, Reservation
from timeloom.ports.store import Store
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing.store_contract.fixtures import header

T = TypeVar("T")

NAMES = [ConversationId("conv_a"), ConversationId("conv_b")]
LIMITS = {"tree:a": 40, "user:b": 60}

keys = st.sampled_from([f"key {n}" for n in range(6)])
known = st.integers(0, 25)
unsure = st.one_of(st.none(), known)
few = st.integers(0, 2)
mosts = st.builds(MaxAmounts, rounds=few, tokens=unsure, cost_nano_usd=unsure, tool_calls=few, wall_ms=unsure)
actuals = st.builds(Amounts, rounds=few, tokens=known, cost_nano_usd=known, tool_calls=few, wall_ms=known)
limits = st.sampled_from(
    [
        (BudgetCap(scope="tree:a", tokens=LIMITS["tree:a"], rounds=9),),
        (BudgetCap(scope="tree:a", tokens=LIMITS["tree:a"]), BudgetCap(scope="user:b", cost_nano_usd=LIMITS["user:b"])),
        (BudgetCap(scope="user:b", cost_nano_usd=LIMITS["user:b"]), BudgetCap(scope="conversation:conv_a")),
        (
            BudgetCap(scope="tree:a", wall_ms=LIMITS["tree:a"], tool_calls=9),
            BudgetCap(scope="user:b", wall_ms=LIMITS["user:b"]),
        ),
        (),
    ]
)


class LedgersAgree(RuleBasedStateMachine):
    """Applies each operation to both ledgers and compares every answer, errors included.

    The model knows only sums: the settled and the open amounts of each scope.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        self.stores: list[Store] = [MemoryStore(), self.run(SqliteStore.open(self.folder))]
        self.granted: list[dict[Ledger, BudgetGrant]] = []
        self.open: dict[str, Reservation] = {}
        self.spent: defaultdict[str, Amounts] = defaultdict(Amounts)
        for store in self.stores:
            self.run(store.append(NAMES[1], 0, [header()]))

    def teardown(self) -> None:
        for store in self.stores:
            self.run(store.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    def run(self, work: Coroutine[None, None, T]) -> T:
        return self.runner.run(work)

    def same(self, ask: Callable[[Ledger], Awaitable[object]]) -> object:
        async def answer(ledger: Ledger) -> object:
            try:
                return await ask(ledger)
            except CodedError as error:
                return error.code, str(error)

        memory, disk = (self.run(answer(store.ledger)) for store in self.stores)
        assert memory == disk
        return memory

    @rule(key=keys, name=st.sampled_from(NAMES), most=mosts, caps=limits)
    def reserve(self, key: str, name: ConversationId, most: MaxAmounts, caps: tuple[BudgetCap, ...]) -> None:
        reservation = Reservation(key=key, conversation=name, most=most, caps=caps)
        granted: dict[Ledger, BudgetGrant] = {}

        async def reserve(ledger: Ledger) -> object:
            granted[ledger] = await ledger.reserve(reservation, 0)
            return granted[ledger].scopes

        self.same(reserve)
        if granted:
            self.granted.append(granted)
            self.open[key] = reservation
        else:
            others = [each for each in self.open.values() if each.key != key]
            assert others or any(each != Amounts() for each in self.spent.values()), (
                "a ledger in which nothing happened refuses nobody"
            )

    @precondition(lambda self: self.granted)
    @rule(at=st.integers(0, 20), actual=actuals, released=st.booleans())
    def end(self, at: int, actual: Amounts, released: bool) -> None:
        granted = self.granted[at % len(self.granted)]
        last = self.granted_last(next(iter(granted.values())).key)
        self.same(
            lambda ledger: ledger.release(granted[ledger]) if released else ledger.settle(granted[ledger], actual)
        )
        key = next(iter(granted.values())).key
        if granted is last and key in self.open:
            self.charge(self.open.pop(key), Amounts() if released else actual)

    def charge(self, reservation: Reservation, actual: Amounts) -> None:
        for cap in reservation.caps:
            before = self.spent[cap.scope]
            sums = {measure: getattr(before, measure) + getattr(actual, measure) for measure in MEASURES}
            self.spent[cap.scope] = Amounts(**sums)

    def granted_last(self, key: str) -> dict[Ledger, BudgetGrant]:
        return [each for each in self.granted if next(iter(each.values())).key == key][-1]

    @rule()
    def delete(self) -> None:
        for store in self.stores:
            self.run(store.delete(NAMES[1]))
            self.run(store.append(NAMES[1], 0, [header()]))
        for key, reservation in list(self.open.items()):
            if reservation.conversation == NAMES[1]:
                self.charge(self.open.pop(key), reservation.most.presumed_amounts)

    @invariant()
    def both_say_what_the_model_says(self) -> None:
        for scope in ("tree:a", "user:b", "conversation:conv_a"):
            amounts = self.same(lambda ledger, scope=scope: ledger.spent(scope))
            assert amounts == self.spent.get(scope, Amounts())
        for name in NAMES:

            async def unsettled(ledger: Ledger, name: ConversationId = name) -> object:
                return [(each.key, each.most, sorted(each.scopes)) for each in await ledger.unsettled(name)]

            expected = sorted(
                (each.key, each.most, sorted(cap.scope for cap in each.caps))
                for each in self.open.values()
                if each.conversation == name and each.caps
            )
            assert self.same(unsettled) == expected


LedgersAgree.TestCase.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
TestLedgersAgree = LedgersAgree.TestCase
