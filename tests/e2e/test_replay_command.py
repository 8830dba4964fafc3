"""`timeloom replay` as its user meets it: real processes, conversations held by `timeloom chat`."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.pseudo_terminal import PseudoTerminal
from timeloom.config.settings import Settings
from timeloom.core.ids import ConversationId
from timeloom.core.render.editions import renderer_for
from timeloom.core.render.section import Section
from timeloom.stores.batch import record_crc

SCRIPT = """
- reply: |
    <channel:ReactDecisionOutV2>{"action":"call_tool","notes":"Writing.","tool_call":{"tool_id":"react.write",
    "params":{"path":"files/note.md","content":"# Note"}}}</channel:ReactDecisionOutV2>
  usage: {input_tokens: 40, cache_read_tokens: 1000, output_tokens: 12, cost_nano_usd: 1234567}
- error: cut
  reply: "<channel:thinking>half a \\e[31mthought"
- reply: |
    <channel:ReactDecisionOutV2>{"action":"complete","final_answer":"It is written."}</channel:ReactDecisionOutV2>
- reply: |
    <channel:ReactDecisionOutV2>{"action":"complete","final_answer":"Still there."}</channel:ReactDecisionOutV2>
- when: title
  reply: A note
"""


def timeloom(*arguments: str | Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "timeloom", *map(str, arguments)]
    return subprocess.run(
        command, input=typed, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "100"}
    )


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a conversation of two turns, and the demonstration."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "script.yaml").write_text(SCRIPT)
    data_dir = folder / "data"
    chat = timeloom(
        "chat", "--data-dir", data_dir, "--model", f"script:{folder / 'script.yaml'}", typed="write a note\nand?\n"
    )
    assert chat.stdout == "It is written.\nStill there.\n"
    assert timeloom("demo", "--data-dir", data_dir).returncode == 0
    return data_dir


@pytest.fixture
def data_dir(held: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(held, tmp_path / "data"))


def test_the_ledger_of_the_cache_has_a_line_for_each_call_and_the_bill(held: Path) -> None:
    shown = timeloom("replay", "--cache", "--data-dir", held)
    assert shown.returncode == 0
    rows = [line for line in shown.stdout.splitlines() if " decision " in line]
    assert rows
    assert "$0.001235" in rows[0]
    assert "read from cache: " in shown.stdout
    lines = [
        json.loads(line) for line in timeloom("replay", "--cache", "--json", "--data-dir", held).stdout.splitlines()
    ]
    assert {line["kind"] for line in lines} == {"call", "cache_total"}
    decisions = [line for line in lines if line.get("purpose") == "decision" and line["cache"]["recorded"]]
    assert decisions[0]["cache"]["expected"]["points"][0]["tokens"] > 1_000
    assert sum(line["cost_nano_usd"] for line in lines if line["kind"] == "cache_total") == 1_234_567


@pytest.mark.parametrize("other", [["--verify"], ["--prompt", "ar:turn_1.react.model.1"]])
def test_the_ledger_is_printed_by_itself(held: Path, other: list[str]) -> None:
    refused = timeloom("replay", "--cache", *other, "--data-dir", held)
    assert (refused.returncode, "--cache" in refused.stderr) == (2, True)


def calls_of(data_dir: Path) -> list[dict[str, object]]:
    """The calls of the conversation that was held."""
    lines = timeloom("replay", "--data-dir", data_dir, "--json").stdout.splitlines()
    calls = [json.loads(line) for line in lines]
    return [call for call in calls if call["kind"] == "call" and call["model"] != "script:demo"]


def tamper(data_dir: Path, seq: int, before: bytes, after: bytes) -> str:
    """Changes an entry of the conversation that was held, with a checksum that fits; gives its id."""
    with closing(sqlite3.connect(data_dir / "journal.db")) as journal, journal:
        number, name = journal.execute("SELECT n, id FROM conversations ORDER BY n LIMIT 1").fetchone()
        place = (number << 32) + seq
        (record,) = journal.execute("SELECT record FROM entries WHERE place = ?", (place,)).fetchone()
        assert before in record
        changed = record.replace(before, after)
        crc = record_crc(ConversationId(name), seq, changed)
        journal.execute("UPDATE entries SET record = ?, crc = ? WHERE place = ?", (changed, crc, place))
        return name


def test_every_call_is_listed_with_what_it_used(held: Path) -> None:
    done = timeloom("replay", "--data-dir", held)
    assert (done.returncode, done.stderr) == (0, "")
    (first,) = [line.split() for line in done.stdout.splitlines() if "$0.001235" in line]
    assert first[1:9] == ["1", "1", "decision", "40", "1000", "12", "$0.001235", "same"]
    assert done.stdout.splitlines()[-1].endswith("all the same.")


def test_calls_are_json_lines(held: Path) -> None:
    calls = calls_of(held)
    decisions = [call for call in calls if call["purpose"] == "decision"]
    assert [(call["round"], call["attempt"], call["ended"]) for call in decisions] == [
        (1, 1, "end"),
        (2, 1, "cut"),
        (2, 2, "end"),
        (1, 1, "end"),
    ]
    assert all(call["verdict"] == "same" and call["stored_sha256"] == call["rebuilt_sha256"] for call in calls)


def test_verify_counts_each_conversation_and_all(held: Path) -> None:
    done = timeloom("replay", "--data-dir", held, "--verify")
    assert done.returncode == 0
    first, second, total = done.stdout.splitlines()
    assert first.startswith("conv_")
    assert second.endswith("model calls: 4, all the same")
    assert total.startswith("Replayed conversations: 2, ")
    *conversations, summary = map(
        json.loads, timeloom("replay", "--data-dir", held, "--verify", "--json").stdout.splitlines()
    )
    assert [one["kind"] for one in conversations] == ["conversation"] * 2
    assert (summary["kind"], summary["conversations"], summary["differs"]) == ("summary", 2, 0)
    assert summary["calls"] == summary["same"] == sum(one["calls"] for one in conversations)


def test_one_prompt_is_printed_as_it_was_sent(held: Path) -> None:
    path = str(calls_of(held)[1]["path"])
    done = timeloom("replay", "--data-dir", held, "--prompt", path)
    assert (done.returncode, done.stderr) == (0, "")
    _, _, after_system = done.stdout.partition("<cache point>\n\n")
    assert after_system.startswith(renderer_for(Settings().context.edition).titles.texts[Section.INTACT])
    assert "ANNOUNCE" in after_system.rpartition("<cache point>\n\n")[2]
    # The last attempt, which has seen the one before; what looks like a colour stays as it was sent.
    assert "[INTERRUPTED ATTEMPT]" in done.stdout
    assert "half a \x1b[31mthought" in done.stdout
    first = timeloom("replay", "--data-dir", held, "--prompt", path, "--attempt", "1").stdout
    assert "[INTERRUPTED ATTEMPT]" not in first
    printed = json.loads(timeloom("replay", "--data-dir", held, "--prompt", path, "--attempt", "1", "--json").stdout)
    assert printed["call"]["attempt"] == 1
    texts = [segment["text"] for segment in printed["segments"]]
    assert all(text in first for text in (printed["system"], *texts, printed["tail"]))


def test_a_prompt_is_found_by_the_alias_of_its_turn_within_a_conversation(held: Path) -> None:
    call = calls_of(held)[1]
    alias = re.sub(r"turn_\w+", "t1", str(call["path"]))
    long = timeloom("replay", str(call["conversation"]), "--data-dir", held, "--prompt", str(call["path"]))
    done = timeloom("replay", str(call["conversation"]), "--data-dir", held, "--prompt", alias)
    assert (done.returncode, done.stdout) == (0, long.stdout)
    several = timeloom("replay", "--data-dir", held, "--prompt", alias)
    assert (several.returncode, "pass --conversation too" in several.stderr) == (2, True)
    nothing = timeloom("replay", str(call["conversation"]), "--data-dir", held, "--prompt", "ar:t99.react.model.1")
    assert (nothing.returncode, "t99 names no turn" in nothing.stderr) == (2, True)


def test_the_prompt_of_a_title_is_asked_for_by_its_purpose(held: Path) -> None:
    titles = [call for call in calls_of(held) if call["purpose"] == "title"]
    assert titles
    done = timeloom("replay", "--data-dir", held, "--prompt", str(titles[0]["path"]), "--purpose", "title")
    assert done.returncode == 0
    assert "write a note" in done.stdout
    assert "ANNOUNCE" not in done.stdout


def test_a_changed_entry_is_found_though_its_checksum_fits(data_dir: Path) -> None:
    name = tamper(data_dir, 3, b"write a note", b"write a nope")
    assert "[chain_broken]" in timeloom("verify", "--data-dir", data_dir).stdout
    done = timeloom("replay", "--data-dir", data_dir, "--verify")
    assert done.returncode == 1
    (finding,) = [line for line in done.stdout.splitlines() if "[replay_differs]" in line]
    assert finding.startswith(f"{name}: entry 5, attempt 1 of ar:turn_")
    assert "something in entries 1 to 5 was changed" in finding
    assert "differ: 4" in done.stdout
    lines = timeloom("replay", "--data-dir", data_dir, "--verify", "--json").stdout.splitlines()
    assert [one["kind"] for one in map(json.loads, lines)] == ["finding", "conversation", "conversation", "summary"]
    prompt = timeloom("replay", "--data-dir", data_dir, "--prompt", str(calls_of(data_dir)[0]["path"]))
    assert prompt.returncode == 1
    assert "write a nope" in prompt.stdout
    assert "it is built from entries 1-4 [replay_differs]" in prompt.stderr


def test_a_changed_tail_is_blamed_on_the_call(data_dir: Path) -> None:
    tamper(data_dir, 5, b'"tail":"', b'"tail":"not ')
    done = timeloom("replay", "--data-dir", data_dir)
    assert done.returncode == 1
    assert "its own system text, tail or hash was changed" in done.stdout
    assert done.stdout.count(" differs ") == 1


def test_a_damaged_conversation_is_named_and_the_others_are_checked(data_dir: Path) -> None:
    with closing(sqlite3.connect(data_dir / "journal.db")) as journal, journal:
        journal.execute("UPDATE entries SET record = zeroblob(9) WHERE place = (1 << 32) + 9")
    done = timeloom("replay", "--data-dir", data_dir, "--verify")
    assert done.returncode == 1
    assert "[entry_damaged]" in done.stdout
    assert "model calls: 4, all the same" in done.stdout
    assert "Traceback" not in done.stderr
    demo = json.loads(timeloom("replay", "--data-dir", data_dir, "--json").stdout.splitlines()[-1])
    prompt = timeloom("replay", "--data-dir", data_dir, "--prompt", demo["path"])
    assert prompt.returncode == 0
    assert "[entry_damaged]" in prompt.stderr


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--conversation", "conv_nope"], 1, "conversation_unknown"),
        (["--conversation", "conv_nope", "--verify"], 1, "conversation_unknown"),
        (["--prompt", "ar:turn_1.react.model.1"], 1, "path_not_found"),
        (["--prompt", "ar:turn_1.user.prompt"], 2, "ar:<turn>.react.model.<round>"),
        (["--prompt", "nonsense"], 2, "path_malformed"),
        (["--prompt", "ar:turn_1.react.model.1", "--verify"], 2, "--verify"),
        (["--attempt", "1"], 2, "--prompt"),
        (["--purpose", "title"], 2, "--prompt"),
    ],
)
def test_what_cannot_be_done_is_said_without_a_traceback(held: Path, options: list[str], code: int, words: str) -> None:
    done = timeloom("replay", "--data-dir", held, *options)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_an_attempt_that_was_not_made_is_an_error_that_names_those_that_were(held: Path) -> None:
    path = str(calls_of(held)[1]["path"])
    done = timeloom("replay", "--data-dir", held, "--prompt", path, "--attempt", "7")
    assert done.returncode == 1
    assert "has attempts 1, 2; got 7" in done.stderr


def test_one_conversation_alone_can_be_checked(held: Path) -> None:
    name = str(calls_of(held)[0]["conversation"])
    done = timeloom("replay", "--data-dir", held, "--conversation", name, "--verify")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("Replayed conversations: 1, ")


def test_a_prompt_drives_no_terminal(held: Path) -> None:
    path = str(calls_of(held)[1]["path"])
    with PseudoTerminal("replay", "--data-dir", str(held), "--prompt", path, columns=200, rows=50) as terminal:
        terminal.wait("half a ␛[31mthought")
        assert b"\x1b[31m" not in terminal.raw
