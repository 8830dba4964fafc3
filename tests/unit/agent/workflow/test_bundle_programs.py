"""Programs call the tools of a bundle, which know their bundle and their turn."""

from pathlib import Path

import pytest

from tests.harness.bundle_programs import check_bundle_programs
from tests.harness.exec import PlainSandbox
from tests.harness.turn import run


def test_a_program_without_isolation_calls_the_tools_of_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(lambda: check_bundle_programs(tmp_path, PlainSandbox(), monkeypatch, isolated=False))
