"""`--bundle` and `timeloom new`, from outside: in a pipe, with approvals, over HTTP, and in the worker."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.e2e.chat_harness import ChatHarness
from tests.e2e.test_serve_settings import serving
from tests.harness.bundles import write_bundle, write_shop
from tests.harness.replies import answers, calls

ASKS = '\n[policies]\nask_before = ["shop.*"]\n'


def timeloom(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "timeloom", *arguments]
    return subprocess.run(command, cwd=folder, input="", capture_output=True, text=True, check=False, timeout=120)


def conversations_of(stage: ChatHarness) -> list[dict[str, object]]:
    listed = stage.run("list", "--json")
    assert listed.returncode == 0, listed.stderr
    return [json.loads(line) for line in listed.stdout.splitlines()]


def test_a_conversation_in_a_pipe_has_the_tools_of_its_bundle(tmp_path: Path) -> None:
    stage = ChatHarness(tmp_path)
    stage.script(calls("shop.price", "I look.", item="Tea"), answers("It costs 3."))
    done = stage.run("chat", "-p", "tea?", "--bundle", str(write_shop(tmp_path / "shop")))
    assert (done.returncode, done.stdout.strip()) == (0, "It costs 3.")


def test_a_question_of_a_bundle_is_decided_with_the_printed_command(tmp_path: Path) -> None:
    stage = ChatHarness(tmp_path)
    folder = str(write_shop(tmp_path / "shop", more=ASKS))
    stage.script(calls("shop.price", "I look.", item="Tea"), answers("It costs 3."))
    waiting = stage.run("chat", "-p", "tea?", "--bundle", folder)
    assert waiting.returncode == 1
    words = waiting.stderr.split("to allow it:")[1].split("\n")[0].split()
    assert words[words.index("--bundle") + 1] == folder
    conversation, call = words[words.index("approve") + 1 :][:2]
    missing = stage.run("approve", conversation, call)
    assert missing.returncode == 1
    assert "[bundle_missing]" in missing.stderr
    done = stage.run("approve", conversation, call, "--bundle", folder)
    assert (done.returncode, done.stdout.strip()) == (0, "It costs 3.")


def test_the_worker_resumes_the_turns_of_bundles_that_it_has(tmp_path: Path) -> None:
    stage = ChatHarness(tmp_path)
    folder = str(write_shop(tmp_path / "shop", more=ASKS))
    stage.script(calls("shop.price", "I look.", item="Tea"))
    stage.run("chat", "-p", "tea?", "--bundle", folder)
    model = ("--model", f"script:{tmp_path / 'script.yaml'}")
    without = stage.run("worker", *model)
    assert (without.returncode, "[bundle_missing]" in without.stdout) == (1, True)
    having = stage.run("worker", *model, "--bundle", folder)
    assert (having.returncode, "waits for approval" in having.stdout) == (0, True)


def test_an_option_on_the_command_line_counts_over_the_rounds_of_a_bundle(tmp_path: Path) -> None:
    stage = ChatHarness(tmp_path)
    folder = str(write_shop(tmp_path / "shop", more="max_iterations = 9\n"))
    looks = [calls("shop.price", "I look.", item=f"Tea {n}") for n in range(4)]
    stage.script(*looks, answers("Enough."))
    free = stage.run("chat", "-p", "prices?", "--bundle", folder)
    assert free.stdout.strip() == "Enough."
    stage.script(calls("shop.price", "I look.", item="Tea"), answers("At the limit."), answers("Beyond it."))
    limited = stage.run("chat", "-p", "prices?", "--bundle", folder, "--max-iterations", "2")
    assert limited.stdout.strip() == "At the limit."


@pytest.mark.parametrize("command", ["chat", "serve", "worker", "approve"])
def test_a_bundle_that_does_not_exist_is_a_usage_error(tmp_path: Path, command: str) -> None:
    more = {"chat": ["-p", "x"], "approve": ["conv_1"]}.get(command, [])
    options = ["--data-dir", "data", "--model", "script:s.yaml", "--bundle", "./nowhere"]
    (tmp_path / "s.yaml").write_text('[{"reply": "x"}]')
    done = timeloom(tmp_path, command, *more, *options)
    assert (done.returncode, "--bundle: there is no folder './nowhere'" in done.stderr) == (2, True)
    assert not (tmp_path / "data").exists()


def test_a_faulty_bundle_is_named_with_file_and_line(tmp_path: Path) -> None:
    stage = ChatHarness(tmp_path)
    stage.script(answers("Never."))
    folder = write_bundle(tmp_path / "shop", 'name = "shop"\ntools = ["tools:x"]', tools="\nraise ValueError('no')")
    done = stage.run("chat", "-p", "x", "--bundle", str(folder))
    assert done.returncode == 1
    assert "the bundle shop is disabled: tools.py, line 2: ValueError: no [bundle_disabled]" in done.stderr


def test_a_settings_file_names_no_bundle(tmp_path: Path) -> None:
    (tmp_path / "timeloom.toml").write_text('bundles = ["./shop"]\n')
    for named in ((), ("--config", "timeloom.toml")):
        done = timeloom(tmp_path, "chat", "-p", "x", *named)
        assert (done.returncode, "there is no setting `bundles`" in done.stderr) == (2, True)


def test_a_server_runs_the_bundles_that_it_was_given_beside_a_broken_one(tmp_path: Path) -> None:
    write_shop(tmp_path / "shop")
    write_bundle(tmp_path / "broken", "name = 3")
    (tmp_path / "script.yaml").write_text(json.dumps([{"reply": calls("shop.price", "x", item="Tea")}]))
    options = ("--data-dir", "data", "--port", "0", "--model", "script:script.yaml")
    environ = {"TIMELOOM_CONFIG": os.devnull, "TIMELOOM_SERVER_TOKEN": "t" * 32}
    with serving(tmp_path, *options, "--bundle", "broken", "--bundle", "./shop", **environ) as (_, address):
        headers = {"authorization": f"Bearer {'t' * 32}"}
        listed = httpx2.get(f"{address}/bundles/local/default", headers=headers).json()
        assert [(one["name"], one["state"]) for one in listed["bundles"]] == [("broken", "disabled"), ("shop", "ready")]
        assert "bundle.toml, line 1: `name`: expected `str`" in listed["bundles"][0]["fault"]
        assert httpx2.get(f"{address}/health").json()["bundles"][0]["place"] == "bundle.toml, line 1"
        message = {"message": "tea?", "bundle": "shop"}
        sent = httpx2.post(f"{address}/chat/local/default", json=message, headers=headers)
        assert sent.status_code == 202, sent.text
    logged = (tmp_path / "log").read_text().splitlines()[0]
    assert "the bundle broken is disabled: bundle.toml, line 1" in json.loads(logged)["message"]


def test_a_new_bundle_has_a_test_that_passes(tmp_path: Path) -> None:
    written = timeloom(tmp_path, "new", "tea-shop")
    assert written.returncode == 0, written.stderr
    assert "timeloom chat --bundle ./tea-shop" in written.stdout
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tea-shop"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert "1 passed" in tested.stdout, tested.stdout
    stage = ChatHarness(tmp_path)
    stage.script(calls("tea_shop.greet", "I greet.", name="Ada"), answers("Hello, Ada!"))
    done = stage.run("chat", "-p", "Greet Ada", "--bundle", str(tmp_path / "tea-shop"))
    assert (done.returncode, done.stdout.strip()) == (0, "Hello, Ada!")


@pytest.mark.parametrize(
    ("name", "words"), [("3x", "begins with a letter"), ("a/b", "letters, digits"), ("x", "exists")]
)
def test_a_wrong_name_for_a_new_bundle_is_a_usage_error(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "x").mkdir()
    done = timeloom(tmp_path, "new", name)
    assert (done.returncode, words in done.stderr) == (2, True)
