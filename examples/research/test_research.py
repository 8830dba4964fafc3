"""The bundle on a scripted model and saved pages, which need neither a key nor a network: `python -m pytest`."""

import asyncio
from pathlib import Path

from timeloom import Agent, Settings
from timeloom.config.sections.web import WebSettings
from timeloom.core.blocks import ResultContent, ToolCall
from timeloom.testing import ScriptedModel, call, says

FOLDER = Path(__file__).parent

QUESTION = "How much does the electric ferry save?"

URL = "https://ferries.example/heron-first-year"

DRAFT = """# Savings of the ferry Heron

Energy cost 38% less than with diesel.

A neighbouring line saved 12% in 2022 [[S:2]].
"""

MENDED = DRAFT.replace("with diesel.", "with diesel [[S:1]].")


def research_agent(*replies: str) -> Agent[str]:
    """Return the agent of the bundle with the saved pages."""
    settings = Settings(web=WebSettings(enabled=True, search=("folder",), folder=FOLDER / "pages"))
    return Agent.from_bundle(FOLDER, ScriptedModel(replies), settings=settings)


async def results(agent: Agent[str], conversation: str, tool: str) -> list[str]:
    """Return the texts that calls of this tool returned."""
    blocks = [entry.block async for entry in agent.timeline(conversation)]
    called = {block.tool_call_id for block in blocks if isinstance(block, ToolCall) and block.tool_id == tool}
    return [str(one.text) for one in blocks if isinstance(one, ResultContent) and one.tool_call_id in called]


def test_it_searches_fetches_writes_a_report_and_cites() -> None:
    agent = research_agent(
        call("web_tools.web_search", queries=["electric ferry Heron energy cost report", "Tern three winters"], n=3),
        call("web_tools.web_fetch", urls=[URL]),
        call("react.write", path="report.md", content=DRAFT),
        call("research.check_report", text="ref:fi:t1/report.md"),
        call("react.patch", path="report.md", patch=MENDED),
        call("research.check_report", text="ref:fi:t1/report.md"),
        says("Heron saves 38% of the energy cost [[S:1]], a similar ferry between 12% and 45% [[S:2]]."),
    )
    answer = agent.run_sync(QUESTION)
    assert answer.reason == "completed", answer.detail
    cited = [(row.sid, row.url) for row in answer.sources]
    assert cited == [(1, URL), (2, "https://northline.example/tern-three-winters")]
    assert [file.path for file in answer.files] == [f"fi:{answer.turn}.files/report.md"]
    draft, mended = asyncio.run(results(agent, answer.conversation, "research.check_report"))
    few = "the report cites {} sources, at least 3 are wanted"
    assert "no citation: Energy cost 38% less than with diesel." in draft
    assert few.format(1) in draft
    assert mended == '{"sources":[1,2],"findings":["' + few.format(2) + '"]}'


def test_the_saved_pages_have_addresses_and_dates() -> None:
    agent = research_agent(call("web_tools.web_search", queries=["ferry", "battery capacity"]), says("Five pages."))
    (found,) = asyncio.run(results(agent, agent.run_sync(QUESTION).conversation, "web_tools.web_search"))
    assert found.count('"sid"') == 5
    assert "2025-03-14" in found
