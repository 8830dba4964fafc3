"""Telemetry: a collector receives turns, model calls and tools, but no message text."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.harness.replies import answers
from tests.server.server_harness import calls
from timeloom.app import AgentSettings, build_turn_runner
from timeloom.core.blocks import ConversationStarted, TurnStarted, UserPrompt
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.runtime.session.session import Session
from timeloom.server.observability.telemetry import open_telemetry
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing import ScriptedModel

CONVERSATION = ConversationId("conv_1770603271112_ab12cd34")
HEADER = ConversationStarted(tenant="home", project="demo", user="ann")


@contextmanager
def collector(status: int = 200) -> Generator[tuple[str, list[tuple[str, bytes]]]]:
    """A collector's address and the posted bodies."""
    posted: list[tuple[str, bytes]] = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Taking) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", posted
        finally:
            server.shutdown()
            thread.join()


async def run_turn(folder: Path, url: str, *, content: bool = False) -> None:
    """A turn with a tool, told to the collector."""
    store = await MemoryStore.open()
    async with open_telemetry(url, content=content) as telemetry:
        session = await Session.start(store, CONVERSATION, HEADER, SystemClock(), RandomIds())
        session.listen(telemetry.listener_for(CONVERSATION))
        model = ScriptedModel([calls("react.write", path="files/a.md", content="a secret"), answers("a mystery")])
        turns = build_turn_runner(session, model, AgentSettings(data_dir=folder), lambda _: None)
        await session.append([TurnStarted(n=1), UserPrompt(text="a riddle")], session.new_turn_id())
        await turns.resume()
        await session.close()


def spans_in(posted: list[tuple[str, bytes]]) -> list[Span]:
    requests = [ExportTraceServiceRequest.FromString(body) for _, body in posted]
    return [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def test_a_collector_gets_the_spans_of_a_turn(tmp_path: Path) -> None:
    with collector() as (url, posted):
        asyncio.run(run_turn(tmp_path, url))
    spans = spans_in(posted)
    assert {path for path, _ in posted} == {"/v1/traces"}
    assert [span.name for span in spans] == [
        "chat script",
        "execute_tool react.write",
        "chat script",
        "invoke_agent timeloom",
    ]
    assert {span.parent_span_id for span in spans[:-1]} == {spans[-1].span_id}
    assert len({span.trace_id for span in spans}) == 1


def test_nothing_that_was_said_is_sent(tmp_path: Path) -> None:
    with collector() as (url, posted):
        asyncio.run(run_turn(tmp_path, url))
    sent = b"".join(body for _, body in posted)
    assert not any(said in sent for said in (b"secret", b"mystery", b"riddle"))


def test_what_was_said_is_sent_where_that_is_asked_for(tmp_path: Path) -> None:
    with collector() as (url, posted):
        asyncio.run(run_turn(tmp_path, url, content=True))
    sent = b"".join(body for _, body in posted)
    assert all(said in sent for said in (b"secret", b"mystery"))


def test_a_collector_that_refuses_stops_no_turn(tmp_path: Path) -> None:
    with collector(status=400) as (url, posted):
        asyncio.run(run_turn(tmp_path, url))
    assert posted
