"""Checks of ledgers that outlive a process and that several stores share."""

import asyncio

from timeloom.ports.ledger import Amounts, BudgetCap, MaxAmounts
from timeloom.testing.ledger_contract.fixtures import (
    CONVERSATION,
    TREE,
    Open,
    expect_error,
    make_reservation,
    max_token_amounts,
    scoped_store,
)
from timeloom.testing.store_contract.fixtures import WAIT_S


async def a_closed_store_has_no_ledger(open_store: Open) -> None:
    """All operations fail after a close, and so do waiting reservations."""
    async with asyncio.timeout(WAIT_S):
        store = await open_store()
        ledger = store.ledger
        reserved = await ledger.reserve(make_reservation("a", max_token_amounts(1), tokens=10), 0)
        waiting = asyncio.create_task(ledger.reserve(make_reservation("b", max_token_amounts(1), tokens=10)))
        await asyncio.sleep(0.01)
        await store.close()
        await expect_error("store_closed", waiting)
        await expect_error("store_closed", ledger.reserve(make_reservation("c", max_token_amounts(1), tokens=10)))
        await expect_error("store_closed", ledger.settle(reserved, Amounts()))
        await expect_error("store_closed", ledger.unsettled(CONVERSATION))
        await expect_error("store_closed", ledger.spent(TREE))


async def what_was_settled_is_there_after_opening_again(open_store: Open) -> None:
    """Promise 3 of the ledger, for a store that was closed normally."""
    async with scoped_store(open_store) as store:
        reserved = await store.ledger.reserve(make_reservation("a", MaxAmounts(rounds=1, tokens=9), tokens=10), 0)
        await store.ledger.settle(reserved, Amounts(rounds=1, tokens=9))
        waiting = await store.ledger.reserve(make_reservation("b", max_token_amounts(None), tokens=10), 0)
    async with scoped_store(open_store) as store:
        assert await store.ledger.spent(TREE) == Amounts(rounds=1, tokens=9)
        assert await store.ledger.unsettled(CONVERSATION) == (waiting,)
        assert (await store.verify()).findings == ()


async def two_stores_of_one_place_have_one_ledger(open_store: Open) -> None:
    """A reservation in one store waits for calls in flight in the other, without notification."""
    async with scoped_store(open_store) as left, scoped_store(open_store) as right, asyncio.timeout(WAIT_S):
        first = await left.ledger.reserve(make_reservation("a", max_token_amounts(50), tokens=100), 0)
        await expect_error(
            "budget_busy", right.ledger.reserve(make_reservation("b", max_token_amounts(50), tokens=100), 0)
        )
        waiting = asyncio.create_task(right.ledger.reserve(make_reservation("b", max_token_amounts(50), tokens=100)))
        await asyncio.sleep(0.01)
        await left.ledger.settle(first, Amounts(tokens=50))
        await right.ledger.settle(await waiting, Amounts(tokens=50))
        await expect_error("budget_spent", left.ledger.reserve(make_reservation("c", max_token_amounts(1), tokens=100)))


async def a_dead_one_s_call_is_promised_and_not_in_flight(open_store: Open) -> None:
    """The reserved amount counts because the call may have been made, but no call waits for it to end."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        other = await open_store()
        await other.ledger.reserve(make_reservation("a", max_token_amounts(30), tokens=100), 0)
        await expect_error("budget_busy", ledger.reserve(make_reservation("b", max_token_amounts(90), tokens=100), 0))
        await other.close()
        # Near the limit one call alone is granted, even if it may exceed the limit.
        last = await ledger.reserve(make_reservation("b", max_token_amounts(90), tokens=100), 0)
        await ledger.settle(last, Amounts(tokens=70))
        error = await expect_error(
            "budget_busy", ledger.reserve(make_reservation("c", max_token_amounts(1), tokens=100), 0)
        )
        assert "died" in str(error)


async def what_a_dead_one_reserved_is_settled_by_who_takes_over(open_store: Open) -> None:
    """The next holder settles it from the timeline, reserves its key again, or releases it."""
    async with scoped_store(open_store) as store:
        ledger, cap = store.ledger, BudgetCap(scope=TREE, rounds=3, tokens=100)
        other = await open_store()
        await other.ledger.settle(
            await other.ledger.reserve(make_reservation("0", max_token_amounts(1), cap), 0), Amounts(tokens=1)
        )
        for key in "abc":
            await other.ledger.reserve(make_reservation(key, MaxAmounts(rounds=1, tokens=33), cap), 0)
        await other.close()
        await expect_error("budget_spent", ledger.reserve(make_reservation("d", MaxAmounts(rounds=1), cap), 0))
        made, again, given_up = await ledger.unsettled(CONVERSATION)
        assert [each.key for each in (made, again, given_up)] == ["a", "b", "c"]
        await ledger.settle(made, Amounts(rounds=1, tokens=20))
        await ledger.release(given_up)
        renewed = await ledger.reserve(make_reservation("b", MaxAmounts(rounds=1, tokens=33), cap), 0)
        await ledger.settle(again, Amounts(rounds=1, tokens=33))
        await ledger.settle(renewed, Amounts(rounds=1, tokens=10))
        assert await ledger.spent(TREE) == Amounts(rounds=2, tokens=31)
        assert await ledger.unsettled(CONVERSATION) == ()
