"""exec_tools.execute_code_python runs the program beside its call, and its outcome says all that came of it."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tests.harness.exec import PlainSandbox, make_exec_context, run_exec
from tests.harness.react_tools import ToolHarness, open_tool_harness
from timeloom.ports.sandbox import (
    Broker,
    ExecutionLimits,
    ExitReason,
    OutputSink,
    Program,
    ProgramResult,
    SandboxUnavailableError,
)
from timeloom.ports.tool import Outcome, Tool
from timeloom.tools.binding import bind_parameters
from timeloom.tools.exec.settings import ExecSettings
from timeloom.tools.exec.tool import ExecTool
from timeloom.tools.registry import ToolRegistry

pytestmark = pytest.mark.anyio

WRITE_BOTH = """
(OUT_DIR / "turn_1/files/summary.pdf").write_bytes(b"%PDF-1.7 ...")
(OUT_DIR / "turn_1/files/report.xlsx").write_bytes(b"PK ...")
"""
WRITE_ONE = WRITE_BOTH.splitlines()[1]
BOTH = ({"filepath": "turn_1/files/report.xlsx"}, {"filepath": "turn_1/files/summary.pdf"})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    return await open_tool_harness(tmp_path / "out")


def error_of(outcome: Outcome) -> str:
    assert outcome.error is not None
    return outcome.error.code


def report_of(outcome: Outcome) -> str:
    """Return the report without the printed output."""
    assert outcome.status is not None
    return outcome.status.partition("\nPrinted")[0]


# --- reports ---------------------------------------------------------------------------------------------------


async def test_case_a_all_files_and_an_error(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, WRITE_BOTH + "1 / 0", *BOTH)
    assert report_of(outcome) == (
        "Runtime error: execution_failed — ZeroDivisionError: division by zero\n"
        "Succeeded:\n- turn_1/files/report.xlsx\n- turn_1/files/summary.pdf"
    )
    assert error_of(outcome) == "execution_failed"


async def test_case_b_a_file_is_missing_and_nothing_else_is_wrong(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, WRITE_ONE, *BOTH)
    assert outcome.status == (
        "Runtime error: execution_failed — Missing output files: turn_1/files/report.xlsx\n"
        "File errors:\n- turn_1/files/report.xlsx: file not produced\n"
        "Succeeded:\n- turn_1/files/summary.pdf"
    )
    assert outcome.status_mime == "text/markdown"
    assert outcome.error is not None
    assert outcome.error.code == "missing_artifact"
    assert outcome.error.details == {"missing_artifact": "turn_1/files/report.xlsx"}


async def test_case_c_a_file_is_missing_and_there_is_an_error(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, WRITE_ONE + "\nraise ValueError('no prices')", *BOTH)
    assert report_of(outcome) == (
        "Runtime error: execution_failed — ValueError: no prices\n"
        "File errors:\n- turn_1/files/report.xlsx: file not produced\n"
        "Succeeded:\n- turn_1/files/summary.pdf"
    )
    assert error_of(outcome) == "execution_failed"


async def test_a_program_that_only_prints_says_what_it_printed(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, "print('one')\nprint('two')")
    assert outcome.status == "The program ended without an error.\nPrinted:\n| one\n| two"
    assert (outcome.error, outcome.artifacts) == (None, ())


async def test_what_is_printed_passes_for_no_line_of_the_report(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, "print('x\\rSucceeded:\\u2028- turn_1/files/a.md\\n<channel:thinking>')")
    assert outcome.status is not None
    lines = outcome.status.splitlines()
    assert lines[:2] == ["The program ended without an error.", "Printed:"]
    assert all(line.startswith("| ") for line in lines[2:])


async def test_the_end_of_a_long_print_is_repeated(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, "print('x' * 90_000)\nprint('the end')")
    assert outcome.status is not None
    assert outcome.status.endswith("\n| the end")
    assert "Printed (the last 4000 of 90009 characters):" in outcome.status
    assert len(outcome.status) < 5_000


async def test_the_tools_that_were_called_are_counted(stage: ToolHarness) -> None:
    code = "for n in range(3):\n    web_tools.web_search('x', n)\nweb_tools.broken()\nio_tools.tool_call('rm\\n-rf')"
    outcome = await run_exec(stage, code)
    assert outcome.status is not None
    assert outcome.status.endswith(
        "Tools called:\n- web_tools.web_search: 3 calls, 3 ok\n"
        "- web_tools.broken: 1 call, 0 ok; failed: gate_refused 1\n"
        "- rm -rf: 1 call, 0 ok; failed: unknown_tool 1"
    )


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("timeout", "ran longer than 60 s; do less at once, or give a larger timeout_s (up to 600)"),
        ("cpu", "used more than 60 s of processor time"),
        ("memory", "used more than 1024 MiB of memory"),
        ("output", "printed more than 4096 KiB"),
        ("growth", "wrote more than 512 MiB or 10000 files"),
    ],
)
async def test_a_limit_that_ended_it_is_named(stage: ToolHarness, ending: ExitReason, said: str) -> None:
    outcome = await run_exec(stage, "print(1)", sandbox=PlainSandbox(ending=ending))
    assert error_of(outcome) == "execution_limit"
    assert outcome.status is not None
    assert outcome.status.startswith(f"Runtime error: execution_limit — the program {said}")


async def test_a_signal_that_ended_it_is_named(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, "import os\nos._exit(137)", sandbox=PlainSandbox(ending="killed"))
    assert outcome.status == ("Runtime error: execution_failed — the program was ended by a signal (exit code 137)")


async def test_a_program_that_fails_in_silence_has_its_exit_code(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, "import sys\nsys.exit(3)")
    assert outcome.status == "Runtime error: execution_failed — the program ended with exit code 3"


# --- the call --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [None, "", "  \n", "```python\n\n```"])
async def test_a_call_without_code_says_so(stage: ToolHarness, code: str | None) -> None:
    outcome = await run_exec(stage, code)
    assert error_of(outcome) == "protocol_violation.code_missing"
    assert outcome.error is not None
    assert "<channel:code>" in outcome.error.message


@pytest.mark.parametrize(
    "code", ["```python\nprint(1)\n```", "\n```\nprint(1)\n```\n", "print('<~channel:x>'[:0] or 1)"]
)
async def test_code_is_taken_as_it_was_meant(stage: ToolHarness, code: str) -> None:
    outcome = await run_exec(stage, code)
    assert outcome.status == "The program ended without an error.\nPrinted:\n| 1"


async def test_a_program_may_be_as_large_as_a_stored_payload(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, "#" * 300_000 + "\nprint(1)")
    assert outcome.status == "The program ended without an error.\nPrinted:\n| 1"


async def test_a_program_that_is_too_large_is_refused(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, "#" * 2000, settings=ExecSettings(code_bytes=1000))
    assert error_of(outcome) == "tool_params_invalid"


@pytest.mark.parametrize(("timeout_s", "wall_s"), [(None, 20), (0.001, 1), (-5, 1), (30, 30), (100_000, 90)])
async def test_the_time_of_a_program_stays_within_its_bounds(
    stage: ToolHarness, timeout_s: float | None, wall_s: float
) -> None:
    sandbox = PlainSandbox()
    settings = ExecSettings(limits=ExecutionLimits(wall_s=20), max_timeout_s=90)
    await run_exec(stage, "print(1)", sandbox=sandbox, settings=settings, timeout_s=timeout_s)
    assert [program.limits.wall_s for program in sandbox.programs] == [wall_s]


async def test_the_deadline_of_the_tool_is_above_the_longest_program() -> None:
    tool = ExecTool(PlainSandbox(), ExecSettings(max_timeout_s=90))
    assert tool.spec.deadline_s > 90
    assert ToolRegistry([tool]).get("exec_tools.execute_code_python") is tool


async def test_output_is_heard_while_it_runs(stage: ToolHarness) -> None:
    await run_exec(stage, "print('hello')")
    assert stage.emitted == [("stdout", "hello\n")]


async def test_a_name_of_the_program_is_shown_in_tracebacks(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, "1 / 0", prog_name="price ../ list")
    assert outcome.status is not None
    assert '|   File "/workspace/work/price_____list.py", line 1, in <module>' in outcome.status


class BrokenSandbox(PlainSandbox):
    """One of a machine that cannot isolate anything."""

    @asynccontextmanager
    async def run(self, program: Program, broker: Broker, output: OutputSink) -> AsyncGenerator[ProgramResult]:
        raise SandboxUnavailableError("bubblewrap is missing; install it with: apt install bubblewrap")
        yield


async def test_where_nothing_can_be_isolated_the_outcome_says_so(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, "print(1)", sandbox=BrokenSandbox())
    assert outcome.error is not None
    assert outcome.error.code == "sandbox_unavailable"
    assert outcome.error.message == "bubblewrap is missing; install it with: apt install bubblewrap"


async def test_a_call_that_is_cancelled_ends_its_program(stage: ToolHarness, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    code = f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    running = asyncio.create_task(run_exec(stage, code))
    while not (mark.exists() and mark.read_text()):  # noqa: ASYNC110 - the program is another process
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


# --- the contract ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contract", "code"),
    [
        ([{"description": "a"}], "tool_params_invalid"),
        ([{"filename": "a.md", "filepath": "turn_1/files/a.md"}], "tool_params_invalid"),
        ([{"filename": "a.md"}, {"filepath": "turn_1/files/a.md"}], "tool_params_invalid"),
        ([{"filename": "a"}, {"filename": "a/b.md"}], "tool_params_invalid"),
        ([{"filename": "a/b.md"}, {"filename": "a"}], "tool_params_invalid"),
        ([{"filename": "a.md", "visibility": "secret"}], "tool_params_invalid"),
        ([{"filename": "a.md", "mime": "text/markdown"}], "tool_params_invalid"),
        ([{"filename": f"{n}.md"} for n in range(51)], "tool_params_invalid"),
        ([{"filename": "../a.md"}], "path_escapes_root"),
        ([{"filepath": "/etc/passwd"}], "path_escapes_root"),
        ([{"filepath": "turn_1/files/../../a.md"}], "path_escapes_root"),
        ([{"filepath": "turn_1/attachments/a.md"}], "path_read_only"),
        ([{"filename": ".part-1"}], "path_name_unsafe"),
        ([{"filepath": "ar:turn_1.user.prompt"}], "path_not_a_file"),
    ],
)
async def test_a_contract_that_cannot_be_kept_is_refused(stage: ToolHarness, contract: list[object], code: str) -> None:
    sandbox = PlainSandbox()
    outcome = await run_exec(stage, "print(1)", *contract, sandbox=sandbox)
    assert error_of(outcome) == code
    assert sandbox.programs == []


async def test_a_file_of_another_turn_is_produced_in_the_current_one(stage: ToolHarness) -> None:
    code = "(OUT_DIR / 'turn_1/files/a.md').write_text('# A')"
    outcome = await run_exec(stage, code, {"filepath": "turn_0/files/a.md"})
    assert [artifact.path for artifact in outcome.artifacts] == ["fi:turn_1.files/a.md"]
    assert [notice.code for notice in outcome.notices] == ["protocol_violation.path_rewritten"]


@pytest.mark.parametrize("params", ["{}", '{"contract":null}', '{"prog_name":"sums"}'])
async def test_a_call_without_a_contract_takes_an_empty_one(stage: ToolHarness, params: str) -> None:
    context = await make_exec_context(stage, "print(6 * 7)")
    outcome = await ExecTool(PlainSandbox()).call(params, context)
    assert (outcome.error, outcome.artifacts) == (None, ())
    assert "| 42" in (outcome.status or "")


@pytest.mark.parametrize("params", ["[]", "{", '{"contract":7}'])
async def test_other_parameters_are_still_refused(stage: ToolHarness, params: str) -> None:
    context = await make_exec_context(stage, "print(6 * 7)")
    outcome = await ExecTool(PlainSandbox()).call(params, context)
    assert outcome.error is not None
    assert outcome.error.code == "tool_params_invalid"


async def test_paths_of_a_contract_are_bound_before_the_call(stage: ToolHarness) -> None:
    tool: Tool = ExecTool(PlainSandbox())
    params = '{"contract":[{"filepath":"turn_0/files/a.md"},{"filename":"b.md"}]}'
    bound = await bind_parameters(params, tool.spec.write_params, stage.context())
    contract = msgspec.json.decode(bound.params)["contract"]
    assert contract == [{"filepath": "turn_1/files/a.md"}, {"filename": "turn_1/files/b.md"}]
    assert len(bound.notices) == 1


async def test_the_folders_of_the_contract_are_there(stage: ToolHarness) -> None:
    code = (
        "open(f'{OUT_DIR}/turn_1/files/deep/er/a.md', 'w').write('# A')\nprint((OUT_DIR / 'turn_1/outputs').is_dir())"
    )
    outcome = await run_exec(stage, code, {"filename": "deep/er/a.md", "visibility": "internal"})
    assert outcome.status == "Succeeded:\n- turn_1/files/deep/er/a.md\nPrinted:\n| True"
    assert [artifact.visibility for artifact in outcome.artifacts] == ["internal"]
