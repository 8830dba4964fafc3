"""A real HTTP server on loopback that sends scripted responses byte by byte, malformed ones too."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Literal

import msgspec

from timeloom.platform.tasks import cancel_to_completion

STREAM_HEADERS: Final = (("content-type", "text/event-stream"),)


class Stall(msgspec.Struct, frozen=True):
    """A part of a response that sends nothing until the client disconnects."""


class Repeat(msgspec.Struct, frozen=True):
    """A part of a response that is sent again and again, with a pause in between, until the client disconnects."""

    data: bytes
    every_s: float = 0.0


class FakeResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A scripted response: status, headers, body parts, each sent as one chunk, and the way it ends."""

    status: int = 200
    headers: Sequence[tuple[str, str]] = STREAM_HEADERS
    parts: Sequence[bytes | Stall | Repeat] = ()
    ending: Literal["whole", "cut", "silent", "mute"] = "whole"
    """How the response ends.

    `cut` drops the connection in the middle of the body, `silent` before the status. `mute` sends nothing and keeps the
    connection open.
    """


class RecordedRequest(msgspec.Struct, frozen=True):
    """A received request, with the number of its connection."""

    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


class FakeService:
    """Sends its responses in order and repeats the last one; records all requests."""

    def __init__(self, responses: Sequence[FakeResponse]) -> None:
        self.requests: list[RecordedRequest] = []
        self.disconnected = asyncio.Event()
        """Set when a client has disconnected during a `Stall` or a `Repeat`."""
        self.url = ""
        self._responses = responses
        self._connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, request after request."""
        self._connections += 1
        number = self._connections
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                while await self._answer_request(reader, writer, number):
                    pass
            finally:
                writer.close()
                await writer.wait_closed()

    async def _answer_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        response = self._responses[min(len(self.requests), len(self._responses) - 1)]
        self.requests.append(RecordedRequest(head[0].split(" ")[1], headers, body, number))
        if response.ending == "silent":
            return False
        if response.ending == "mute":
            await self._wait_for_disconnect(reader)
            return False
        lines = [f"HTTP/1.1 {response.status} Fake", *(f"{name}: {value}" for name, value in response.headers)]
        writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode("latin-1"))
        for part in response.parts:
            if isinstance(part, Stall):
                await self._wait_for_disconnect(reader)
                return False
            if isinstance(part, Repeat):
                await self._send_repeatedly(writer, part)
                return False
            await _send_chunk(writer, part)
        if response.ending == "whole":
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return response.ending == "whole"

    async def _send_repeatedly(self, writer: asyncio.StreamWriter, part: Repeat) -> None:
        with suppress(ConnectionError):
            while True:
                await _send_chunk(writer, part.data)
                await asyncio.sleep(part.every_s)
        self.disconnected.set()

    async def _wait_for_disconnect(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            await reader.read()
        self.disconnected.set()


async def _send_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))
    await writer.drain()


@asynccontextmanager
async def fake_service(*responses: FakeResponse) -> AsyncGenerator[FakeService]:
    """Yield the service, listening at its `url`. Connections that are still open at the end are dropped."""
    service = FakeService(responses)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(service.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        # Also if the task was cancelled before its first step.
        task.add_done_callback(lambda _: writer.transport.abort())

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield service
    finally:
        server.close()
        await cancel_to_completion(*tasks)
