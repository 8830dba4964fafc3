"""The program of a call is loaded without the escapes of the prompt's edition."""

from pathlib import Path

import pytest

from tests.harness.exec import make_exec_context
from tests.harness.react_tools import T1, open_tool_harness
from timeloom.core.blocks import TurnStarted
from timeloom.tools.exec.code import load_code

pytestmark = pytest.mark.anyio

CODE = "rows = [\n    ~[1, 2],\n]\nprint('<~channel:x>')"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("edition", "loaded"),
    [
        (1, "rows = [\n    ~[1, 2],\n]\nprint('<channel:x>')"),
        (2, "rows = [\n    [1, 2],\n]\nprint('<channel:x>')"),
    ],
)
async def test_a_program_is_loaded_without_copied_escapes(tmp_path: Path, edition: int, loaded: str) -> None:
    stage = await open_tool_harness(tmp_path / "out")
    await stage.append(TurnStarted(n=1, edition=edition), turn=T1)
    assert await load_code(await make_exec_context(stage, CODE), 1_000) == loaded
