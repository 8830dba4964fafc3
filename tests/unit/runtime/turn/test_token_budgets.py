"""Budgets of tokens count every kind of token that a model reads or writes."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.harness.replies import answers
from tests.harness.turn import TurnHarness, blocks_of, calls, run
from timeloom.core.blocks import ModelCalled, TurnEnded
from timeloom.core.policy.budget import Allowance, Budgets

KINDS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")


@pytest.mark.parametrize("scope", ["turn", "conversation", "user"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("spent", "requests"), [(1_000_000, 1), (999_999, 2)], ids=["used up", "one left"])
def test_a_budget_counts_tokens_of_each_kind(tmp_path: Path, scope: str, kind: str, spent: int, requests: int) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, {"reply": calls("t.look"), "usage": {kind: spent}}, answers())
        budgets = replace(Budgets(), **{scope: Allowance(tokens=1_000_000)})
        stage.setting = replace(stage.setting, budgets=budgets)
        turns = await stage.open()
        await turns.run("go")
        blocks = await blocks_of(turns)
        assert sum(isinstance(block, ModelCalled) for block in blocks) == requests
        (end,) = [block for block in blocks if isinstance(block, TurnEnded)]
        assert end.reason == ("budget_exhausted" if requests == 1 else "completed")

    run(check)
