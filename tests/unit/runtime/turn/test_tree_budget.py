"""A hundred conversations of one tree spend from one budget at once, and exceed it by one call at most."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from tests.harness.replies import answers
from tests.harness.turn import HEADER, TurnHarness, blocks_of, calls, run
from timeloom.app import open_session
from timeloom.core.blocks import ModelAnswered, ModelCalled
from timeloom.core.ids import ConversationId
from timeloom.core.policy.budget import Allowance, Budgets
from timeloom.ports.ledger import scope
from timeloom.ports.store import Store
from timeloom.runtime.governance.costs import model_cost
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite.store import SqliteStore

CHILDREN = 100
LOOKS = 3


async def child(
    store: Store, parent: ConversationId, tmp_path: Path, budgets: Budgets
) -> tuple[str, TurnRunner, TurnHarness]:
    stage = TurnHarness(tmp_path, *(calls("t.look") for _ in range(LOOKS)), answers("seen"))
    stage.setting = replace(stage.setting, budgets=budgets)
    turns = await stage.open(await open_session(store, None, replace(HEADER, parent=parent)))
    return await turns.run("look around"), turns, stage


async def spent_by(children: list[tuple[str, TurnRunner, TurnHarness]]) -> tuple[Counter[str], int]:
    """Return the amounts spent according to the timelines, and the tokens of the largest call."""
    spent, largest = Counter[str](), 0
    for _, turns, stage in children:
        blocks = await blocks_of(turns)
        costs = [model_cost(block.usage, rounds=0).tokens for block in blocks if isinstance(block, ModelAnswered)]
        spent["tokens"] += sum(costs)
        spent["rounds"] += len([block for block in blocks if isinstance(block, ModelCalled)])
        spent["tool_calls"] += len(stage.effects)
        largest = max(largest, *costs, 0)
    return spent, largest


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize(
    ("measure", "limit"), [("tool_calls", 120), ("rounds", 150), ("tokens", 400_000)], ids=["calls", "rounds", "tokens"]
)
def test_a_tree_is_overspent_by_one_call_at_most(
    tmp_path: Path, kind: str, measure: Literal["tool_calls", "rounds", "tokens"], limit: int
) -> None:
    async def check() -> None:
        store: Store = MemoryStore() if kind == "memory" else await SqliteStore.open(tmp_path / "data")
        budgets = Budgets(tree=Allowance(**{measure: limit}))
        root = await open_session(store, None, HEADER)
        children = await asyncio.gather(*(child(store, root.conversation, tmp_path, budgets) for _ in range(CHILDREN)))
        spent, largest = await spent_by(children)
        settled = await store.ledger.spent(scope("tree", root.conversation))
        assert getattr(settled, measure) == spent[measure]
        if measure == "tokens":
            assert limit <= spent["tokens"] < limit + largest
        else:
            assert spent[measure] == limit
        ends = Counter(ending for ending, _, _ in children)
        assert ends.keys() <= {"completed", "budget_exhausted"}
        await store.close()

    run(check)
