"""`--tools MODULE:NAME`: one function is a tool in the terminal."""

import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.chat_harness import ChatHarness
from tests.harness.replies import answers, calls

MODULE = '''
from timeloom import tool

@tool
def weather(city: str) -> str:
    """Return the weather."""
    return "7 degrees in " + city
'''


def run(stage: ChatHarness, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "my_tools.py").write_text(MODULE)
    stage.script(calls("tools.weather", "I look.", city="Oslo"), answers("7 degrees."))
    settings = ["--data-dir", str(stage.data), "--model", f"script:{folder / 'script.yaml'}"]
    command = [sys.executable, "-m", "timeloom", *arguments, *settings]
    environ = {**os.environ, "PYTHONSAFEPATH": "1"}
    return subprocess.run(command, cwd=folder, env=environ, input="", capture_output=True, text=True, check=False)


def test_a_function_of_the_current_folder_is_called_after_its_approval(tmp_path: Path) -> None:
    stage = ChatHarness(tmp_path)
    waiting = run(stage, tmp_path, "chat", "-p", "weather?", "--tools", "my_tools:weather")
    assert waiting.returncode == 1
    assert "--tools my_tools:weather" in waiting.stderr
    words = waiting.stderr.split("to allow it:")[1].split("\n")[0].split()
    conversation, call = words[words.index("approve") + 1 :][:2]
    done = run(stage, tmp_path, "approve", conversation, call, "--tools", "my_tools:weather")
    assert (done.returncode, done.stdout.strip()) == (0, "7 degrees.")


def test_a_wrong_name_is_a_usage_error_that_creates_nothing(tmp_path: Path) -> None:
    stage = ChatHarness(tmp_path)
    done = run(stage, tmp_path, "chat", "-p", "weather?", "--tools", "my_tools:sun")
    assert done.returncode == 2
    assert "--tools: the module my_tools has no sun" in done.stderr
    assert not stage.data.exists()
