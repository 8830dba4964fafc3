"""Measures the cost of a streamed delta between the provider's bytes and the caller's event.

A service on loopback, in a separate process, sends prepared streams. The benchmark measures the CPU time of our process
in all threads from the request to the recorded outcome: the HTTP client, the adapter, the channels, the fields of the
decision and the caller's event. The time of a short stream is subtracted from that of a long one, so that costs
independent of the number of deltas cancel out. The cost of a program that only reads the bytes is subtracted too.

There are two modes, because the results differ. With all events sent at once, several are read together and our code
dominates. With a pause after each event, each one wakes the process, which is where an HTTP client costs most.

Not measured: TLS, the time on the wire, and the caller's handling of its event.
"""

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2
import msgspec

from bench import synthetic
from bench.delta_server import LAST_CHUNK, StreamPlan
from bench.loops import HEADER, look, make_bench_turns
from bench.measures import fresh_folder
from bench.report import BenchSection, BenchTable, BenchTarget, Cell
from bench.settings import BenchRun
from timeloom.core.blocks import RoundStarted, TurnStarted, Usage, UserPrompt
from timeloom.core.ids import ConversationId
from timeloom.core.policy.next_step import AskModel
from timeloom.core.stream.channels import DECISION
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.providers.http.transport import open_transport
from timeloom.providers.registry import open_model
from timeloom.providers.settings import ModelSettings
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.ask_model import ask_model
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing.model_endpoint.anthropic import AnthropicDialect
from timeloom.testing.model_endpoint.dialect import Dialect, EndpointReply
from timeloom.testing.model_endpoint.openai import OpenAIDialect

PIECES: Final = (1, 4, 16, 64)
"""Characters of a delta."""

PIECES_APART: Final = (4, 16)
"""Fewer sizes, because a stream with pauses is slow, and the size makes little difference there."""

PAUSE_S: Final = 0.0005
"""Long enough that each event is read separately, as from a service that thinks between them."""

_ROOT: Final = Path(__file__).resolve().parents[1]
_DIALECTS: Final[Mapping[str, Dialect]] = {"openai": OpenAIDialect(), "anthropic": AnthropicDialect()}

Client = Callable[[int], Awaitable[float]]
"""Sends a request to that port, reads the answer and returns the CPU time used."""


class _PreparedStream(msgspec.Struct, frozen=True):
    """A prepared stream: a service's frames, and the text that the caller should receive."""

    provider: str
    channel: str
    shown: str
    frames: list[str]


class _DeltaService:
    """The process that sends."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        self._plans = process.stdin
        self._port = int(process.stdout.readline())

    def cpu_s(self, stream: _PreparedStream, pause_s: float, client: Client) -> float:
        """Return the client's CPU time for receiving the stream."""
        self._plans.write(msgspec.json.encode(StreamPlan(stream.frames, pause_s)).decode() + "\n")
        self._plans.flush()
        return asyncio.run(_await_result(client(self._port)))


def measure_deltas(run: BenchRun) -> BenchSection:
    """Measure every channel of both providers in pieces of each size, sent one by one and all at once."""
    with fresh_folder(run.work) as folder, _service() as service:
        together = _SendingMode(run, service, folder, 0.0, run.sizes.deltas_together)
        apart = _SendingMode(run, service, folder, PAUSE_S, run.sizes.deltas_apart)
        tables = (
            together.table("Added time of a streamed delta, all sent at once"),
            apart.table("Added time of a streamed delta, each sent and read by itself"),
        )
    bars = (
        BenchTarget("a streamed delta, all sent at once: added µs, the dearest", max(together.added_us), at_most=60),
        BenchTarget("a streamed delta, each by itself: added µs, the dearest", max(apart.added_us), at_most=60),
    )
    return BenchSection(tables=tables, bars=bars)


