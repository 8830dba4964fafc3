"""Checks that reservations are granted, settled and released correctly in sequence."""

from timeloom.core.ids import ConversationId
from timeloom.core.policy.budget import MEASURES
from timeloom.ports.ledger import MAX_AMOUNT, Amounts, BudgetCap, BudgetSpentError, MaxAmounts, scope
from timeloom.testing.ledger_contract.fixtures import (
    CONVERSATION,
    TREE,
    USER,
    Open,
    cap_on,
    expect_error,
    make_reservation,
    max_amounts_of,
    max_token_amounts,
    scoped_store,
)
from timeloom.testing.store_contract.fixtures import header


async def a_reservation_is_granted_in_all_scopes_or_in_none(open_store: Open) -> None:
    """A refusal in one scope reserves nothing in the others."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        one = MaxAmounts(rounds=1)
        both = (BudgetCap(scope=TREE, rounds=5), BudgetCap(scope=USER, rounds=1))
        first = await ledger.reserve(make_reservation("a", one, *both), 0)
        assert (first.key, first.conversation, set(first.scopes)) == ("a", CONVERSATION, {TREE, USER})
        error = await expect_error("budget_spent", ledger.reserve(make_reservation("b", one, *both), 0))
        assert isinstance(error, BudgetSpentError)
        assert (error.scope, error.measure, error.limit, error.used) == (USER, "rounds", 1, 1)
        assert await ledger.unsettled(CONVERSATION) == (first,)
        for n in range(4):
            await ledger.reserve(make_reservation(f"tree {n}", one, both[0]), 0)
        await expect_error("budget_spent", ledger.reserve(make_reservation("tree 5", one, both[0]), 0))


async def what_is_settled_counts_once(open_store: Open) -> None:
    """A settlement counts once in each scope, even if it is repeated."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        caps = (BudgetCap(scope=TREE, tokens=100), BudgetCap(scope=USER, cost_nano_usd=100))
        reserved = await ledger.reserve(
            make_reservation("a", MaxAmounts(rounds=1, tokens=50, cost_nano_usd=7, wall_ms=60), *caps), 0
        )
        assert await ledger.spent(TREE) == Amounts()
        actual = Amounts(rounds=1, tokens=30, cost_nano_usd=5, tool_calls=3, wall_ms=44)
        for _ in range(2):
            await ledger.settle(reserved, actual)
        await ledger.release(reserved)
        assert await ledger.spent(TREE) == await ledger.spent(USER) == actual
        assert await ledger.unsettled(CONVERSATION) == ()
        await ledger.settle(
            await ledger.reserve(make_reservation("b", max_token_amounts(70), *caps), 0), Amounts(tokens=70)
        )
        assert (await ledger.spent(TREE)).tokens == 100
        await expect_error("budget_spent", ledger.reserve(make_reservation("c", max_token_amounts(1), *caps), 0))


async def every_measure_has_a_limit_of_its_own(open_store: Open) -> None:
    """A spent measure refuses only calls that use this measure."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        for measure in MEASURES:
            most, cap = max_amounts_of(measure, 9), cap_on(measure, 9)
            reserved = await ledger.reserve(make_reservation("a", most, cap), 0)
            assert await ledger.unsettled(CONVERSATION) == (reserved,)
            await ledger.settle(reserved, most.presumed_amounts)
            error = await expect_error("budget_spent", ledger.reserve(make_reservation("a", most, cap), 0))
            assert isinstance(error, BudgetSpentError)
            assert (error.scope, error.measure, error.limit, error.used) == (TREE, measure, 9, 9)
            for other in MEASURES:
                if other != measure:
                    await ledger.release(await ledger.reserve(make_reservation("a", max_amounts_of(other, 9), cap), 0))


async def what_is_released_is_given_back(open_store: Open) -> None:
    """A released reservation frees its amount and cannot be settled afterwards."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        most, cap = MaxAmounts(rounds=1, tool_calls=2), BudgetCap(scope=TREE, rounds=1, tool_calls=2)
        for _ in range(2):
            reserved = await ledger.reserve(make_reservation("a", most, cap), 0)
            await expect_error("budget_spent", ledger.reserve(make_reservation("b", MaxAmounts(tool_calls=1), cap), 0))
            await ledger.release(reserved)
            await ledger.settle(reserved, Amounts(rounds=1))
        assert await ledger.spent(TREE) == Amounts()


