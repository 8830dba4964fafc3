"""The bundle on a scripted model, which needs no key; its program really runs: `python -m pytest`."""

import asyncio
from pathlib import Path

from timeloom import Agent, Settings
from timeloom.core.blocks import ResultContent
from timeloom.testing import ScriptedModel, call, says

FOLDER = Path(__file__).parent

PROGRAM = """
import csv, io
from collections import Counter

text = io_tools.tool_call("table.read", {"name": "sales.csv"})["ret"]
earned = Counter()
for row in csv.DictReader(io.StringIO(text)):
    earned[row["product"]] += int(row["units"]) * float(row["price_eur"])
names = [name for name, _ in earned.most_common()]
drawn = io_tools.tool_call("table.bar_chart", {
    "title": f"{names[0]} earned most", "labels": names, "values": [round(earned[name]) for name in names],
    "unit": "euros in 2025",
})
(OUT_DIR / "t1/files/products.svg").write_text(drawn["ret"])
lines = [f"| {name} | {earned[name]:.0f} |" for name in names]
summary = "\\n".join([f"{names[0]} earned most.", "", "| product | euros |", "|---|---|", *lines, ""])
(OUT_DIR / "t1/files/summary.md").write_text(summary)
print(summary)
"""

CONTRACT = [{"filename": "products.svg"}, {"filename": "summary.md"}]


async def results(agent: Agent[str], conversation: str) -> list[str]:
    """Return the texts that the tools of a conversation returned."""
    blocks = [entry.block async for entry in agent.timeline(conversation)]
    return [str(block.text) for block in blocks if isinstance(block, ResultContent)]


def test_a_program_reads_the_table_and_writes_a_chart_and_a_summary(tmp_path: Path) -> None:
    run = call("exec_tools.execute_code_python", contract=CONTRACT, prog_name="products").with_code(PROGRAM)
    model = ScriptedModel([call("table.describe", name="sales.csv"), run, says("Coffee earned most.")])
    agent = Agent.from_bundle(FOLDER, model, store=tmp_path, settings=Settings(data_dir=tmp_path))
    answer = agent.run_sync("Which product earned most? Draw it.")
    assert answer.reason == "completed", answer.detail
    assert [file.path.rpartition(".files/")[2] for file in answer.files] == ["products.svg", "summary.md"]
    (chart,) = tmp_path.rglob("products.svg")
    assert chart.read_text().startswith("<svg")
    assert "Coffee earned most" in chart.read_text()
    (summary,) = tmp_path.rglob("summary.md")
    assert summary.read_text().splitlines()[4].startswith("| Coffee |")


def test_a_table_is_described_by_its_name_and_as_an_attachment(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("place;price\nDiner;14\nDiner;14\nSchwebe;\n")
    attached = call("table.describe", text="ref:fi:t1.user.attachments/prices.csv")
    model = ScriptedModel([call("table.describe", name="sales.csv"), attached, says("Described.")])
    agent = Agent.from_bundle(FOLDER, model)
    answer = agent.run_sync("Describe them.", files=[tmp_path / "prices.csv"])
    ours, theirs = asyncio.run(results(agent, answer.conversation))
    assert '"name":"returned","type":"integer","empty":3' in ours
    assert '{"rows":3,"duplicates":1,' in theirs
    assert '{"name":"price","type":"integer","empty":1,"distinct":1,"smallest":14.0,"largest":14.0' in theirs
