"""The server's settings end to end: variables, keys added while it runs, and refused values."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

ROOT = Path(__file__).resolve().parents[2]
KEYS = ("--tokens-file", "keys.toml")


def environ(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIMELOOM_")}
    return kept | {"PYTHONUNBUFFERED": "1", "TIMELOOM_CONFIG": "timeloom.toml"} | more


def timeloom(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "timeloom", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=60, env=environ(**variables)
    )


@contextmanager
def serving(folder: Path, *arguments: str, **variables: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """The process and its address."""
    command = [sys.executable, "-m", "timeloom", "serve", *arguments]
    with (
        (folder / "log").open("a") as log,
        subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, env=environ(**variables)
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().removeprefix("serving on ").strip()
        finally:
            process.terminate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.yaml").write_text(json.dumps([{"reply": "x"}]))
    (tmp_path / "timeloom.toml").write_text('model = "script:script.yaml"\n[server]\nport = 0\n')
    return tmp_path


def test_keys_are_made_and_known_to_a_server_that_runs(folder: Path) -> None:
    who = ("--tenant", "home", "--project", "demo")
    first = timeloom(folder, "keys", "add", *KEYS, *who, "--user", 'ann "a" é')
    assert (first.returncode, first.stderr) == (0, "")
    ann = first.stdout.strip()
    assert re.fullmatch(r"[0-9a-f]{64}", ann)
    file = folder / "keys.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    assert ann not in file.read_text()
    with serving(folder, "--mode", "tokens", *KEYS) as (_, address), httpx2.Client(base_url=address) as http:

        def status(token: str) -> int:
            path = "/conversations/home/demo"
            return http.get(path, headers={"authorization": f"Bearer {token}"}).status_code

        assert status(ann) == 200
        bob = timeloom(folder, "keys", "add", *who, "--user", "bob", TIMELOOM_SERVER_TOKENS_FILE="keys.toml")
        assert bob.returncode == 0
        while status(bob.stdout.strip()) == 401:
            pass
        assert status(ann) == 200
        known = [json.loads(line) for line in timeloom(folder, "keys", "list", *KEYS, "--json").stdout.splitlines()]
        assert [one["user"] for one in known] == ['ann "a" é', "bob"]
        assert timeloom(folder, "keys", "remove", *KEYS, known[0]["id"]).returncode == 0
        while status(ann) == 200:
            pass
        assert status(bob.stdout.strip()) == 200
        assert "bob" in timeloom(folder, "keys", "list", *KEYS).stdout
        refused = timeloom(folder, "keys", "remove", *KEYS, known[0]["id"])
        assert (refused.returncode, "no key has the id" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tokens-file", "k.toml", "--tenant", "a/b"), "invalid owner of a key"),
        (("--tokens-file", "k.toml", "--tenant", "a", "--role", "king"), "king"),
        (("--tokens-file", "k.toml", "--tenant", "a", "--user", "an\u200bn"), "a user name must have 1 to 128 visible"),
        (("--tenant", "a"), "--tokens-file"),
    ],
)
def test_what_is_no_key_is_an_error_of_usage(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    refused = timeloom(folder, "keys", "add", "--user", "ann", "--project", "p", *arguments)
    assert (refused.returncode, words in refused.stderr) == (2, True), refused.stderr
    assert not (folder / "k.toml").exists()


def test_a_file_of_keys_that_is_broken_is_not_made_worse(folder: Path) -> None:
    (folder / "keys.toml").write_text("keys = 3")
    refused = timeloom(folder, "keys", "add", *KEYS, "--tenant", "a", "--project", "p", "--user", "ann")
    assert (refused.returncode, "[config_unreadable]" in refused.stderr) == (1, True)
    assert (folder / "keys.toml").read_text() == "keys = 3"


def test_variables_set_the_server_and_a_strange_name_is_not_answered(folder: Path) -> None:
    token = "a-token-of-my-own-choice"
    with serving(folder, TIMELOOM_SERVER_TOKEN=token, TIMELOOM_SERVER_METRICS="open") as (process, address):
        assert process.stdout is not None
        assert process.stdout.readline().strip() == f"token: {token}"
        assert "timeloom_turns_running 0.0" in httpx2.get(f"{address}/metrics").text
        assert httpx2.get(f"{address}/health", headers={"host": "evil.example"}).status_code == 421
    assert token not in (folder / "log").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--mode", "oidc"), "server.oidc.issuer"),
        (("--mode", "tokens"), "needs --tokens-file"),
        (("--port", "99999"), "65535"),
    ],
)
def test_a_server_that_cannot_be_is_refused_with_what_to_do(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    refused = timeloom(folder, "serve", *arguments)
    assert (refused.returncode != 0, words in refused.stderr) == (True, True), refused.stderr
    assert not (folder / "data").exists()


def test_who_is_let_in_is_not_said_by_a_file_that_nobody_named(folder: Path) -> None:
    (folder / "timeloom.toml").write_text('[server]\nmode = "tokens"\n')
    refused = timeloom(folder, "serve", TIMELOOM_CONFIG="")
    assert (refused.returncode, "was found in this folder and not named" in refused.stderr) == (2, True)
    (folder / "timeloom.toml").unlink()
    short = timeloom(folder, "serve", TIMELOOM_CONFIG="", TIMELOOM_SERVER_TOKEN="short")
    assert (short.returncode, "TIMELOOM_SERVER_TOKEN" in short.stderr) == (2, True)


def test_make_run_serves() -> None:
    """What make would run: running it also sets up, which a test beside others must not."""
    shown = subprocess.run(
        ["make", "-n", "--no-print-directory", "run", "DATA_DIR=kept", "ARGS=--port 8800"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.splitlines()[-1] == 'exec .venv/bin/timeloom serve --data-dir "kept" --port 8800'


def test_scripts_of_one_file_name_are_two_models_to_run_again_with(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "script.yaml").write_text(json.dumps([{"reply": name}]))
    models = "script:one/script.yaml,script:two/script.yaml,script:one/script.yaml"
    token = "of-this-test-alone"
    with serving(folder, TIMELOOM_SERVER_MODELS=models, TIMELOOM_SERVER_TOKEN=token) as (_, address):
        me = httpx2.get(f"{address}/me", headers={"authorization": f"Bearer {token}"}).json()
    assert me["models"] == ["script:script.yaml", "script:one/script.yaml", "script:two/script.yaml"]
