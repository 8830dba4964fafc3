"""`timeloom model check` as a separate process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPLY = """\
- reply: |-
    <channel:thinking>
    hm
    </channel:thinking>
    <channel:ReactDecisionOutV2>
    {"action": "complete", "final_answer": "Paris, I think."}
    </channel:ReactDecisionOutV2>
  chunk: 20
  repeat: true
"""


def check(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "timeloom", "model", "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=folder)


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "play.yaml"
    path.write_text(REPLY)
    return f"script:{path}"


def test_a_scripted_model_is_scored_in_a_table_and_as_json(script: str, tmp_path: Path) -> None:
    done = check(
        "--model", script, "--only", "answer-capital", "--only", "plan-trip", "--only", "stream", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "script:play.yaml: score 50%, well-formed 100%" in done.stdout
    assert "requests  2      2            1           1                 1" in done.stdout
    assert "ok    a cut is noticed" in done.stdout
    assert "plan-trip: react.plan is expected, got answer" in done.stderr
    done = check("--model", script, "--limit", "1", "--json", folder=tmp_path)
    report = json.loads(done.stdout)
    assert [(case["group"], case["verdict"]["well_formed"]) for case in report["cases"]] == [
        ("requests", True),
        ("recovery", True),
        ("odd", True),
    ]


def test_a_threshold_decides_the_exit_code(script: str, tmp_path: Path) -> None:
    arguments = ("--model", script, "--only", "answer-capital", "--only", "plan-trip", "--threshold")
    assert check(*arguments, "0.5", folder=tmp_path).returncode == 0
    assert check(*arguments, "0.6", folder=tmp_path).returncode == 1


def test_a_model_that_cannot_be_asked_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text("- {error: overloaded, repeat: true}\n")
    done = check("--model", f"script:{tmp_path}/none.yaml", "--only", "requests", "--limit", "2", folder=tmp_path)
    assert done.returncode == 1
    done = check("--model", "nobody:x", folder=tmp_path)
    assert (done.returncode, "[model_unknown]" in done.stderr) == (1, True)


def test_a_case_that_is_none_is_an_error_of_usage(script: str, tmp_path: Path) -> None:
    done = check("--model", script, "--only", "nothing", folder=tmp_path)
    assert done.returncode == 2
    assert "'nothing' is not a group (requests, recovery, odd, stream) or a case" in done.stderr


def test_the_local_model_is_checked_where_none_is_named(tmp_path: Path) -> None:
    done = check("--only", "write-quoted", "--only", "odd-tag", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "This is a demo model" in done.stderr
    assert "local: score 100%, well-formed 100%" in done.stdout


RAW_ANSWER = """\
- reply: |-
    <channel:final_answer>
    Paris, I think.
    </channel:final_answer>
  repeat: true
"""


def test_prompts_and_replies_have_the_edition_of_the_option_or_the_settings(tmp_path: Path) -> None:
    (tmp_path / "raw.yaml").write_text(RAW_ANSWER)
    (tmp_path / "own.toml").write_text("[context]\nedition = 2\n")
    arguments = ("--model", f"script:{tmp_path}/raw.yaml", "--only", "answer-capital", "--json")
    reports = [
        json.loads(check(*arguments, *more, folder=tmp_path).stdout)
        for more in (("--edition", "1"), ("--edition", "2"), ("--config", "own.toml"))
    ]
    # Edition 1 has no channel for the answer.
    assert [(report["edition"], report["score"]) for report in reports] == [(1, 0.0), (2, 1.0), (2, 1.0)]


def test_native_tool_calling_is_refused_for_a_model_without_it(script: str, tmp_path: Path) -> None:
    done = check("--model", script, "--only", "answer-capital", "--protocol", "native", folder=tmp_path)
    assert done.returncode == 1
    assert "has no native tool calling; use --protocol channels" in done.stderr


def test_an_endpoint_is_scored_under_both_protocols(tmp_path: Path) -> None:
    (tmp_path / "play.yaml").write_text(REPLY)
    serve = [sys.executable, "-m", "timeloom", "model", "serve", "--script", "play.yaml", "--port", "0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            (tmp_path / "timeloom.toml").write_text(f'[openai]\nbase_url = "{url}/v1"\n')
            arguments = ("--config", "timeloom.toml", "--model", "openai:m", "--only", "requests", "--limit", "2")
            done = check(*arguments, folder=tmp_path)
            assert done.returncode == 0, done.stderr
            assert "openai:m, channels: score" in done.stdout
            assert "openai:m, native: score" in done.stdout
            assert "well-formed (channels/native)" in done.stdout
            assert "2/2" in done.stdout
            report = json.loads(check(*arguments, "--json", folder=tmp_path).stdout)
            assert [one["protocol"] for one in report["reports"]] == ["channels", "native"]
        finally:
            server.terminate()
