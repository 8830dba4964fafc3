"""exec_tools.execute_code_python with the sandbox of this machine: a program does its work and nothing else."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.harness.exec import run_exec
from tests.harness.react_tools import T1, ToolHarness, open_tool_harness
from timeloom.sandbox.local.sandbox import LocalSandbox
from timeloom.sandbox.local.settings import LocalSettings

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    return await open_tool_harness(tmp_path / "out")


@pytest.fixture
async def sandbox() -> AsyncGenerator[LocalSandbox]:
    opened = LocalSandbox(LocalSettings(warm=0))
    yield opened
    await opened.close()


async def test_a_program_reads_calls_and_writes(stage: ToolHarness, sandbox: LocalSandbox) -> None:
    await stage.attach("prices.csv", "text/csv", b"place,price\nSchwebe,31\nDiner,14\n", turn=T1)
    code = """
import csv, os
rows = list(csv.DictReader(open(OUT_DIR / "turn_1/attachments/prices.csv")))
found = await web_tools.web_search("ferries", n=2)
code = context_tools.fetch_ctx(f"tc:{os.environ['EXECUTION_ID']}.code")
total = sum(int(row["price"]) for row in rows)
(OUT_DIR / "turn_1/files/total.md").write_text(f"# Total\\n\\n{total}\\n")
print(os.getuid(), os.getcwd(), found["ret"], code.startswith("\\nimport csv"))
"""
    outcome = await run_exec(stage, code, {"filename": "total.md"}, sandbox=sandbox)
    assert outcome.status == (
        "Succeeded:\n- turn_1/files/total.md\nTools called:\n- web_tools.web_search: 1 call, 1 ok\n"
        "Printed:\n| 1001 /workspace/work {'query': 'ferries', 'n': 2} True"
    )
    assert [(one.path, one.text) for one in outcome.artifacts] == [("fi:turn_1.files/total.md", "# Total\n\n45\n")]
    assert stage.emitted[0][0] == "stdout"


async def test_a_program_reaches_nothing_else(stage: ToolHarness, sandbox: LocalSandbox) -> None:
    secret = stage.out_dir.parent / "secret"
    secret.write_text("the host's")
    code = f"""
import os, socket
def tried(action):
    try:
        return str(action())[:80]
    except Exception as error:
        return type(error).__name__
print(tried(lambda: open({str(secret)!r}).read()))
print(tried(lambda: socket.create_connection(("127.0.0.1", 80), 1)))
print(sorted(name for name in os.environ if name.startswith("TIMELOOM")))
"""
    outcome = await run_exec(stage, code, sandbox=sandbox)
    assert outcome.status is not None
    printed = [line.removeprefix("| ") for line in outcome.status.partition("Printed:\n")[2].splitlines()]
    assert printed[0] == "FileNotFoundError"
    assert printed[1] in {"PermissionError", "OSError", "ConnectionRefusedError"}
    assert printed[2] == "[]"


async def test_time_that_is_over_ends_it_and_what_it_left_is_kept(stage: ToolHarness, sandbox: LocalSandbox) -> None:
    code = "(OUT_DIR / 'turn_1/files/a.md').write_text('# A')\nprint('on', flush=True)\nwhile True: pass"
    outcome = await run_exec(stage, code, {"filename": "a.md"}, sandbox=sandbox, timeout_s=1)
    assert outcome.status == (
        "Runtime error: execution_limit — the program ran longer than 1 s; do less at once, or give a larger "
        "timeout_s (up to 600)\nSucceeded:\n- turn_1/files/a.md\nPrinted:\n| on"
    )


async def test_a_call_that_is_cancelled_ends_its_program(stage: ToolHarness, sandbox: LocalSandbox) -> None:
    running = asyncio.create_task(run_exec(stage, "print('on')\nwhile True: pass", sandbox=sandbox))
    while not stage.emitted:  # noqa: ASYNC110 - the program is another process
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    outcome = await run_exec(stage, "print(1)", sandbox=sandbox)
    assert outcome.error is None
