"""Requests made from the OpenAPI document, good and bad ones: none of them is answered with the server's own fault.

The requests are the same each time. Where an address names a conversation, most name one that is there.
"""

import asyncio
import threading
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

from tests.harness.replies import answers
from tests.server.server_harness import CHAT, LIST, ServerHarness, calls, repeated_reply
from timeloom.server.endpoints import ENDPOINTS, Endpoint

EXAMPLES = 20
"""Requests for each operation."""

POSITIVE, NEGATIVE = GenerationMode("positive"), GenerationMode("negative")

ROOT = {"authorization": "Bearer operator"}


class Fuzzed:
    """A server that is asked, and ids that lead somewhere there."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.schema: Any = schemathesis.openapi.from_url(f"{url}/openapi.json")
        self.names: dict[str, str] = {"tenant": "home", "project": "demo", "call_id": "0123456789ab"}

    def prepare(self) -> None:
        """A conversation with a turn and a file."""
        said = requests.post(f"{self.url}{CHAT}", json={"message": "go"}, headers=ROOT, timeout=30).json()
        self.names |= {"conversation_id": said["conversation_id"], "turn_id": said["turn_id"]}
        while requests.get(self._at("status"), headers=ROOT, timeout=30).json()["state"] != "idle":
            pass
        (file,) = requests.get(self._at("files"), headers=ROOT, timeout=30).json()["files"]
        self.names |= {"path": file["path"], "rn": file["rn"]}

    def _at(self, what: str) -> str:
        return f"{self.url}{LIST}/{self.names['conversation_id']}/{what}"


@contextmanager
def serving(folder: Path) -> Generator[Fuzzed]:
    """Run the server in a separate thread, because its client is not asynchronous."""
    started: list[str] = []
    ready, leave = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        stage = ServerHarness(
            folder,
            calls("react.write", path="files/a.md", content="text", channel="canvas"),
            repeated_reply(answers("Done.")),
        )
        async with stage.serve() as served:
            started.append(served.url)
            ready.set()
            await leave.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(30)
        yield Fuzzed(started[0])
    finally:
        loop.call_soon_threadsafe(leave.set)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Generator[Fuzzed]:
    with serving(tmp_path_factory.mktemp("fuzzed")) as server:
        yield server


def asked(case: Any, server: Fuzzed, *, fits: bool) -> int:
    """The status; of a stream no more is read than that."""
    if fits:
        for part in (case.path_parameters, case.query, case.body):
            if isinstance(part, dict):
                named = cast("dict[str, object]", part)
                named |= {name: value for name, value in server.names.items() if isinstance(named.get(name), str)}
    sent = case.as_transport_kwargs(base_url=server.url)
    sent["headers"] = {**sent.get("headers", {}), **ROOT}
    with requests.request(**sent, stream=True, timeout=30, allow_redirects=False) as response:
        return response.status_code


@pytest.mark.parametrize("operation", ENDPOINTS, ids=lambda one: one.name)
def test_no_request_is_answered_with_the_servers_own_fault(fuzzed: Fuzzed, operation: Endpoint) -> None:
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
        assert asked(case, fuzzed, fits=chance > 0) < 500

    check()
