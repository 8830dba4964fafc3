"""Checks that budgets hold when many conversations reserve, wait and cancel at the same time."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from timeloom.core.ids import ConversationId
from timeloom.ports.ledger import Amounts, BudgetCap, BudgetSpentError, Ledger, MaxAmounts, Reservation, scope
from timeloom.testing.ledger_contract.fixtures import (
    TREE,
    Open,
    expect_error,
    make_reservation,
    max_token_amounts,
    scoped_store,
)
from timeloom.testing.store_contract.fixtures import WAIT_S

CONVERSATION_COUNT: Final = 100
LIMIT: Final = 20_000
LARGEST: Final = 1_000

TOKEN_CAP: Final = BudgetCap(scope=TREE, tokens=LIMIT, cost_nano_usd=LIMIT * 4)
TIME_CAP: Final = BudgetCap(scope=TREE, wall_ms=LIMIT)


async def who_waits_is_let_through_when_another_settles(open_store: Open) -> None:
    """A waiting reservation is granted after another one is settled or released."""
    async with scoped_store(open_store) as store, asyncio.timeout(WAIT_S):
        ledger = store.ledger
        first = await ledger.reserve(make_reservation("a", max_token_amounts(50), tokens=100), 0)
        waiting = asyncio.create_task(ledger.reserve(make_reservation("b", max_token_amounts(50), tokens=100)))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await ledger.settle(first, Amounts(tokens=50))
        second = await waiting
        third = asyncio.create_task(ledger.reserve(make_reservation("c", max_token_amounts(50), tokens=100)))
        await asyncio.sleep(0.01)
        await ledger.release(second)
        await ledger.settle(await third, Amounts(tokens=50))


async def who_waits_too_long_is_told_why(open_store: Open) -> None:
    """A timeout raises `BudgetBusyError`; a budget spent meanwhile raises `BudgetSpentError`."""
    async with scoped_store(open_store) as store, asyncio.timeout(WAIT_S):
        ledger = store.ledger
        first = await ledger.reserve(make_reservation("a", max_token_amounts(50), tokens=100), 0)
        error = await expect_error(
            "budget_busy", ledger.reserve(make_reservation("b", max_token_amounts(50), tokens=100), 0.02)
        )
        assert TREE in str(error)
        waiting = asyncio.create_task(ledger.reserve(make_reservation("b", max_token_amounts(50), tokens=100)))
        await asyncio.sleep(0.01)
        await ledger.settle(first, Amounts(tokens=100))
        await expect_error("budget_spent", waiting)


async def who_gives_up_holds_nothing(open_store: Open) -> None:
    """A cancelled caller leaves no reservation behind, because it could not release it."""
    async with scoped_store(open_store) as store, asyncio.timeout(WAIT_S):
        ledger = store.ledger
        for steps in range(6):
            task = asyncio.create_task(ledger.reserve(make_reservation("a", max_token_amounts(None), tokens=100)))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ledger.release(await task)
            await ledger.release(await ledger.reserve(make_reservation("b", max_token_amounts(None), tokens=100)))


async def a_hundred_conversations_of_a_tree_overspend_by_less_than_one_call(open_store: Open) -> None:
    """Promise 2 of the ledger for tokens and cost, if no call costs more than its reservation."""
    async with scoped_store(open_store) as store:
        spent, largest = await spend_all(store.ledger, TOKEN_CAP, varied_cost, lambda _: LARGEST)
        assert LIMIT <= spent < LIMIT + largest
        total = await store.ledger.spent(TREE)
        assert (total.tokens, total.cost_nano_usd) == (spent, spent * 3)


async def a_hundred_conversations_of_a_tree_take_too_long_by_less_than_one_call(open_store: Open) -> None:
    """Promise 2 of the ledger for time, if no call takes longer than its reservation."""
    async with scoped_store(open_store) as store:
        spent, largest = await spend_all(store.ledger, TIME_CAP, varied_cost, lambda _: LARGEST)
        assert LIMIT <= spent < LIMIT + largest
        assert (await store.ledger.spent(TREE)).wall_ms == spent


async def calls_that_cost_more_than_they_said_overspend_by_less_than_one_call_where_they_cost_alike(
    open_store: Open,
) -> None:
    """Holds because the first call is made alone and the largest call so far counts."""
    async with scoped_store(open_store) as store:
        spent, largest = await spend_all(store.ledger, TOKEN_CAP, lambda _: LARGEST, lambda _: 1)
        assert LIMIT <= spent < LIMIT + largest


async def a_hundred_conversations_spend_no_more_tool_calls_than_there_are(open_store: Open) -> None:
    """Tool calls are never overspent, because their number is known before the call."""
    async with scoped_store(open_store) as store, asyncio.timeout(WAIT_S):
        cap = BudgetCap(scope=TREE, tool_calls=CONVERSATION_COUNT // 2)

        async def use(number: int) -> bool:
            name = ConversationId(f"conv_{number}")
            reservation = make_reservation(f"{name}/1", MaxAmounts(tool_calls=1), cap, conversation=name)
            try:
                reserved = await store.ledger.reserve(reservation)
            except BudgetSpentError:
                return False
            await store.ledger.settle(reserved, Amounts(tool_calls=1))
            return True

        used = await asyncio.gather(*(use(number) for number in range(CONVERSATION_COUNT)))
        assert sum(used) == CONVERSATION_COUNT // 2 == (await store.ledger.spent(TREE)).tool_calls


def varied_cost(number: int) -> int:
    """Return a cost between 1 and `LARGEST` that depends on the number of the call."""
    return number * 7919 % LARGEST + 1


async def spend_all(
    ledger: Ledger, cap: BudgetCap, cost: Callable[[int], int], most: Callable[[int], int]
) -> tuple[int, int]:
    """Make calls in 100 conversations until the budget is spent; returns total cost and largest cost."""
    costs: list[int] = []

    async def converse(conversation: int) -> None:
        name = ConversationId(f"conv_{conversation}")
        for turn in range(LIMIT):
            number = turn * CONVERSATION_COUNT + conversation
            try:
                reserved = await ledger.reserve(_call(name, turn, most(number), cap))
            except BudgetSpentError:
                return
            # Simulates the call; some take longer than others.
            for _ in range(number % 5):
                await asyncio.sleep(0)
            costs.append(cost(number))
            await ledger.settle(reserved, _amounts(costs[-1]))

    async with asyncio.timeout(2 * WAIT_S):
        await asyncio.gather(*(converse(number) for number in range(CONVERSATION_COUNT)))
    return sum(costs), max(costs)


def _call(name: ConversationId, turn: int, number: int, cap: BudgetCap) -> Reservation:
    most = MaxAmounts(tokens=number, cost_nano_usd=number * 3, wall_ms=number)
    return make_reservation(
        f"{name}/{turn}", most, cap, BudgetCap(scope=scope("conversation", name)), conversation=name
    )


def _amounts(number: int) -> Amounts:
    return Amounts(tokens=number, cost_nano_usd=number * 3, wall_ms=number)
