"""A local web server with names of its own, a resolver for them, and a network that records connections."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import httpcore2

Answer = Callable[[str, Mapping[str, str]], bytes | None]
"""Returns the raw response to a request for a target with these headers; None never answers."""


class RecordingNetwork(httpcore2.AsyncNetworkBackend):
    """Records each host and port that it is asked to connect to, and refuses the connection."""

    def __init__(self) -> None:
        self.connects: list[tuple[str, int]] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore2
        local_address: str | None = None,
        socket_options: Iterable[object] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.connects.append((host, port))
        raise httpcore2.ConnectError("recorded")


class FixedResolver:
    """Resolves names from a table; each further look-up of a name takes the next of its answers."""

    def __init__(self, names: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._names = {name: list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._names.get(host)
        if not answers:
            raise OSError("unknown name")
        return answers.pop(0) if len(answers) > 1 else answers[0]


def reply(body: bytes | str = b"", status: str = "200 OK", **headers: str) -> bytes:
    """Return a response; underscores in the names of headers become hyphens."""
    raw = body.encode() if isinstance(body, str) else body
    head = {"content-type": "text/html; charset=utf-8", "content-length": str(len(raw)), "connection": "close"}
    head |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + raw


def always(raw: bytes | None) -> Answer:
    """Return an answer that is the same for all requests."""

    def answer(_: str, __: Mapping[str, str]) -> bytes | None:
        return raw

    return answer


@asynccontextmanager
async def web_server(answer: Answer) -> AsyncGenerator[int]:
    """Serve on a free port of 127.0.0.1 and yield the port."""
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            pairs = [line.partition(":") for line in head[1:] if line]
            raw = answer(head[0].split(" ")[1], {name.lower(): value.strip() for name, _, value in pairs})
            if raw is None:
                await reader.read()
            else:
                writer.write(raw)
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*connections)
