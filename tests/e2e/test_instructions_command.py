"""`timeloom instructions` from outside."""

import json
from pathlib import Path

from tests.e2e.chat_harness import ChatHarness
from tests.harness.replies import answers


def test_the_instructions_of_the_settings_and_of_each_turn_are_shown(tmp_path: Path) -> None:
    stage = ChatHarness(tmp_path)
    stage.script(answers("One."), answers("Two."))
    own = tmp_path / "own.txt"
    own.write_text("Answer in rhymes.")
    stage.run("chat", "-p", "Hello", "--title-model", "none")
    conversation = stage.run("list").stdout.split()[0]
    chat = ("chat", "-p", "Again", "--title-model", "none", "--instructions-file", str(own))
    assert stage.run(*chat, "--conversation", conversation).returncode == 0
    parts = [json.loads(line) for line in stage.run("instructions", "--model", "local", "--json").stdout.splitlines()]
    assert {"name": "agent", "version": "1", "when": "always"}.items() <= parts[0].items()
    assert any(part.get("stands") is False for part in parts)
    configured = stage.run("instructions", "--model", "local", "--instructions-file", str(own)).stdout
    shown = stage.run("instructions", "--conversation", conversation, "--text").stdout
    (digest,) = [line.split()[-1] for line in shown.splitlines() if line.startswith("own instructions")]
    assert digest in configured and shown.endswith("Answer in rhymes.\n\n")
    diff = json.loads(stage.run("instructions", "--conversation", conversation, "--diff", "1", "--json").stdout)
    assert (diff["added"], diff["removed"]) == ([f"own.{digest}"], [])
    assert "+Answer in rhymes." in diff["diff"]
    same = stage.run("instructions", "--conversation", conversation, "--turn", "1", "--diff", "t1").stdout
    assert same == "turns 1 and 1 ran with the same system text\n"
    assert stage.run("instructions", "--turn", "1", "--model", "local").returncode == 2
    assert stage.run("instructions", "--conversation", conversation, "--turn", "9").returncode == 1
