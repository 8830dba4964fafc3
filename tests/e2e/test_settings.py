"""Settings as their user meets them: files, variables and options of real processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LOOP = """
- reply: |
    <channel:ReactDecisionOutV2>{"action":"call_tool","tool_call":{"tool_id":"react.write",
    "params":{"path":"files/note.md","content":"# A note of some length"}}}</channel:ReactDecisionOutV2>
  repeat: true
- {reply: Never ending, when: title, repeat: true}
"""
OWN = ("TIMELOOM_", "AI_REACT_", "ANTHROPIC_", "OPENAI_", "MODALITY_")


def timeloom(folder: Path, *arguments: str, typed: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in the folder, with these variables and no others that set anything; its file is named."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    return subprocess.run(
        [sys.executable, "-m", "timeloom", *arguments],
        cwd=folder,
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        env=kept | {"COLUMNS": "100", "TIMELOOM_CONFIG": "timeloom.toml"} | environ,
    )


def blocks(done: subprocess.CompletedProcess[str], kind: str) -> list[str]:
    """The blocks of that type that the turn left, as text."""
    events = [json.loads(line) for line in done.stdout.splitlines()]
    found = [one["block"] for one in events if one["event"] == "chat.block"]
    return [json.dumps(block) for block in found if block["type"] == kind]


def rounds(done: subprocess.CompletedProcess[str]) -> int:
    """How many rounds the turn had."""
    return len(blocks(done, "react.round.start"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "loop.yaml").write_text(LOOP)
    (tmp_path / "timeloom.toml").write_text(
        'model = "script:loop.yaml"\ndata_dir = "kept"\ntitle_model = "none"\n[react]\nmax_iterations = 2\n'
    )
    return tmp_path


def test_chat_takes_the_file_then_the_variable_over_it_then_the_option_over_both(folder: Path) -> None:
    chat = ("chat", "--json")
    seen = [
        rounds(timeloom(folder, *chat, typed="go\n")),
        rounds(timeloom(folder, *chat, typed="go\n", AI_REACT_MAX_ITERATIONS="3")),
        rounds(timeloom(folder, *chat, typed="go\n", AI_REACT_MAX_ITERATIONS="3", TIMELOOM_REACT_MAX_ITERATIONS="4")),
        rounds(timeloom(folder, *chat, "--max-iterations", "1", typed="go\n", TIMELOOM_REACT_MAX_ITERATIONS="4")),
    ]
    assert seen == [2, 3, 4, 1]
    assert (folder / "kept" / "journal.db").exists()
    exported = timeloom(folder, "export", "--json").stdout.splitlines()
    assert len(exported) == 4
    assert '"Never ending"' not in "".join(exported)


def test_chat_keeps_to_the_budgets_and_policies_that_are_set(folder: Path) -> None:
    config = folder / "timeloom.toml"
    config.write_text(config.read_text() + "[budget.turn]\nrounds = 1\n")
    (ended,) = blocks(timeloom(folder, "chat", "--json", typed="go\n"), "react.turn.end")
    assert "budget_exhausted" in ended
    assert "the turn's budget is used up" in ended
    lifted = {"TIMELOOM_BUDGET_TURN_ROUNDS": "none"}
    done = timeloom(folder, "chat", "--json", typed="go\n", TIMELOOM_POLICY_TOOLS="web.*", **lifted)
    assert ["react.write may not be called here" in one for one in blocks(done, "react.gate")] == [True]
    assert "gate_refused" in "".join(blocks(done, "react.tool.result"))
    assert "max_iterations" in "".join(blocks(done, "react.turn.end"))
    done = timeloom(folder, "chat", "--json", "--ask-before", "react.*", typed="go\n", **lifted)
    assert len(blocks(done, "react.approval.request")) == 1
    assert blocks(done, "react.tool.result") == []


def test_the_model_of_titles_is_the_conversations_own_or_the_one_that_is_named(folder: Path) -> None:
    (folder / "titles.yaml").write_text("- {reply: Named by another, when: title}")
    own = timeloom(folder, "chat", "--json", "--title-model", "", typed="go\n").stdout
    named = timeloom(folder, "chat", "--json", typed="go\n", TIMELOOM_TITLE_MODEL="script:titles.yaml").stdout
    assert "Never ending" in own
    assert "Named by another" in named


def test_another_file_is_taken_where_it_is_named(folder: Path) -> None:
    (folder / "other.toml").write_text('openai.base_url = "http://127.0.0.1:1/v1"')
    said = json.loads(timeloom(folder, "settings", "--json", "--config", "other.toml").stdout)
    assert said["openai.base_url"] == {
        "value": "http://127.0.0.1:1/v1",
        "from": "openai.base_url in other.toml, line 1",
    }
    assert said["react.max_iterations"] == {"value": 15, "from": "default"}
    assert json.loads(timeloom(folder, "settings", "--json", TIMELOOM_CONFIG="other.toml").stdout) == said


def test_settings_are_listed_with_where_they_come_from(folder: Path) -> None:
    done = timeloom(
        folder, "settings", "--data-dir", "a\x1bb", OPENAI_API_KEY="sk-secret", TIMELOOM_INSTRUCTIONS="x" * 500
    )
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in done.stdout.splitlines()}
    assert (done.returncode, done.stderr) == (0, "")
    assert lines["data_dir"] == "'a\\x1bb' (--data-dir)"
    assert lines["model"] == "script:loop.yaml (model in timeloom.toml, line 1)"
    assert lines["react.max_iterations"] == "2 (react.max_iterations in timeloom.toml, line 5)"
    assert lines["openai.api_key"] == "*** (OPENAI_API_KEY)"
    assert lines["anthropic.api_key"] == "- (default)"
    assert lines["instructions"] == f"{'x' * 100}… (TIMELOOM_INSTRUCTIONS)"
    assert "sk-secret" not in done.stdout + timeloom(folder, "settings", "--json", OPENAI_API_KEY="sk-secret").stdout


def test_a_wrong_setting_is_an_error_of_usage_wherever_it_is_said(folder: Path) -> None:
    for done, words in [
        (timeloom(folder, "chat", "--max-iterations", "lots"), "--max-iterations is 'lots'; expected a whole number"),
        (timeloom(folder, "chat", AI_REACT_AGENT_VERSION="v2"), "AI_REACT_AGENT_VERSION is 'v2'; expected `v3`"),
        (timeloom(folder, "verify", "--config", "nowhere.toml"), "nowhere.toml cannot be read"),
        (timeloom(folder, "verify", "--data-dir", ""), "--data-dir is ''; expected a path"),
    ]:
        assert done.returncode == 2
        assert words in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr
    (folder / "timeloom.toml").write_text("[react]\nmax_iteration = 3\n")
    for command in ("chat", "demo", "export", "settings", "verify"):
        done = timeloom(folder, command)
        assert done.returncode == 2
        assert "line 2: there is no setting `react.max_iteration`; did you mean `react.max_iterations`?" in done.stderr


def test_a_variable_that_sets_nothing_is_warned_about(folder: Path) -> None:
    for command in ("settings", "demo"):
        done = timeloom(folder, command, TIMELOOM_DATA_DIRR="x")
        assert done.returncode == 0
        assert (
            "warning: the variable TIMELOOM_DATA_DIRR is not a setting; did you mean TIMELOOM_DATA_DIR?" in done.stderr
        )


def test_a_file_that_nobody_named_starts_no_program(folder: Path) -> None:
    (folder / "evil.sh").write_text("#!/bin/sh\ntouch ran\n")
    (folder / "evil.sh").chmod(0o755)
    config = folder / "timeloom.toml"
    config.write_text(f'model = "script:loop.yaml"\nexecution.runtime.python = "{folder / "evil.sh"}"\n')
    for command in (("chat",), ("settings",), ("export", "--json"), ("verify",)):
        done = timeloom(folder, *command, typed="go\n", TIMELOOM_CONFIG="")
        said = " ".join(done.stderr.split())
        assert done.returncode == 2
        assert "execution.runtime.python in timeloom.toml, line 2 chooses what runs on this machine" in said
        assert "--config timeloom.toml" in said
    assert not (folder / "ran").exists()
    assert not (folder / "data").exists()
    without = timeloom(folder, "settings", "--json", "--config", os.devnull)
    assert json.loads(without.stdout)["execution.runtime.python"] == {"value": "", "from": "default"}


def test_help_names_the_variables_and_the_default_and_needs_no_file_that_is_right(folder: Path) -> None:
    (folder / "timeloom.toml").write_text("nonsense")
    shown = " ".join(timeloom(folder, "chat", "--help").stdout.split())
    assert "TIMELOOM_REACT_MAX_ITERATIONS, TIMELOOM_MAX_ITERATIONS, AI_REACT_MAX_ITERATIONS; default: 15]" in shown
    assert "--multi-action [off|safe_fanout]" in shown
    assert "[env var: TIMELOOM_CONFIG]" in shown


def test_completion_in_a_shell_has_no_opinion_on_settings(folder: Path) -> None:
    (folder / "timeloom.toml").write_text("nonsense")
    asked = {"_TIMELOOM_COMPLETE": "bash_complete", "COMP_WORDS": "timeloom export --data-dir x --s", "COMP_CWORD": "4"}
    command = [str(Path(sys.executable).with_name("timeloom"))]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **asked, "TIMELOOM_X": ""}
    )
    assert "--sources" in done.stdout
    assert done.stderr == ""
