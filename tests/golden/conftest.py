"""Fixtures of the golden examples."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.golden.example_harness import ExampleHarness
from timeloom.stores.sqlite import SqliteStore


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[ExampleHarness]:
    """Return a harness on a new SQLite store."""
    async with await SqliteStore.open(tmp_path / "data") as store:
        yield ExampleHarness(store, tmp_path)
