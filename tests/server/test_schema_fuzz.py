"""Requests made from the OpenAPI document, good and bad ones, to a server process: responses are as it says.

No status, media type, header, field or error code is undocumented, and no request is answered with the server's own
fault. The requests are the same each time. Where an address names a conversation, most name one that is there.
"""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis import checks as any_checks
from schemathesis.core.transport import Response
from schemathesis.specs.openapi import checks as openapi_checks

from tests.harness.replies import answers
from tests.server.server_harness import CHAT, LIST, calls
from timeloom.server.endpoints import ENDPOINTS, Endpoint

pytestmark = pytest.mark.slow

EXAMPLES = 30
"""Requests for each operation. Twice as many take twice the time; all operations together may take 40 seconds."""

POSITIVE, NEGATIVE = GenerationMode("positive"), GenerationMode("negative")

checks: Any = openapi_checks

CHECKS: list[Any] = [
    cast(Any, any_checks).not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]

FORM_REFUSED = 303
"""The answer to a page's own form, also to one that is refused."""

STREAM_BYTES = 4096
"""How much of an event stream is read; a stream of a conversation does not end."""

SCRIPT = (
    {"reply": calls("react.write", path="files/a.md", content="text", channel="canvas")},
    {"reply": answers("Done."), "repeat": True},
)

SETTINGS = """
model = "script:script.yaml"
[server]
port = 0
mode = "tokens"
tokens_file = "keys.toml"
[server.limits]
requests_per_s = 100000
burst = 100000
failures_per_minute = "none"
"""


class Fuzzed:
    """A server that is asked, and ids that lead somewhere there."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.headers = {"authorization": f"Bearer {token}"}
        self.schema: Any = schemathesis.openapi.from_url(f"{url}/openapi.json")
        self.names: dict[str, str] = {"tenant": "home", "project": "demo", "call_id": "0123456789ab"}

    def prepare(self) -> None:
        """A conversation with a turn and a file."""
        said = requests.post(f"{self.url}{CHAT}", json={"message": "go"}, headers=self.headers, timeout=30).json()
        self.names |= {"conversation_id": said["conversation_id"], "turn_id": said["turn_id"]}
        while self._get("status")["state"] != "idle":
            pass
        (file,) = self._get("files")["files"]
        self.names |= {"path": file["path"], "rn": file["rn"]}

    def _get(self, what: str) -> Any:
        address = f"{self.url}{LIST}/{self.names['conversation_id']}/{what}"
        return requests.get(address, headers=self.headers, timeout=30).json()


def run_timeloom(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "timeloom", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, env=environ()).stdout.strip()


def environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIMELOOM_")}
    return kept | {"PYTHONUNBUFFERED": "1", "TIMELOOM_CONFIG": "timeloom.toml"}


@contextmanager
def serving(folder: Path) -> Generator[Fuzzed]:
    """Run the server in a process of its own."""
    (folder / "script.yaml").write_text(json.dumps(SCRIPT))
    (folder / "timeloom.toml").write_text(SETTINGS)
    who = ("--tenant", "*", "--project", "*", "--user", "op", "--role", "admin")
    token = run_timeloom(folder, "keys", "add", "--tokens-file", "keys.toml", *who)
    command = [sys.executable, "-m", "timeloom", "serve"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, env=environ()) as process,
    ):
        assert process.stdout is not None
        try:
            yield Fuzzed(process.stdout.readline().removeprefix("serving on ").strip(), token)
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Generator[Fuzzed]:
    with serving(tmp_path_factory.mktemp("fuzzed")) as server:
        yield server


def name_what_is_there(case: Any, server: Fuzzed) -> None:
    """Put ids of the server into the request; in a bad one only into its path, so that the rest stays bad."""
    parts = (case.path_parameters,) if is_bad(case) else (case.path_parameters, case.query, case.body)
    for part in parts:
        if isinstance(part, dict):
            named = cast("dict[str, object]", part)
            named |= {name: value for name, value in server.names.items() if isinstance(named.get(name), str)}


def is_bad(case: Any) -> bool:
    return case.meta.generation.mode == NEGATIVE


def ask(case: Any, server: Fuzzed) -> Response:
    """Return the response; of a stream, its first events."""
    sent = case.as_transport_kwargs(base_url=server.url)
    sent["headers"] = {**sent.get("headers", {}), **server.headers}
    with requests.request(**sent, stream=True, timeout=30, allow_redirects=False) as response:
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        return Response(
            status_code=response.status_code,
            headers={name: [value] for name, value in response.headers.items()},
            content=whole_events(response) if is_stream else response.content,
            request=response.request,
            elapsed=response.elapsed.total_seconds(),
            verify=True,
        )


def whole_events(response: requests.Response) -> bytes:
    """Return the events at the beginning of a stream, without one that is cut."""
    read = bytearray()
    for piece in response.iter_content(STREAM_BYTES):
        read += piece
        if len(read) >= STREAM_BYTES or b"\n\n" in read:
            break
    head, end, _ = bytes(read).rpartition(b"\n\n")
    return head + end


@pytest.mark.parametrize("operation", ENDPOINTS, ids=lambda one: one.name)
def test_every_response_is_as_the_document_says(fuzzed: Fuzzed, operation: Endpoint) -> None:
    fuzzed.prepare()
    described = fuzzed.schema[operation.path][operation.method]
    cases = [described.as_strategy(generation_mode=mode) for mode in (POSITIVE, NEGATIVE)]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=(HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large),
    )
    # One in eight names what is not there.
    @given(case=st.one_of(cases), chance=st.integers(0, 7))
    def check(case: Any, chance: int) -> None:
        if chance > 0:
            name_what_is_there(case, fuzzed)
        response = ask(case, fuzzed)
        # What is bad may be a missing token, but each request is sent with a good one.
        must_fail = is_bad(case) and "Authorization" in (case.headers or {}) and response.status_code != FORM_REFUSED
        case.validate_response(response, checks=[*CHECKS, *([checks.negative_data_rejection] if must_fail else [])])

    check()
