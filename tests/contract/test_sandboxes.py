"""Every sandbox of the package keeps the contract that the package ships."""

import asyncio
from pathlib import Path

import pytest

from tests.harness.bundle_programs import check_bundle_programs
from timeloom.sandbox.local import LocalSandbox, LocalSettings
from timeloom.testing.sandbox_contract import SANDBOX_CONTRACT, Check

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("check", SANDBOX_CONTRACT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("cgroups", [True, False], ids=["groups", "watchdog"])
def test_the_local_sandbox_keeps_the_contract(check: Check, cgroups: bool, tmp_path: Path) -> None:
    """With the kernel's control groups where they can be had, and with the watchdog alone."""
    settings = LocalSettings(folder=tmp_path, warm=0, cgroups=cgroups)

    async def open_sandbox() -> LocalSandbox:
        return LocalSandbox(settings)

    asyncio.run(check(open_sandbox))
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_programs_in_the_local_sandbox_call_the_tools_of_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a waiting interpreter, whose tasks began before the turn: its calls still know the bundle."""
    settings = LocalSettings(folder=tmp_path / "runs", warm=1)
    asyncio.run(check_bundle_programs(tmp_path, LocalSandbox(settings), monkeypatch))
