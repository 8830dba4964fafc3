"""A program for the tests to kill: conversations of one tree that spend from one budget until it is exhausted."""

import asyncio
import os
import random
import sys
from pathlib import Path
from typing import Final

from timeloom.core.blocks import ConversationStarted
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.ports.ledger import Amounts, BudgetCap, BudgetSpentError, MaxAmounts, Reservation, scope
from timeloom.ports.reader import ConversationUnknownError
from timeloom.stores.sqlite import SqliteStore

TREE: Final = scope("tree", "conv_root")
LIMIT: Final = 60_000
LARGEST: Final = 1_000
CONVERSATIONS: Final = 25

Effects = dict[str, int]
"""The external cost of each call by its key, as a provider would bill it."""


def read_effects(file: Path) -> Effects:
    """Return the bill so far, in the order of the calls."""
    lines = file.read_text().splitlines() if file.exists() else []
    effects = {key: int(cost) for key, cost in (line.split(" ") for line in lines)}
    assert len(effects) == len(lines), "a call was made twice"
    return effects


async def main(folder: str, process: int, seed: int) -> None:
    """Spend the budget; print when ready and when done."""
    chance = random.Random(seed)
    bill = Path(folder) / "bill"
    names = [ConversationId(f"conv_{process}_{n}") for n in range(CONVERSATIONS)]
    async with await SqliteStore.open(Path(folder) / "data", lock_wait_s=60) as store:
        print("ready", flush=True)
        await asyncio.gather(*(converse(store, name, bill, chance) for name in names))
    print("done", flush=True)


async def converse(store: SqliteStore, name: ConversationId, bill: Path, chance: random.Random) -> None:
    """Take the conversation over, settle its open reservations, and spend."""
    header = ConversationStarted(tenant="t", project="p", user="u", parent=ConversationId("conv_root"))
    try:
        await store.info(name)
    except ConversationUnknownError:
        await store.append(name, 0, [Draft(NO_TURN, "2026-02-09T02:14:32.676425Z", header)])
    await store.acquire(name, "spender")
    effects = read_effects(bill)
    for left in await store.ledger.unsettled(name):
        if left.key in effects:
            await store.ledger.settle(left, amounts(effects[left.key]))
        else:
            await store.ledger.release(left)
    calls = sum(key.startswith(f"{name}/") for key in effects)
    while True:
        key = f"{name}/{calls}"
        most, cap = MaxAmounts(tokens=LARGEST, wall_ms=LARGEST), BudgetCap(scope=TREE, tokens=LIMIT, wall_ms=LIMIT)
        try:
            reserved = await store.ledger.reserve(
                Reservation(key=key, conversation=name, most=most, caps=(cap,)), wait_s=120
            )
        except BudgetSpentError:
            return
        await asyncio.sleep(chance.random() / 500)
        cost = chance.randint(1, LARGEST)
        charge(bill, key, cost)
        calls += 1
        await asyncio.sleep(chance.random() / 500)
        await store.ledger.settle(reserved, amounts(cost))


def amounts(cost: int) -> Amounts:
    """Return the amounts of a call of that cost: as many tokens as milliseconds."""
    return Amounts(tokens=cost, wall_ms=cost)


def charge(bill: Path, key: str, cost: int) -> None:
    """Append to the bill in one write, which a kill cannot tear."""
    descriptor = os.open(bill, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{key} {cost}\n".encode())
    os.close(descriptor)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
