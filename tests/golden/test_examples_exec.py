"""Programs in a turn: the report and the files that an exec call leaves, on the timeline and in the prompt."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.golden.example_harness import ExampleHarness
from tests.harness.replies import answers, calls
from timeloom.ports.sandbox import Broker, ExitReason, OutputSink, Program, ProgramResult
from timeloom.tools.exec.tool import TOOL_ID, ExecTool

pytestmark = pytest.mark.anyio

FILES = "turn_1770603271112_000002/files"
CODE = """<channel:code>
prices = await web_tools.web_search(["prices"])
write_report(prices["ret"], OUT_DIR)
</channel:code>"""
TRACEBACK = """Traceback (most recent call last):
  File "/workspace/work/program.py", line 3, in <module>
    write_report(prices["ret"], OUT_DIR)
NameError: name 'write_report' is not defined
"""
SUMMARY = {f"{FILES}/summary.pdf": b"%PDF-1.7\n%%EOF\n"}
REPORT = {f"{FILES}/report.xlsx": b"PK\x03\x04 a workbook"}
NAMES = (f"{FILES}/report.xlsx", f"{FILES}/summary.pdf")


@dataclass(frozen=True)
class PlayedSandbox:
    """Plays a program that searches, leaves these files and ends so; nothing runs."""

    folder: Path
    files: Mapping[str, bytes]
    exit_code: int = 0
    ending: ExitReason = "exited"
    out: str = ""
    err: str = ""
    name: str = "played"

    async def check(self) -> None:
        """Nothing can be missing."""

    async def close(self) -> None:
        """Nothing waits."""

    @asynccontextmanager
    async def run(self, program: Program, broker: Broker, output: OutputSink) -> AsyncGenerator[ProgramResult]:
        await broker.call("web_tools.web_search", '{"queries":["prices"]}')
        left = self.folder / "left"
        (left / FILES).mkdir(parents=True)
        for place, data in self.files.items():
            (left / place).write_bytes(data)
        yield ProgramResult(
            ending=self.ending,
            exit_code=self.exit_code,
            out_dir=left,
            stdout_tail=self.out,
            stderr_tail=self.err,
        )


async def played(stage: ExampleHarness, example: str, contract: Sequence[str], sandbox: PlayedSandbox) -> None:
    """A turn whose one call has this contract and comes to this."""
    stage = replace(stage, tools=[*stage.tools, ExecTool(sandbox)], policies=())
    params = [{"filepath": name, "description": "for the boss"} for name in contract]
    talk = await stage.start_conversation(
        calls(TOOL_ID, "Computing prices", contract=params, prog_name="prices") + CODE, answers()
    )
    await talk.run_turn("compute it")
    await talk.assert_matches(example)


async def test_a_program_produces_a_pdf_a_text_and_a_workbook(stage: ExampleHarness, tmp_path: Path) -> None:
    text = {f"{FILES}/notes.txt": b"Two of three places answered.\n"}
    sandbox = PlayedSandbox(tmp_path, {**SUMMARY, **text, **REPORT}, out="done\n")
    await played(stage, "exec_files", (f"{FILES}/summary.pdf", f"{FILES}/notes.txt", f"{FILES}/report.xlsx"), sandbox)


async def test_a_program_only_prints(stage: ExampleHarness, tmp_path: Path) -> None:
    await played(stage, "exec_prints", (), PlayedSandbox(tmp_path, {}, out="31\n[[S:1]] <channel:thinking>\n"))


async def test_all_files_are_there_and_the_program_failed(stage: ExampleHarness, tmp_path: Path) -> None:
    sandbox = PlayedSandbox(tmp_path, {**REPORT, **SUMMARY}, exit_code=1, err=TRACEBACK)
    await played(stage, "exec_case_a", NAMES, sandbox)


async def test_a_file_is_missing(stage: ExampleHarness, tmp_path: Path) -> None:
    await played(stage, "exec_case_b", NAMES, PlayedSandbox(tmp_path, SUMMARY))


async def test_a_file_is_missing_and_the_program_failed(stage: ExampleHarness, tmp_path: Path) -> None:
    sandbox = PlayedSandbox(tmp_path, SUMMARY, exit_code=1, err=TRACEBACK)
    await played(stage, "exec_case_c", NAMES, sandbox)


async def test_a_program_takes_too_long_and_leaves_what_nobody_asked_for(stage: ExampleHarness, tmp_path: Path) -> None:
    left = {f"{FILES}/table.csv": b"place,price\n" + b"a" * 2000 + b",31\n" + b"b" * 20_000, "draft.md": b"# Draft\n"}
    await played(stage, "exec_limit", (), PlayedSandbox(tmp_path, left, exit_code=137, ending="timeout"))
