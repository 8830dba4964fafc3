"""The benchmarks still run: smallest sizes, no network, and other runtimes only where they are installed already."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]

SESSION = (
    {"t": "user", "text": "Mend it.", "ts": "2026-02-11T20:36:45.618Z", "meta": False},
    {"t": "thinking", "text": "Where?", "ts": "2026-02-11T20:36:46Z", "req": "r1"},
    {"t": "text", "text": "I look.", "ts": "2026-02-11T20:36:46Z", "req": "r1", "usage": {"output_tokens": 9}},
    {"t": "tool_use", "id": "c1", "name": "shell", "input": {"run": "ls"}, "ts": "2026-02-11T20:36:47Z", "req": "r1"},
    {"t": "tool_result", "id": "c1", "is_error": False, "content": "a.py", "ts": "2026-02-11T20:36:48Z"},
    {"t": "queue", "op": "enqueue", "text": "Hurry.", "ts": "2026-02-11T20:36:49Z"},
    {"t": "system", "subtype": "compact_boundary", "ts": "2026-02-11T20:36:49Z", "text": None},
    {"t": "compact_summary", "text": "One file.", "ts": "2026-02-11T20:36:50Z"},
    {"t": "text", "text": "Mended.", "ts": "2026-02-11T20:36:51Z", "req": "r2"},
)
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
DIALOGUE = (
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "A flight, please."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "name": "find", "content": "none"},
    {"role": "assistant", "content": "There is none."},
)


class Table(msgspec.Struct):
    title: str
    rows: list[list[str | int | float | None]]


class Report(msgspec.Struct):
    tables: list[Table]


def run_bench(folder: Path, *options: str, others: str = "--alone") -> tuple[str, list[Table]]:
    """Return the output of the benchmarks and the tables that they wrote."""
    result = folder / "bench.json"
    command = [sys.executable, "-m", "bench", "--tiny", others, "--json", str(result), "--work", str(folder)]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, msgspec.json.decode(result.read_bytes(), type=Report).tables


def test_every_benchmark_runs_on_invented_data_and_says_so(tmp_path: Path) -> None:
    printed, tables = run_bench(tmp_path)
    assert "SYNTHETIC (no --data FOLDER" in printed
    assert "left out of this run: LangGraph" in printed
    assert [table.title for table in tables if not table.rows] == []
    assert len(tables) == 39
    assert list(tmp_path.iterdir()) == [tmp_path / "bench.json"]


def test_subjects_without_a_browser_need_no_playwright() -> None:
    program = "import sys; sys.modules['playwright'] = None; import bench.__main__"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_loop_runs_on_every_runtime_that_is_installed(tmp_path: Path) -> None:
    printed, (times, _) = run_bench(tmp_path, "--only", "peers", others="--offline")
    left_out = printed.count("left out of this run")
    assert (len(times.rows), left_out) in ((8, 0), (2, 5))
    assert "because it failed" not in printed


def test_the_agent_is_compared_with_the_turn_runner_by_hand(tmp_path: Path) -> None:
    printed, (turns, start) = run_bench(tmp_path, "--only", "agent")
    assert [row[0] for row in turns.rows] == ["memory", "data folder"]
    assert len(start.rows) == 1
    assert "agent over the turn runner by hand" in printed


def test_recorded_sessions_are_replayed(tmp_path: Path) -> None:
    data = tmp_path / "traces"
    data.mkdir()
    lines = "\n".join(json.dumps(event) for event in SESSION)
    (data / "coding_agent_1.jsonl").write_text(lines, encoding="utf-8")
    (data / "airline.json.gz").write_bytes(gzip.compress(json.dumps([{"traj": DIALOGUE}]).encode()))
    printed, (sessions, dialogues) = run_bench(tmp_path, "--data", str(data), "--only", "traces", "dialogues")
    assert "1 recorded sessions; 1 recorded dialogues" in printed
    assert [row[:4] for row in sessions.rows] == [["coding_agent_1", "timeloom", 0.06, 6]]
    assert [row[:4] for row in dialogues.rows] == [["timeloom", 1, 4, 12]]


def test_a_folder_without_traces_is_named_as_such(tmp_path: Path) -> None:
    printed, _ = run_bench(tmp_path, "--data", str(tmp_path), "--only", "parsers")
    assert "the folder has no coding_agent_*.jsonl" in printed
    assert "the folder has no airline.json.gz" in printed
