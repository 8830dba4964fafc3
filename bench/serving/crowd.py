"""The load generator: many raw client connections in one process, as cheap as possible.

Reads a plan from standard input as a line of JSON, and prints a line when all clients are connected and one at the end.
"""

import asyncio
import re
import sys
import time
from array import array
from collections.abc import Callable
from typing import Final, cast

import msgspec
import uvloop

from bench.serving.dialects import CHAT, DIALECTS, MessageRequest, json_request
from bench.serving.plans import (
    FirstDeltaPlan,
    FirstDeltaReport,
    HoldPlan,
    HoldReport,
    IdlePlan,
    IdleReport,
    LoadReady,
    Plan,
    Report,
    ServerAddress,
    TurnsPlan,
    TurnsReport,
)
from bench.serving.stamping import message

OPEN_AT_ONCE: Final = 64
"""Concurrent requests for idle streams."""

TICK_S: Final = 0.01

TURN_S: Final = 60.0
"""After this time a turn counts as lost."""

PATIENCE_S: Final = 20.0
"""Longest wait for the ends of streams; missing deltas count as infinitely late."""

_EVENT: Final = re.compile(rb"(?:id: \d+\n)?event: (\S+)\r?\n(data: [^\n]*\n)\r?\n")
_STAMP: Final = re.compile(rb"\d{6,}")


