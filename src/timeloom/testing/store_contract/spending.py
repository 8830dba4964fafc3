"""Checks that a store sums up what model calls cost, by day, user, model and conversation."""

from msgspec.structs import replace

from timeloom.core.blocks import ConversationStarted, ForkPoint, ModelAnswered, Usage
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.ports.spend import SpendQuery, SpendRow, SpendSums
from timeloom.testing.store_contract.fixtures import (
    CONVERSATION,
    TURN,
    Open,
    expect_error,
    header,
    scoped_store,
)

_OTHER = ConversationId("conv_b")


def _answer(day: int, model: str, cost: int, *, priced: bool = True) -> Draft:
    usage = Usage(
        input_tokens=10, cache_read_tokens=3, cache_write_tokens=2, output_tokens=5, cost_nano_usd=cost if priced else 0
    )
    block = ModelAnswered(round=1, model=model, stop_reason="end", usage=usage, priced=priced)
    return Draft(TURN, f"2026-02-{day:02}T23:59:59.000000Z", block)


async def costs_are_summed_by_day_user_model_and_conversation(open_store: Open) -> None:
    """Owners, days and models are kept apart, also over several appends; an unknown cost is counted."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header(), _answer(1, "m1", 100), _answer(1, "m1", 50)])
        await store.append(CONVERSATION, 3, [_answer(1, "m1", 7)])
        await store.append(CONVERSATION, 4, [_answer(2, "m2", 0, priced=False)])
        await store.append(_OTHER, 0, [header(user="other"), _answer(2, "m1", 1000)])
        await store.append(ConversationId("conv_c"), 0, [header(tenant="else"), _answer(2, "m1", 9)])
        query = SpendQuery(tenant="tenant", project="project", by=("day", "model", "conversation"))
        page = await store.read_spend(query)
        assert [(row.day, row.model, row.conversation, row.calls, row.cost_nano_usd) for row in page.rows] == [
            ("2026-02-01", "m1", CONVERSATION, 3, 157),
            ("2026-02-02", "m1", _OTHER, 1, 1000),
            ("2026-02-02", "m2", CONVERSATION, 1, 0),
        ]
        assert page.total == SpendSums(
            calls=5,
            unknown_costs=1,
            input_tokens=50,
            cache_read_tokens=15,
            cache_write_tokens=10,
            output_tokens=25,
            cost_nano_usd=1157,
        )
        by_user = await store.read_spend(SpendQuery(tenant="tenant", since="2026-02-02", by=("user",)))
        assert [(row.user, row.calls) for row in by_user.rows] == [("other", 1), ("user", 1)]
        first_day = await store.read_spend(SpendQuery(tenant="tenant", until="2026-02-02", user="user"))
        assert (first_day.rows, first_day.total.cost_nano_usd) == ((), 157)
        assert (await store.read_spend(SpendQuery(by=("day",)))).total.calls == 6
        assert await store.read_spend(SpendQuery(tenant="none", by=("day",))) == replace(
            page, rows=(), total=SpendSums(), cursor=""
        )
        assert (await store.verify()).findings == ()


async def a_bill_comes_in_pages_with_the_total_of_all(open_store: Open) -> None:
    """Each row is on exactly one page; sums of any size do not overflow."""
    async with scoped_store(open_store) as store:
        answers = [_answer(day, f"m{day % 3}", 2**53 - 1) for day in range(1, 8)]
        await store.append(CONVERSATION, 0, [header(), *answers, *answers])
        found: list[SpendRow] = []
        query = SpendQuery(tenant="tenant", by=("model", "day"), limit=2)
        while True:
            page = await store.read_spend(query)
            found += page.rows
            assert page.total.cost_nano_usd == 2**53
            if not page.cursor:
                break
            query = replace(query, cursor=page.cursor)
        days = sorted((f"m{day % 3}", f"2026-02-{day:02}") for day in range(1, 8))
        assert [(row.model, row.day) for row in found] == days
        for cursor in ("x", "5b5d", "ff"):
            await expect_error("cursor_malformed", store.read_spend(replace(query, cursor=cursor)))
        assert (await store.verify()).findings == ()


async def a_fork_copies_no_costs_and_a_delete_keeps_them_without_the_conversation(open_store: Open) -> None:
    """Every call counts exactly once, in the conversation that made it."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header(), _answer(1, "m", 100)])
        point = ForkPoint(CONVERSATION, 2)
        started = ConversationStarted(
            tenant="tenant", project="project", user="user", parent=CONVERSATION, forked_from=point
        )
        fork = Draft(NO_TURN, header().ts, started)
        await store.append(_OTHER, 0, [fork, _answer(1, "m", 100), _answer(1, "m", 5)])
        query = SpendQuery(tenant="tenant", by=("conversation",))
        costs = {row.conversation: row.cost_nano_usd for row in (await store.read_spend(query)).rows}
        assert costs == {CONVERSATION: 100, _OTHER: 5}
        await store.delete(CONVERSATION)
        await store.delete(_OTHER)
        page = await store.read_spend(query)
        assert [(row.conversation, row.calls, row.cost_nano_usd) for row in page.rows] == [("", 2, 105)]
        assert (await store.verify()).findings == ()
