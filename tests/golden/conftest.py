"""Where the examples are played."""

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
    """A stage on a store of its own."""
    async with await SqliteStore.open(tmp_path / "data") as store:
        yield Stage(store, tmp_path)
