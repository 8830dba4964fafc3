"""The bundles of `examples/`: their own tests, the terminal in a pipe, and one server with all three."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_serve_settings import environ, serving
from timeloom.client import Client
from timeloom.client.types import ChatBlock, CompletionBlock
from timeloom.testing import call, says

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

PROGRAM = """
import csv, io
rows = list(csv.DictReader(io.StringIO(io_tools.tool_call("table.read", {"name": "sales.csv"})["ret"])))
chart = io_tools.tool_call("table.bar_chart", {"title": "Rows", "labels": ["rows"], "values": [len(rows)]})
(OUT_DIR / "t1/files/rows.svg").write_text(chart["ret"])
"""

QUOTE = "Three minutes.\n\n> The siren stops after 180 seconds to save the battery.\n>\n> `ks:alarms.md`"

ANSWERS = {"research": "It saves 38% [[S:1]].", "table": "The table has 144 rows.", "docs": QUOTE}

REPLIES = {
    "research": [
        call("web_tools.web_search", queries=["Heron energy cost"], n=2),
        call("web_tools.web_fetch", urls=["https://ferries.example/heron-first-year"]),
        call("react.write", path="report.md", content="Energy cost 38% less [[S:1]]."),
        call("research.check_report", text="ref:fi:t1/report.md"),
        says(ANSWERS["research"]),
    ],
    "table": [
        call("table.describe", name="sales.csv"),
        call("exec_tools.execute_code_python", contract=[{"filename": "rows.svg"}]).with_code(PROGRAM),
        says(ANSWERS["table"]),
    ],
    "docs": [
        call("react.search_knowledge", query="siren"),
        call("react.read", paths=["ks:alarms.md"]),
        says(ANSWERS["docs"]),
    ],
}

QUESTIONS = {"research": "How much does it save?", "table": "How many rows?", "docs": "How long is the siren?"}


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A copy of the examples, as a user makes one, with a script that answers each question."""
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    titles = [{"reply": "A title", "when": "title"}]
    scenes = [
        {"match": QUESTIONS[name].rstrip("?"), "steps": [{"reply": one} for one in replies] + titles}
        for name, replies in REPLIES.items()
    ]
    (folder / "script.yaml").write_text(json.dumps(scenes))
    return folder


def run(folder: Path, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    env = environ(TIMELOOM_CONFIG=os.devnull)
    return subprocess.run(
        command, cwd=folder, input=typed, capture_output=True, text=True, check=False, timeout=120, env=env
    )


def test_the_tests_of_the_examples_pass_where_they_were_copied_to(examples: Path) -> None:
    tested = run(examples, "pytest", "-q", "-p", "no:cacheprovider", *REPLIES)
    assert tested.returncode == 0, tested.stdout
    assert "skipped" not in tested.stdout


@pytest.mark.parametrize("name", REPLIES)
def test_an_example_answers_in_a_pipe(examples: Path, name: str) -> None:
    more = ["--config", "timeloom.toml"] if name == "research" else []
    options = ["--bundle", ".", "--model", "script:../script.yaml", "--data-dir", "../data", *more]
    done = run(examples / name, "timeloom", "chat", *options, typed=QUESTIONS[name] + "\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ANSWERS[name]
    assert "✗" not in done.stderr
    source = "  [1] Electric ferry Heron: report on the first year https://ferries.example/heron-first-year\n"
    assert (source in done.stderr) == (name == "research")


def test_a_single_message_names_its_sources_as_json(examples: Path) -> None:
    options = ["--bundle", ".", "--model", "script:../script.yaml", "--config", "timeloom.toml", "--json"]
    done = run(examples / "research", "timeloom", "chat", *options, "-p", QUESTIONS["research"])
    assert json.loads(done.stdout)["sources"] == [
        {
            "sid": 1,
            "title": "Electric ferry Heron: report on the first year",
            "url": "https://ferries.example/heron-first-year",
        }
    ]


def test_one_server_has_all_examples(examples: Path) -> None:
    options = ["--config", "timeloom.toml", "--data-dir", "../data", "--port", "0", "--model", "script:../script.yaml"]
    bundles = [word for name in REPLIES for word in ("--bundle", f"../{name}")]
    token = "t" * 32

    async def check(address: str) -> None:
        async with Client(address, token) as client:
            listed = (await client.list_bundles()).bundles
            assert [(one.name, one.state) for one in listed] == [(name, "ready") for name in REPLIES]
            for name, question in QUESTIONS.items():
                stream = client.post_message_and_stream(message=question, bundle=name)
                blocks = [event.block async for event in stream if isinstance(event, ChatBlock)]
                assert [one.text for one in blocks if isinstance(one, CompletionBlock)] == [ANSWERS[name]]

    with serving(examples / "research", *options, *bundles, TIMELOOM_SERVER_TOKEN=token) as (_, address):
        asyncio.run(check(address))
