"""`timeloom model serve` as a separate process."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from timeloom.ports.model import ModelRequest, TextSegment
from timeloom.providers.registry import open_model
from timeloom.providers.settings import ModelSettings
from timeloom.testing.model_contract.fixtures import call_model

REQUEST = ModelRequest(system="", segments=(TextSegment("hello"),))


@contextmanager
def serving(script: Path, *more: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "timeloom", "model", "serve", "--script", str(script), *more]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert found, line
            yield process, found[0]
        finally:
            process.kill()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "play.yaml"
    path.write_text("- {reply: hello from the script, chunk: 5}\n- {reply: slow, chunk: 1, delay_ms: 600000}\n")
    return path


def test_it_answers_both_kinds_of_clients_and_leaves_when_told(script: Path) -> None:
    async def ask(url: str) -> None:
        for name, base in (("anthropic:m", url), ("openai:m", f"{url}/v1")):
            model = open_model(name, ModelSettings(base_url=base), environ={})
            assert (await call_model(model, REQUEST)).text == "hello from the script"
            await model.close()

    with serving(script, "--port", "0") as (process, url):
        asyncio.run(ask(url))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_it_leaves_while_a_reply_is_on_its_way(script: Path) -> None:
    body = b'{"model":"m","stream":true,"messages":[{"role":"assistant","content":"one"}]}'
    head = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    with serving(script, "--port", "0") as (process, url), socket.socket() as client:
        client.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        client.sendall(head + body)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def refusal(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "timeloom", "model", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_script_that_is_none_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("- reply: a\n- replyy: b\n")
    done = refusal("--script", str(tmp_path / "bad.yaml"))
    assert done.returncode == 1
    assert "item 2 (line 2) has unknown keys `replyy`" in done.stderr
    assert "[script_malformed]" in done.stderr


def test_a_port_that_is_taken_is_said_to_be_taken(script: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = refusal("--script", str(script), "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert "choose another with --port" in done.stderr
