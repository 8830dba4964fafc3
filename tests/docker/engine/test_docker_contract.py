"""Containers keep the sandbox contract, in both strategies."""

import asyncio
from pathlib import Path

import pytest

from tests.docker.docker_harness import STRATEGIES, Strategy, containers, profile, remaining_files
from timeloom.sandbox.docker import DockerSandbox
from timeloom.testing.sandbox_contract import SANDBOX_CONTRACT, Check


@pytest.mark.parametrize("check", SANDBOX_CONTRACT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_containers_keep_the_contract(check: Check, strategy: Strategy, tmp_path: Path) -> None:
    runs = tmp_path / "runs"

    async def open_sandbox() -> DockerSandbox:
        return DockerSandbox(profile(runs, strategy))

    async def checked() -> list[str]:
        await check(open_sandbox)
        return await containers(runs)

    assert asyncio.run(checked()) == []
    assert remaining_files(runs) == []
