"""`timeloom worker` as its user meets it: after a program was killed in the middle of a turn."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = """
- reply: |
    <channel:ReactDecisionOutV2>{"action":"call_tool","tool_call":{"tool_id":"react.write",
    "params":{"path":"files/note.md","content":"# Note"}}}</channel:ReactDecisionOutV2>
- reply: |
    <channel:ReactDecisionOutV2>{"action":"complete","final_answer":"It is written."}</channel:ReactDecisionOutV2>
  delay_ms: DELAY
- when: title
  reply: A note
"""


def command(folder: Path, name: str, *more: str, delay_ms: int = 0) -> list[str]:
    script = folder / f"{delay_ms}.yaml"
    script.write_text(SCRIPT.replace("DELAY", str(delay_ms)))
    run = [sys.executable, "-m", "timeloom", name, "--data-dir", str(folder / "data"), "--model", f"script:{script}"]
    return [*run, *more]


def worker(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, "worker", *more), capture_output=True, text=True, check=False)


def killed_chat(folder: Path) -> str:
    """The conversation of a chat that was killed while its model had its second answer on the way."""
    pipe = subprocess.PIPE
    chat = command(folder, "chat", "--json", delay_ms=3_600_000)
    with subprocess.Popen(chat, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write("write a note\n")
            process.stdin.flush()
            conversation = str(json.loads(process.stdout.readline())["conversation_id"])
            for _ in range(2):
                while '"react.model.call"' not in process.stdout.readline():
                    assert process.poll() is None
            held = worker(folder)
        finally:
            process.kill()
    assert held.returncode == 0
    assert held.stdout.startswith(f"{conversation}: is held by ")
    assert f"process {process.pid}" in held.stdout
    return conversation


def test_a_turn_that_was_killed_is_gone_on_with_once(tmp_path: Path) -> None:
    conversation = killed_chat(tmp_path)
    done = worker(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{conversation}: ended, completed\n", "")
    again = worker(tmp_path)
    assert (again.returncode, again.stdout) == (0, "no turn is open\n")
    export = [sys.executable, "-m", "timeloom", "export", "--data-dir", str(tmp_path / "data"), "--json"]
    printed = subprocess.run(export, capture_output=True, text=True, check=True).stdout
    assert printed.count('"It is written."') == 1
    assert printed.count('"type":"react.tool.call"') == 1


def test_what_came_of_a_turn_is_printed_as_json(tmp_path: Path) -> None:
    conversation = killed_chat(tmp_path)
    done = worker(tmp_path, "--json", "--ask-before", "react.*")
    assert json.loads(done.stdout) == {"type": "ended", "conversation": conversation, "reason": "completed"}
    assert worker(tmp_path, "--json").stdout == ""


def test_a_conversation_that_cannot_be_gone_on_with_is_an_error_that_says_so(tmp_path: Path) -> None:
    conversation = killed_chat(tmp_path)
    workspaces = tmp_path / "data" / "workspaces"
    for path in sorted(workspaces.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (workspaces / conversation).write_text("in the way")
    # As before, but once more with a tool, which needs the folder.
    once_more = tmp_path / "once_more.yaml"
    once_more.write_text(SCRIPT.split("- reply", 2)[1].join(["- reply", "  repeat: 2\n"]))
    failed = worker(tmp_path, "--model", f"script:{once_more}")
    assert failed.returncode == 1
    assert failed.stdout.startswith(f"{conversation}: failed: the conversation's folder cannot be made: File exists")


def test_in_a_folder_without_conversations_there_is_nothing_to_do(tmp_path: Path) -> None:
    done = worker(tmp_path)
    assert done.returncode == 0
    assert "no turn is open: there are no conversations" in done.stdout
    assert worker(tmp_path, "--json").stdout == ""
    assert not (tmp_path / "data").exists()
