"""A server with few descriptors serves its users while others open as many connections as they can."""

import json
import resource
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.e2e.test_serve_settings import environ

pytestmark = pytest.mark.slow

DESCRIPTORS = 128
CROWD = 200


@contextmanager
def serving(folder: Path) -> Generator[tuple[str, str, int]]:
    """Yield the address, the token and the process id of a server with few descriptors."""
    (folder / "script.yaml").write_text(json.dumps([{"reply": "x"}]))
    limited = f'ulimit -n {DESCRIPTORS} && ulimit -S -n {DESCRIPTORS // 2} && exec "$@"'
    command = ["sh", "-c", limited, "sh"]
    command += [sys.executable, "-m", "timeloom", "serve", "--model", "script:script.yaml", "--port", "0"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, env=environ(TIMELOOM_CONFIG="")
        ) as process,
    ):
        assert process.stdout
        try:
            address = process.stdout.readline().removeprefix("serving on ").strip()
            yield address, process.stdout.readline().removeprefix("token: ").strip(), process.pid
        finally:
            process.terminate()


def test_unfinished_requests_of_strangers_shut_nobody_out(tmp_path: Path) -> None:
    with serving(tmp_path) as (address, token, pid), ExitStack() as stack:
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] == DESCRIPTORS
        host, port = address.removeprefix("http://").split(":")
        headers = {"authorization": f"Bearer {token}"}
        user = stack.enter_context(httpx2.Client(headers=headers, timeout=60))
        for _ in range(CROWD):
            stranger = stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
            stranger.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n")
            # Few connections may wait to be accepted. Before the server answers here, it accepts those that wait.
            assert user.get(f"{address}/me").status_code == 200
        for _ in range(5):
            found = httpx2.get(f"{address}/me", headers=headers, timeout=60)
            assert found.status_code == 200
    log = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["message"] for line in log].count("connections limited") == 1
    assert not [line for line in log if line["level"] == "error"]