class ClientConnection(asyncio.Protocol):
    """One request and the events of its answer, until the connection is closed."""

    def __init__(self, request: bytes, on_event: Callable[["ClientConnection", bytes, bytes], None]) -> None:
        self._request = request
        self._on_event = on_event
        self._rest = b""
        self._transport: asyncio.WriteTransport | None = None
        self.ended = asyncio.Event()
        self.events: list[str] = []
        self.keeps_events = False
        self.beats = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because uvloop's transports do not declare this base class.
        self._transport = cast(asyncio.WriteTransport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        self.beats += data.count(b": still here\n\n")
        end = 0
        for found in _EVENT.finditer(data):
            end = found.end()
            if self.keeps_events:
                self.events.append(found[0].decode())
            self._on_event(self, found[1], found[2])
        self._rest = data[end:][-65536:]

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def close(self) -> None:
        """Close the connection."""
        if self._transport:
            self._transport.close()


def message_to(where: ServerAddress, text: str, conversation: str = "") -> bytes:
    """Return the request that sends a message in the server's dialect, by default to a new conversation."""
    return _post(where, DIALECTS[where.server].ask(text, conversation))


def _post(where: ServerAddress, asking: MessageRequest) -> bytes:
    more = f"content-type: {asking.kind}\r\ncontent-length: {len(asking.body)}\r\n"
    return _head("POST", asking.path, where, more) + asking.body


async def connect(
    where: ServerAddress, request: bytes, on_event: Callable[[ClientConnection, bytes, bytes], None]
) -> ClientConnection:
    """Open a connection and send the request."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: ClientConnection(request, on_event), "127.0.0.1", where.port)
    return connection


async def hold_streams(plan: HoldPlan) -> HoldReport:
    """Open the streams gradually, then measure while all of them are open."""
    began_s = time.monotonic()
    from_ns = int((began_s + plan.ramp_s) * 1e9)
    until_ns = from_ns + int(plan.hold_s * 1e9)
    # One second longer than the measurement, so that the ends of the turns do not count.
    said = message(until_ns + 1_000_000_000, plan.every_ms)
    dialect = DIALECTS[plan.where.server]
    late_ms, own_ms = array("d"), array("d")

    def on_event(_: ClientConnection, name: bytes, data: bytes) -> None:
        if name == dialect.delta:
            now = time.monotonic_ns()
            for stamp in _STAMP.findall(data, data.find(dialect.text)):
                if from_ns <= (at := int(stamp)) < until_ns:
                    late_ms.append((now - at) / 1e6)

    connections: list[ClientConnection] = []
    for n in range(plan.streams):
        await asyncio.sleep(began_s + plan.ramp_s * 0.8 * n / plan.streams - time.monotonic())
        connections.append(await connect(plan.where, message_to(plan.where, said), on_event))
    await asyncio.sleep(from_ns / 1e9 + plan.hold_s / 2 - time.monotonic())
    _send(LoadReady(sum(not one.ended.is_set() for one in connections)))
    while (before := time.monotonic()) < until_ns / 1e9:
        await asyncio.sleep(TICK_S)
        own_ms.append((time.monotonic() - before - TICK_S) * 1000)
    await asyncio.wait([asyncio.create_task(one.ended.wait()) for one in connections], timeout=PATIENCE_S)
    late, own = sorted(late_ms), sorted(own_ms)
    return HoldReport(
        deltas=len(late),
        expected=int(plan.streams * plan.hold_s * 1000 / plan.every_ms),
        p50_ms=_percentile(late, 0.5),
        p99_ms=_percentile(late, 0.99),
        worst_ms=_percentile(late, 1.0),
        own_p99_ms=_percentile(own, 0.99),
    )


async def run_turns(plan: TurnsPlan) -> TurnsReport:
    """Run turn after turn with each client."""
    each_s: list[float] = []
    names: list[str] = []

    async def client() -> None:
        name = ""
        for _ in range(plan.turns_each):
            began_s = time.monotonic()
            name = await _turn(plan.where, name)
            each_s.append(time.monotonic() - began_s)
        names.append(name)

    began_s = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(plan.clients):
            group.create_task(client())
    return TurnsReport(took_s=time.monotonic() - began_s, each_s=each_s, conversations=names)


async def _turn(where: ServerAddress, conversation: str) -> str:
    """Run a turn and return its conversation."""
    dialect = DIALECTS[where.server]
    found: list[str] = []
    failed: list[bytes] = []

    def on_event(_: ClientConnection, name: bytes, data: bytes) -> None:
        if name == dialect.failure:
            failed.append(data)
        if not found and (seen := dialect.conversation.search(data)):
            found.append(seen[1].decode())

    connection = await connect(where, message_to(where, "Hello?", conversation), on_event)
    async with asyncio.timeout(TURN_S):
        await connection.ended.wait()
    if failed or not found:
        raise SystemExit(f"a turn was not answered: {failed[:1]}")
    return found[0]


async def time_first_deltas(plan: FirstDeltaPlan) -> FirstDeltaReport:
    """Send one request after the other."""
    each_s: list[float] = []
    events: list[str] = []
    for _ in range(plan.times):
        seen: list[float] = []

        def hear(_: ClientConnection, _name: bytes, data: bytes, seen: list[float] = seen) -> None:
            # Usually in a delta; a reader who connected late gets the text from a block.
            if plan.text.encode() in data:
                seen.append(time.monotonic())

        asked = json_request(plan.path, {"message": "Hello?"}) if plan.path else None
        request = _post(plan.where, asked) if asked else message_to(plan.where, "Hello?")
        began_s = time.monotonic()
        connection = await connect(plan.where, request, hear)
        connection.keeps_events = True
        async with asyncio.timeout(TURN_S):
            await connection.ended.wait()
        each_s.append(seen[0] - began_s)
        events = connection.events
    return FirstDeltaReport(each_s, events)


async def hold_idle_streams(plan: IdlePlan) -> IdleReport:
    """Open connections that wait."""
    names = plan.conversations
    connections: list[ClientConnection] = []
    turns = asyncio.Semaphore(OPEN_AT_ONCE)

    async def open_one(n: int) -> None:
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        seen: list[bytes] = []

        def on_event(_: ClientConnection, name: bytes, _data: bytes) -> None:
            # The second status follows the stored blocks: from then on the stream is live.
            seen.append(name)
            if seen.count(b"conv.status") == 2 and not heard.done():
                heard.set_result(None)

        async with turns:
            path = f"{CHAT}/{names[n % len(names)]}/stream?after=1"
            connections.append(await connect(plan.where, _head("GET", path, plan.where, ""), on_event))
            await heard

    async with asyncio.TaskGroup() as group:
        for n in range(plan.streams):
            group.create_task(open_one(n))
    for one in connections:
        one.beats = 0
    _send(LoadReady(len(connections)))
    await asyncio.sleep(plan.stay_s)
    left = [one for one in connections if not one.ended.is_set()]
    alive = sum(one.beats > 0 or not plan.stay_s for one in left)
    for one in connections:
        one.close()
    return IdleReport(len(left), alive)


def main() -> None:
    """Execute one plan."""
    plan: Plan = msgspec.json.decode(sys.stdin.readline(), type=Plan)
    match plan:
        case HoldPlan():
            report: Report = uvloop.run(hold_streams(plan))
        case TurnsPlan():
            report = uvloop.run(run_turns(plan))
        case FirstDeltaPlan():
            report = uvloop.run(time_first_deltas(plan))
        case IdlePlan():
            report = uvloop.run(hold_idle_streams(plan))
    _send(report)


def _head(method: str, path: str, where: ServerAddress, more: str) -> bytes:
    token = f"authorization: Bearer {where.token}\r\n" if where.token else ""
    return (
        f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{where.port}\r\naccept: text/event-stream\r\n"
        f"{token}connection: close\r\n{more}\r\n"
    ).encode()


def _percentile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("inf")


def _send(report: Report) -> None:
    print(msgspec.json.encode(report).decode(), flush=True)


if __name__ == "__main__":
    main()