async def a_key_is_reserved_once(open_store: Open) -> None:
    """Reserving a key again replaces the earlier grant, which can no longer be settled."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        cap, wide = BudgetCap(scope=TREE, rounds=1, tokens=10), BudgetCap(scope=USER, rounds=1)
        old = await ledger.reserve(make_reservation("a", MaxAmounts(rounds=1, tokens=None), cap, wide), 0)
        new = await ledger.reserve(make_reservation("a", MaxAmounts(rounds=1, tokens=9), cap), 0)
        assert await ledger.unsettled(CONVERSATION) == (new,)
        await ledger.settle(old, Amounts(rounds=1, tokens=9))
        await ledger.release(old)
        assert await ledger.spent(TREE) == Amounts()
        await ledger.settle(new, Amounts(rounds=1, tokens=4))
        assert await ledger.spent(TREE) == Amounts(rounds=1, tokens=4)
        assert await ledger.spent(USER) == Amounts()


async def a_scope_without_a_limit_is_counted(open_store: Open) -> None:
    """Costs are counted without a limit too; an unknown scope has spent nothing."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        cap = BudgetCap(scope=TREE)
        held = [
            await ledger.reserve(make_reservation(f"{n}", MaxAmounts(rounds=1, tokens=None), cap), 0) for n in range(9)
        ]
        for each in held:
            await ledger.settle(each, Amounts(rounds=1, tokens=3))
        assert await ledger.spent(TREE) == Amounts(rounds=9, tokens=27)
        assert await ledger.spent("tree:unheard\ud800of") == Amounts()


async def the_first_call_of_a_scope_is_made_by_itself(open_store: Open) -> None:
    """The cost of a first settled call is needed to judge the estimates of parallel calls."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        first = await ledger.reserve(make_reservation("a", max_token_amounts(1), tokens=1000), 0)
        await expect_error("budget_busy", ledger.reserve(make_reservation("b", max_token_amounts(1), tokens=1000), 0))
        await ledger.settle(first, Amounts())
        for key in "bcd":
            await ledger.reserve(make_reservation(key, max_token_amounts(1), tokens=1000), 0)


async def calls_in_flight_fit_under_the_limit_together_or_there_is_one(open_store: Open) -> None:
    """Promise 2 of the ledger, step by step."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        await ledger.settle(
            await ledger.reserve(make_reservation("a", max_token_amounts(10), tokens=100), 0), Amounts(tokens=1)
        )
        held = [await ledger.reserve(make_reservation(key, max_token_amounts(33), tokens=100), 0) for key in "bcd"]
        # 1 is spent and 99 are reserved, so no call fits.
        await expect_error("budget_busy", ledger.reserve(make_reservation("e", max_token_amounts(1), tokens=100), 0))
        for each in held:
            await ledger.settle(each, Amounts(tokens=32))
        # 97 are spent. A call that may need more than the rest is made alone, and it may overspend.
        last = await ledger.reserve(make_reservation("e", max_token_amounts(50), tokens=100), 0)
        await expect_error("budget_busy", ledger.reserve(make_reservation("f", max_token_amounts(1), tokens=100), 0))
        await ledger.settle(last, Amounts(tokens=2))
        await ledger.settle(
            await ledger.reserve(make_reservation("f", max_token_amounts(50), tokens=100), 0), Amounts(tokens=40)
        )
        assert (await ledger.spent(TREE)).tokens == 139
        await expect_error("budget_spent", ledger.reserve(make_reservation("g", max_token_amounts(1), tokens=100), 0))


async def the_largest_call_of_a_scope_counts_where_less_was_said(open_store: Open) -> None:
    """A call counts at least as much as the largest settled call of its scope."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        await ledger.settle(
            await ledger.reserve(make_reservation("a", max_token_amounts(1), tokens=100), 0), Amounts(tokens=40)
        )
        await ledger.reserve(make_reservation("b", max_token_amounts(1), tokens=100), 0)
        await expect_error("budget_busy", ledger.reserve(make_reservation("c", max_token_amounts(1), tokens=100), 0))


async def a_call_of_unknown_cost_is_made_by_itself(open_store: Open) -> None:
    """Also if plenty of budget is left, and also if another call is in flight already."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        await ledger.settle(
            await ledger.reserve(make_reservation("a", max_token_amounts(1), tokens=10**9), 0), Amounts(tokens=1)
        )
        unknown = await ledger.reserve(make_reservation("b", max_token_amounts(None), tokens=10**9), 0)
        await expect_error("budget_busy", ledger.reserve(make_reservation("c", max_token_amounts(1), tokens=10**9), 0))
        await ledger.settle(unknown, Amounts(tokens=1))
        await ledger.reserve(make_reservation("c", max_token_amounts(1), tokens=10**9), 0)
        await expect_error(
            "budget_busy", ledger.reserve(make_reservation("d", max_token_amounts(None), tokens=10**9), 0)
        )


