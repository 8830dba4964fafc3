"""The command line as its user meets it: real processes, real folders."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest


def timeloom(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "timeloom", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "100"})


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "with space"
    for _ in range(2):
        done = timeloom("demo", "--data-dir", folder)
        assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_the_demo_shows_timeline_plan_answer_and_verdict(tmp_path: Path) -> None:
    out = timeloom("demo", "--data-dir", tmp_path).stdout
    shown = ("assistant.completion", "✓ [1] Look up both fares", "ferries.example", "timeline.json", "all whole")
    assert [text for text in shown if text not in out] == []


def test_a_place_where_no_folder_can_be_made_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = timeloom("demo", "--data-dir", tmp_path / "file" / "data")
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr


def test_verify_counts_what_it_checked(data_dir: Path) -> None:
    done = timeloom("verify", "--data-dir", data_dir)
    assert done.returncode == 0
    assert "conversations: 2" in done.stdout
    assert json.loads(timeloom("verify", "--data-dir", data_dir, "--json").stdout)["findings"] == []


def test_export_prints_one_timeline_a_line(data_dir: Path) -> None:
    lines = timeloom("export", "--data-dir", data_dir, "--json").stdout.splitlines()
    timelines = [json.loads(line) for line in lines]
    assert [value["type"] for value in timelines] == ["conv.timeline.v1"] * 2
    assert all(value["blocks"][0]["type"] == "conv.header" for value in timelines)
    assert all(value["sources_pool"][0]["sid"] == 1 for value in timelines)


def test_export_writes_timeline_and_pool_for_one_conversation(data_dir: Path, tmp_path: Path) -> None:
    one = json.loads(timeloom("export", "--data-dir", data_dir, "--json").stdout.splitlines()[0])["conversation_id"]
    done = timeloom("export", "--data-dir", data_dir, "--conversation", one, "--out", tmp_path)
    assert done.returncode == 0
    assert {path.name for path in (tmp_path / one).iterdir()} == {"timeline.json", "sources_pool.json"}
    assert json.loads((tmp_path / one / "sources_pool.json").read_text())["rows"][0]["title"] == "Ferry fares 2026"
    printed = timeloom("export", "--data-dir", data_dir, "--conversation", one, "--json", "--sources").stdout
    assert json.loads(printed)["type"] == "conv:sources_pool"


def test_a_conversation_nobody_knows_is_an_error_that_names_it(data_dir: Path) -> None:
    done = timeloom("export", "--data-dir", data_dir, "--conversation", "conv_nope", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert "conv_nope" in done.stderr
    assert "conversation_unknown" in done.stderr


@pytest.mark.parametrize("command", ["verify", "export"])
def test_a_folder_without_conversations_is_a_usage_error(command: str, tmp_path: Path) -> None:
    done = timeloom(command, "--data-dir", tmp_path / "nothing")
    assert done.returncode == 2
    assert "timeloom demo" in done.stderr
    assert not (tmp_path / "nothing").exists()


def test_a_damaged_conversation_is_named_and_the_other_still_exports(tmp_path: Path) -> None:
    timeloom("demo", "--data-dir", tmp_path)
    timeloom("demo", "--data-dir", tmp_path)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as journal, journal:
        journal.execute("UPDATE entries SET record = zeroblob(9) WHERE place >> 32 = 1")
        damaged, whole = (row[0] for row in journal.execute("SELECT id FROM conversations ORDER BY n"))
    verified = timeloom("verify", "--data-dir", tmp_path)
    assert verified.returncode == 1
    assert damaged in verified.stdout
    assert whole not in verified.stdout
    exported = timeloom("export", "--data-dir", tmp_path, "--json")
    assert exported.returncode == 1
    assert damaged in exported.stderr
    assert [json.loads(line)["conversation_id"] for line in exported.stdout.splitlines()] == [whole]


def test_an_emptied_journal_is_damage_and_stays_as_it_is(tmp_path: Path) -> None:
    timeloom("demo", "--data-dir", tmp_path)
    (tmp_path / "journal.db").write_bytes(b"")
    done = timeloom("verify", "--data-dir", tmp_path)
    assert done.returncode == 1
    assert "store_damaged" in done.stderr
    assert (tmp_path / "journal.db").read_bytes() == b""


def test_sources_alone_are_printed_only_as_json(data_dir: Path) -> None:
    assert timeloom("export", "--data-dir", data_dir, "--sources").returncode == 2


def test_a_file_that_is_no_journal_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"not a database" * 100)
    done = timeloom("verify", "--data-dir", tmp_path)
    assert done.returncode == 1
    assert "store_damaged" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [[], ["demo"], ["export"], ["verify"]])
def test_every_command_teaches_itself(command: list[str]) -> None:
    done = timeloom(*command, "--help")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 5


@pytest.mark.parametrize("command", ["verify", "inspect", "export --json", "replay", "demo"])
@pytest.mark.parametrize("streams", [">/dev/full", ">&-", "<&- >/dev/full"])
def test_an_output_that_cannot_be_written_is_an_error_of_one_line(data_dir: Path, command: str, streams: str) -> None:
    line = f'"$0" -m timeloom {command} --data-dir "$1" {streams}'
    shell = ["sh", "-c", line, sys.executable, str(data_dir)]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("error: "), "Traceback" in done.stderr) == (1, 1, False)
    assert done.stderr.splitlines()[-1].startswith("error: ")


def test_a_closed_input_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("- reply: x")
    line = '"$0" -m timeloom chat --model "script:$1/script.yaml" --data-dir "$1/data" <&-'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_an_export_into_a_folder_that_cannot_be_made_is_an_error_of_one_line(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = timeloom("export", "--data-dir", data_dir, "--out", tmp_path / "file" / "out")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("error: ")
