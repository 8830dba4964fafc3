"""The Fargate sandbox keeps the contract that the package ships."""

import asyncio

import pytest

from tests.fargate.fargate_harness import Stage
from timeloom.ports.sandbox import Sandbox
from timeloom.testing.sandbox_contract import SANDBOX_CONTRACT, Check


@pytest.mark.parametrize("check", SANDBOX_CONTRACT, ids=lambda check: check.__name__)
def test_the_fargate_sandbox_keeps_the_contract(check: Check, stage: Stage) -> None:
    async def open_sandbox() -> Sandbox:
        return stage.sandbox()

    asyncio.run(check(open_sandbox))
    assert stage.left() == []