class _SendingMode:
    """The measurements of one sending mode."""

    def __init__(
        self, run: BenchRun, service: _DeltaService, folder: Path, pause_s: float, deltas: tuple[int, int]
    ) -> None:
        self.added_us: list[float] = []
        self._repeats = run.sizes.delta_repeats
        self._service = service
        self._folder = folder
        self._sizes = PIECES_APART if pause_s else PIECES
        self._pause_s = pause_s
        self._deltas = deltas

    def table(self, title: str) -> BenchTable:
        """Return for each provider the cost of reading, then of every channel; one column per delta size."""
        rows = [row for provider in _DIALECTS for row in self._rows(provider)]
        few, many = self._deltas
        notes = (
            f"CPU time of our process for {many:,} deltas less that for {few:,}, by the difference in number",
            f"all take turns, of each the quickest of {self._repeats}; columns are the characters of a delta",
            "added: the adapter and asking the model, up to the caller's event and the outcome on the timeline",
            "the socket, which is taken off everywhere: reading the same bytes and nothing else",
            "the HTTP client: reading the same stream without our adapter; it is part of what is added",
            "httpx2: the same by the client that is used through a proxy, for comparison",
            "streams are those of `timeloom model serve`, one chunk an event",
        )
        columns = ("provider", "what", *(f"{chars} chars µs" for chars in self._sizes))
        return BenchTable(title=title, columns=columns, rows=tuple(rows), notes=notes)

    def _rows(self, provider: str) -> list[tuple[Cell, ...]]:
        clients: dict[str, tuple[str, Callable[[_PreparedStream], Client]]] = {
            "the socket alone": ("answer", _socket_client),
            "the HTTP client alone": ("answer", _transport_client),
            "httpx2 alone": ("answer", _httpx2_client),
            **{f"added: {channel}": (channel, self._adapter_client) for channel in _REPLY_WRITERS},
        }
        costs = [self._costs_us(provider, chars, clients) for chars in self._sizes]
        rows: list[tuple[Cell, ...]] = []
        for what in clients:
            taken_off = [0.0 if what == "the socket alone" else cost["the socket alone"] for cost in costs]
            row = [cost[what] - socket for cost, socket in zip(costs, taken_off, strict=True)]
            if what.startswith("added"):
                self.added_us += row
            rows.append((provider, what, *row))
        return rows

    def _costs_us(
        self, provider: str, chars: int, clients: Mapping[str, tuple[str, Callable[[_PreparedStream], Client]]]
    ) -> Mapping[str, float]:
        """Return the cost of one more delta for each client.

        The clients take turns, because the speed of the machine changes from minute to minute.
        """
        streams = {
            channel: [_stream(provider, channel, chars, deltas) for deltas in self._deltas]
            for channel, _ in clients.values()
        }
        quickest: dict[tuple[str, int], float] = {}
        for _ in range(self._repeats):
            for what, (channel, client) in clients.items():
                for stream in streams[channel]:
                    took_s = self._service.cpu_s(stream, self._pause_s, client(stream))
                    key = (what, len(stream.frames))
                    quickest[key] = min(took_s, quickest.get(key, took_s))
        costs: dict[str, float] = {}
        for what, (channel, _) in clients.items():
            few, many = (len(stream.frames) for stream in streams[channel])
            costs[what] = (quickest[what, many] - quickest[what, few]) / (many - few) * 1e6
        return costs

    def _adapter_client(self, stream: _PreparedStream) -> Client:
        return lambda port: _measure_adapter(port, stream, self._folder)


@contextmanager
def _service() -> Generator[_DeltaService]:
    command = [sys.executable, "-m", "bench.delta_server"]
    with subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield _DeltaService(process)


def _stream(provider: str, channel: str, chars: int, deltas: int) -> _PreparedStream:
    """Return a reply with that many deltas on the channel, and a few before and after them."""
    dialect = _DIALECTS[provider]
    write, own_thinking = _REPLY_WRITERS[channel]
    body = (synthetic.code if channel in ("canvas", "code") else synthetic.prose)(random.Random(5), chars * deltas)
    frame = dialect.thinking_frame if own_thinking else dialect.text_frame
    text = body if own_thinking else write(body)
    pieces = [text[at : at + chars] for at in range(0, len(text), chars)]
    frames = [dialect.opening_frames("bench", Usage()), *(frame(piece) for piece in pieces)]
    if own_thinking:
        frames.append(dialect.text_frame(write("")))
    frames.append(dialect.closing_frames(EndpointReply(model="bench", usage=Usage(input_tokens=9, output_tokens=9))))
    return _PreparedStream(provider, channel.partition(" ")[0], body, [one.decode() for one in frames])


