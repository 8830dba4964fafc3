"""Fixtures of the escape suite: one harness per sandbox kind."""

import asyncio
import os
from collections.abc import Generator

import pytest

from tests.escape.escape_harness import BACKENDS, SECRET, EscapeHarness


@pytest.fixture(scope="session", params=BACKENDS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[EscapeHarness]:
    """Return one sandbox for all tests: that it survives all of them is part of the test."""
    folder = tmp_path_factory.mktemp("escape")
    outside = folder / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET, encoding="ascii")
    os.environ["ESCAPE_CANARY"] = SECRET
    with asyncio.Runner() as runner:
        sandbox = BACKENDS[request.param](folder / "runs")
        runner.run(sandbox.check())
        yield EscapeHarness(sandbox, runner, outside)
        runner.run(sandbox.close())
    del os.environ["ESCAPE_CANARY"]
    assert [path.name for path in (folder / "runs").iterdir()] == []