async def a_call_is_held_up_only_by_what_it_takes(open_store: Open) -> None:
    """A call waits only for measures that it uses, so a tool runs while a model call uses tokens."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        cap = BudgetCap(scope=TREE, tokens=5, cost_nano_usd=5, wall_ms=5, rounds=1, tool_calls=9)
        tool = await ledger.reserve(make_reservation("t", MaxAmounts(tool_calls=1), cap), 0)
        model = await ledger.reserve(
            make_reservation("m", MaxAmounts(rounds=1, tokens=9, cost_nano_usd=None, wall_ms=9), cap), 0
        )
        await ledger.reserve(make_reservation("u", MaxAmounts(tool_calls=1), cap), 0)
        await expect_error(
            "budget_busy", ledger.reserve(make_reservation("w", MaxAmounts(tool_calls=1, wall_ms=1), cap), 0)
        )
        await ledger.settle(model, Amounts(rounds=1, tokens=9, cost_nano_usd=9, wall_ms=9))
        await expect_error("budget_spent", ledger.reserve(make_reservation("n", MaxAmounts(tokens=1), cap), 0))
        await expect_error("budget_spent", ledger.reserve(make_reservation("n", MaxAmounts(cost_nano_usd=1), cap), 0))
        await expect_error("budget_spent", ledger.reserve(make_reservation("n", MaxAmounts(rounds=1), cap), 0))
        await expect_error(
            "budget_spent", ledger.reserve(make_reservation("n", MaxAmounts(tool_calls=1, wall_ms=1), cap), 0)
        )
        await ledger.settle(tool, Amounts(tool_calls=1))
        await ledger.reserve(make_reservation("v", MaxAmounts(tool_calls=7), cap), 0)


async def rounds_and_tool_calls_are_never_overspent(open_store: Open) -> None:
    """Reserved rounds and tool calls count as spent, because their cost is known before the call."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        cap = BudgetCap(scope=TREE, rounds=3, tool_calls=2)
        for key in "abc":
            await ledger.reserve(make_reservation(key, MaxAmounts(rounds=1), cap), 0)
        await expect_error("budget_spent", ledger.reserve(make_reservation("d", MaxAmounts(rounds=1), cap), 600))
        await expect_error("budget_spent", ledger.reserve(make_reservation("d", MaxAmounts(tool_calls=3), cap), 600))
        await ledger.reserve(make_reservation("d", MaxAmounts(tool_calls=2), cap), 0)
        # A call that uses nothing is never refused.
        await ledger.reserve(make_reservation("e", MaxAmounts(), BudgetCap(scope=USER, rounds=0, tokens=0), cap), 0)


async def sums_stop_where_numbers_end(open_store: Open) -> None:
    """Sums are capped at `MAX_AMOUNT`, because providers may report any number."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        everything = Amounts(**dict.fromkeys(MEASURES, MAX_AMOUNT))
        for key in "abc":
            await ledger.settle(await ledger.reserve(make_reservation(key, max_token_amounts(1)), 0), everything)
        assert await ledger.spent(TREE) == everything


async def a_deleted_conversation_leaves_only_what_others_share(open_store: Open) -> None:
    """Open reservations of a deleted conversation are charged in full to shared scopes."""
    async with scoped_store(open_store) as store:
        ledger = store.ledger
        other = ConversationId(f"{CONVERSATION}0")
        for name in (CONVERSATION, other):
            await store.append(name, 0, [header()])
            own = (scope("conversation", name), scope("turn", name, "turn_1"), scope("turn", name, "turn_2"))
            caps = [BudgetCap(scope=each) for each in (*own, TREE)]
            settled = await ledger.reserve(
                make_reservation(f"{name}/1", max_token_amounts(9), *caps, conversation=name), 0
            )
            await ledger.settle(settled, Amounts(tokens=5))
            most = MaxAmounts(rounds=1, tokens=9, cost_nano_usd=None, tool_calls=1, wall_ms=60)
            await ledger.reserve(make_reservation(f"{name}/2", most, *caps, conversation=name), 0)
        await store.delete(CONVERSATION)
        assert await ledger.unsettled(CONVERSATION) == ()
        assert len(await ledger.unsettled(other)) == 1
        assert await ledger.spent(TREE) == Amounts(rounds=1, tokens=19, tool_calls=1, wall_ms=60)
        for turn in ("turn_1", "turn_2"):
            assert await ledger.spent(scope("turn", CONVERSATION, turn)) == Amounts()
            assert (await ledger.spent(scope("turn", other, turn))).tokens == 5
        assert await ledger.spent(scope("conversation", CONVERSATION)) == Amounts()
        assert (await ledger.spent(scope("conversation", other))).tokens == 5
