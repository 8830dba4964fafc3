"""The Fargate sandbox keeps the contract that the package ships."""

import asyncio

import pytest

from tests.fargate.fargate_harness import FargateHarness
from timeloom.ports.sandbox import Sandbox
from timeloom.testing.sandbox_contract import SANDBOX_CONTRACT, Check


@pytest.mark.parametrize("check", SANDBOX_CONTRACT, ids=lambda check: check.__name__)
def test_the_fargate_sandbox_keeps_the_contract(check: Check, stage: FargateHarness) -> None:
    async def open_sandbox() -> Sandbox:
        return stage.sandbox()

    asyncio.run(check(open_sandbox))
    assert stage.remaining_resources() == []