def _answer(text: str) -> str:
    return _decision({"action": "complete", "final_answer": text})


def _canvas(text: str) -> str:
    call = {"tool_id": "react.write", "params": {"path": "files/a.py", "content": text}}
    return _decision({"action": "call_tool", "tool_call": call})


def _code(text: str) -> str:
    call = {"tool_id": "exec_tools.execute_code_python", "params": {"prog_name": "bench"}}
    return _decision({"action": "call_tool", "tool_call": call}) + f"<channel:code>{text}</channel:code>"


def _thinking(text: str) -> str:
    return f"<channel:thinking>{text}</channel:thinking>" + _answer("Yes.")


def _decision(decision: Mapping[str, object]) -> str:
    return f"<channel:{DECISION}>{msgspec.json.encode(decision).decode()}</channel:{DECISION}>"


_REPLY_WRITERS: Final[Mapping[str, tuple[Callable[[str], str], bool]]] = {
    "answer": (_answer, False),
    "thinking": (_thinking, False),
    "thinking of the provider": (_answer, True),
    "canvas": (_canvas, False),
    "code": (_code, False),
}
"""For each channel, the function that writes a reply with text on it, and whether the provider sends it separately."""


async def _measure_adapter(port: int, stream: _PreparedStream, folder: Path) -> float:
    """Send the request through the real adapter, with prompt, call and outcome on a timeline in memory."""
    url = f"http://127.0.0.1:{port}" + ("/v1" if stream.provider == "openai" else "")
    model = open_model(f"{stream.provider}:bench", ModelSettings(base_url=url, key="none"))
    store = await MemoryStore.open()
    session = await Session.start(store, ConversationId("conv_bench"), HEADER, SystemClock(), RandomIds())
    blocks = [TurnStarted(n=1), UserPrompt(text="Hello?"), RoundStarted(round=1)]
    await session.append(blocks, session.new_turn_id())
    deltas: list[LiveDelta] = []
    turns = make_bench_turns(session, model, look(_nothing, _nothing), folder, deltas.append)
    before = time.process_time()
    await ask_model(turns.model_caller, AskModel(1, 1, last=False), asyncio.Event())
    took = time.process_time() - before
    await model.close()
    await store.close()
    seen = "".join(delta.text for delta in deltas if delta.channel == stream.channel)
    assert seen == stream.shown, "what the caller saw is not what was sent"
    return took


def _socket_client(_: _PreparedStream) -> Client:
    return _measure_socket


async def _measure_socket(port: int) -> float:
    """Read the bytes from the socket as they arrive."""
    before = time.process_time()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
    last = b""
    while not last.endswith(LAST_CHUNK):
        last = last[-len(LAST_CHUNK) :] + await reader.read(65536)
    took = time.process_time() - before
    writer.close()
    await writer.wait_closed()
    return took


def _transport_client(_: _PreparedStream) -> Client:
    return _measure_transport


async def _measure_transport(port: int) -> float:
    """Read the stream through the adapter's HTTP client."""
    transport = open_transport(f"http://127.0.0.1:{port}/", 60)
    before = time.process_time()
    answer = await transport.post({}, b"")
    while await answer.read(60):
        pass
    took = time.process_time() - before
    await answer.close()
    await transport.close()
    return took


def _httpx2_client(_: _PreparedStream) -> Client:
    return _measure_httpx2


async def _measure_httpx2(port: int) -> float:
    async with httpx2.AsyncClient(timeout=60) as client:
        before = time.process_time()
        async with client.stream("POST", f"http://127.0.0.1:{port}/", content=b"") as response:
            async for _ in response.aiter_raw():
                pass
        return time.process_time() - before


async def _await_result(work: Awaitable[float]) -> float:
    return await work


def _nothing() -> None:
    pass
