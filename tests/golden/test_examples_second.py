"""Texts that the runtime's own tools write in edition 2: they name turns by their aliases."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden.example_harness import ExampleHarness
from tests.golden.test_examples_exec import FILES, SUMMARY, TRACEBACK, PlayedSandbox
from tests.harness.replies import answers, calls
from timeloom.core.render.editions import SECOND_EDITION
from timeloom.ports.model import TextSegment
from timeloom.tools.exec.tool import TOOL_ID, ExecTool

pytestmark = pytest.mark.anyio

CODE = "<channel:code>print(1)</channel:code>"


async def last_prompt(stage: ExampleHarness, *replies: str, turns: int = 1) -> str:
    """Run these turns in edition 2 and return the timeline of the last request."""
    talk = await replace(stage, edition=SECOND_EDITION).start_conversation(*replies)
    for number in range(turns):
        await talk.run_turn(f"request {number + 1}")
    return "".join(part.text for part in talk.model.requests[-1].segments if isinstance(part, TextSegment))


async def test_the_report_of_a_program_names_each_file_by_its_short_path(stage: ExampleHarness, tmp_path: Path) -> None:
    sandbox = PlayedSandbox(tmp_path, SUMMARY, exit_code=1, err=TRACEBACK)
    stage = replace(stage, tools=[*stage.tools, ExecTool(sandbox)], policies=())
    contract = [{"filepath": f"{FILES}/{name}"} for name in ("report.xlsx", "summary.pdf")]
    shown = await last_prompt(stage, calls(TOOL_ID, contract=contract) + CODE, answers())
    assert "- t1/files/report.xlsx: file not produced\nSucceeded:\n- t1/files/summary.pdf\n" in shown
    assert '[t1.1 failed] execution_failed {"exit_code":1}\n' in shown
    assert "turn_" not in shown


async def test_a_patch_and_the_index_of_a_turn_show_short_paths(stage: ExampleHarness) -> None:
    write = calls("react.write", path="files/a.md", content="one\ntwo\n")
    patch = calls("react.patch", path="files/a.md", patch="@@ -1,2 +1,2 @@\n-one\n+1\n two\n")
    index = calls("react.read", paths=["ar:t1.react.turn.index"])
    shown = await last_prompt(stage, write, patch, answers(), index, answers(), turns=2)
    assert '[READ] patched, 2 lines now: react.read(["fi:t1/a.md"])' in shown
    assert "message ar:t1.user.prompt: request 1\n" in shown
    # The hints of the rows quote texts as they were recorded.
    assert not re.findall(r"^[0-9]+[|] \w+ \w\w:turn_", shown, re.MULTILINE)
