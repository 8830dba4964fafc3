"""Prompts of edition 2 with the texts of the runtime's own tools, and the prompts that the documentation shows."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden.example_harness import SEARCH, ExampleConversation, ExampleHarness
from tests.golden.test_examples_exec import CODE as REPORT_CODE
from tests.golden.test_examples_exec import FILES, SUMMARY, TRACEBACK, PlayedSandbox
from tests.harness.replies import answers, calls
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.render.editions import SECOND_EDITION, THIRD_EDITION
from timeloom.ports.model import TextSegment
from timeloom.tools.exec.tool import TOOL_ID, ExecTool

pytestmark = pytest.mark.anyio

CODE = "<channel:code>print(1)</channel:code>"


PAGE = Path(__file__).parents[2] / "docs/explanation/two-prompts.md"
DIFF = "@@ -1,2 +1,3 @@\n # Places\n \n+1. Schwebe [[S:1]]\n"


def assert_on_page(name: str, talk: ExampleConversation) -> None:
    """Assert that the page shows the last request; with TIMELOOM_WRITE_GOLDEN=1, put it there."""
    parts = talk.model.requests[-1].segments
    shown = "".join(part.text if isinstance(part, TextSegment) else f"({part.mime})\n" for part in parts)
    mark, page = f"<!-- prompt: {name} -->\n", PAGE.read_text(encoding="utf-8")
    expected = f"{mark}\n```text\n{shown.rstrip()}\n```\n"
    if os.environ.get("TIMELOOM_WRITE_GOLDEN"):
        old = re.compile(rf"{re.escape(mark)}(?:\n```text\n.*?\n```\n)?", re.DOTALL)
        page = old.sub(lambda _: expected, page)
        PAGE.write_text(page, encoding="utf-8")
    assert expected in page


async def test_the_documentation_shows_a_whole_prompt_with_plan_search_and_file(stage: ExampleHarness) -> None:
    steps = ["Search restaurants", "Draft a list"]
    talk = await replace(stage, edition=THIRD_EDITION).start_conversation(
        "<channel:thinking>\nA list needs a search first.\n</channel:thinking>\n"
        + calls("react.plan", mode="new", steps=steps),
        SEARCH,
        calls("react.write", "✓ [1] found two", path="files/draft.md", content="# Places\n\n"),
        calls("react.patch", path="files/draft.md", patch=DIFF),
        answers(
            "Schwebe [[S:1]].", notes="✓ [2]", summary="Goal: a place to eat. Outcome: Schwebe. Refs: fi:t1/draft.md"
        ),
        calls("react.read", "I look it up.", paths=["fi:t1/draft.md", "so:sources_pool[2]"]),
        calls("react.hide", path="so:sources_pool[2]", replacement="the guide gives prices and opening hours"),
        answers(),
    )
    await talk.run_turn("Find a place to eat in Wuppertal.")
    await talk.run_turn("What does the table guide say?")
    assert_on_page("places", talk)


async def test_the_documentation_shows_a_whole_prompt_with_failures(stage: ExampleHarness, tmp_path: Path) -> None:
    sandbox = PlayedSandbox(tmp_path, SUMMARY, exit_code=1, err=TRACEBACK)
    stage = replace(stage, tools=[*stage.tools, ExecTool(sandbox)], policies=(), edition=THIRD_EDITION)
    contract = [{"filepath": f"{FILES}/{name}"} for name in ("report.xlsx", "summary.pdf")]
    talk = await stage.start_conversation(
        SEARCH,
        calls("web_tools.serch", queries=["prices"]),
        calls(TOOL_ID, "I compute the prices.", contract=contract) + REPORT_CODE,
        SEARCH,
        answers("No prices were found."),
        limits=TurnLimits(max_iterations=3),
    )
    talk.model.truncated.add(1)
    talk.model.callbacks[1] = lambda: talk.turns.inbox.steer("Only vegan places, please.")
    await talk.run_turn("What does dinner cost?")
    assert_on_page("troubles", talk)


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
