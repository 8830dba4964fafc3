"""Programs in containers call the tools of a bundle, and find none of its secrets."""

import asyncio
from pathlib import Path

import pytest

from tests.docker.docker_harness import STRATEGIES, Strategy, profile
from tests.harness.bundle_programs import check_bundle_programs
from timeloom.sandbox.docker import DockerSandbox


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_programs_in_containers_call_the_tools_of_a_bundle(
    tmp_path: Path, strategy: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = DockerSandbox(profile(tmp_path / "runs", strategy, warm=1))
    asyncio.run(check_bundle_programs(tmp_path, sandbox, monkeypatch))
