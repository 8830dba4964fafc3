"""Fixtures of the golden examples."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.golden.example_harness import Stage
from timeloom.stores.sqlite import SqliteStore


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    """Return a harness on a new SQLite store."""
    async with await SqliteStore.open(tmp_path / "data") as store:
        yield Stage(store, tmp_path)
