"""Talks to a Docker-compatible engine over its Unix socket.

The engine is trusted, local and needed for only a dozen requests, so this client uses HTTP/1.0: a response ends with
the connection, and an attached stream continues on the same connection.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from timeloom.ports.sandbox import SandboxUnavailableError

NOT_FOUND: Final = 404
CONFLICT: Final = 409
_OK: Final = range(200, 300)
_UPGRADED: Final = 101
_UNCHANGED: Final = 304
_HEAD_BYTES: Final = 64 * 1024
_KILLED: Final = 137
_TRIES: Final = 100
_PAUSE_S: Final = 0.1
_STREAM_HEAD: Final = 8
_STREAMS: Final[dict[int, Literal["stdout", "stderr"]]] = {1: "stdout", 2: "stderr"}

T = TypeVar("T")


class EngineError(Exception):
    """The engine refused a request; the message is the engine's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_container_ending(self) -> bool:
        """Whether Podman refused because the container was about to end."""
        return "container state improper" in str(self)


class EngineInfo(msgspec.Struct, frozen=True, rename="pascal"):
    """System information of an engine."""

    server_version: str = ""
    os_type: str = msgspec.field(default="linux", name="OSType")
    security_options: list[str] | None = None
    memory_limit: bool = True
    pids_limit: bool = True


class _EngineComponent(msgspec.Struct, frozen=True):
    name: str = msgspec.field(default="", name="Name")


class _EngineVersion(msgspec.Struct, frozen=True):
    components: list[_EngineComponent] | None = msgspec.field(default=None, name="Components")


class ContainerState(msgspec.Struct, frozen=True, rename="pascal"):
    """State of a container; `pid` is its first process as the engine's machine numbers it."""

    running: bool = False
    pid: int = 0
    exit_code: int = 0
    oom_killed: bool = msgspec.field(default=False, name="OOMKilled")
    error: str = ""


class _InspectResponse(msgspec.Struct, frozen=True):
    state: ContainerState = msgspec.field(name="State")


class ListedContainer(msgspec.Struct, frozen=True, rename="pascal"):
    """A container in a list of containers."""

    id: str
    labels: dict[str, str] | None = None


class _ImageConfig(msgspec.Struct, frozen=True):
    labels: dict[str, str] | None = msgspec.field(default=None, name="Labels")


class _ImageResponse(msgspec.Struct, frozen=True):
    config: _ImageConfig | None = msgspec.field(default=None, name="Config")


class _CreateResponse(msgspec.Struct, frozen=True):
    id: str = msgspec.field(name="Id")


class _WaitResponse(msgspec.Struct, frozen=True):
    status: int = msgspec.field(name="StatusCode")


class _ErrorResponse(msgspec.Struct, frozen=True):
    message: str


class _BuildLine(msgspec.Struct, frozen=True):
    stream: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class AttachedStreams:
    """The standard streams of a container."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def write_stdin(self, data: bytes) -> None:
        """Write to its standard input, which ends when this stream is closed."""
        self.writer.write(data)
        await self.writer.drain()

    async def read_output(self) -> AsyncIterator[tuple[Literal["stdout", "stderr"], bytes]]:
        """Yield its output in pieces until both streams have ended."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
            while True:
                head = await self.reader.readexactly(_STREAM_HEAD)
                size = int.from_bytes(head[4:], "big")
                while size:
                    # In bounded pieces, because the program determines the length of a frame.
                    piece = await self.reader.read(min(size, 64 * 1024))
                    if not piece:
                        return
                    size -= len(piece)
                    if head[0] in _STREAMS:
                        yield _STREAMS[head[0]], piece

    def close(self) -> None:
        """Close the stream at once."""
        self.writer.transport.abort()


class ContainerEngine:
    """A Docker-compatible engine behind a Unix socket."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def info(self) -> EngineInfo:
        """Return the system information of the engine."""
        return _decode(await self._request("GET", "/info"), EngineInfo)

    async def is_podman(self) -> bool:
        """Return whether the engine is Podman, which supports slightly less than Docker."""
        found = _decode(await self._request("GET", "/version"), _EngineVersion)
        return any("Podman" in component.name for component in found.components or ())

    async def image_labels(self, image: str) -> dict[str, str]:
        """Return the labels of an existing image."""
        found = _decode(await self._request("GET", f"/images/{quote(image, safe='')}/json"), _ImageResponse)
        return (found.config and found.config.labels) or {}

    async def build(self, context: Path, tag: str, arguments: Mapping[str, str]) -> str:
        """Build an image from a context (a tar file) and return the builder's output."""
        query = {"t": tag, "rm": "1", "forcerm": "1", "version": "1", "buildargs": json.dumps(dict(arguments))}
        path = f"/build?{urlencode(query)}"
        try:
            answer = await self._request("POST", path, context, "application/x-tar")
        except EngineError as error:
            if error.status:
                raise
            # Retry once: a freshly started engine sometimes drops the connection during the upload.
            answer = await self._request("POST", path, context, "application/x-tar")
        lines = [_decode(line, _BuildLine) for line in answer.splitlines() if line.strip()]
        for line in lines:
            if line.error:
                raise EngineError(500, line.error)
        return "".join(line.stream for line in lines)

    async def remove_image(self, image: str) -> None:
        """Remove an image."""
        await self._request("DELETE", f"/images/{quote(image, safe='')}?force=1")

    async def create(self, container: object) -> str:
        """Create a container from its description and return its id."""
        return _decode(await self._request("POST", "/containers/create", container), _CreateResponse).id

    async def start(self, container: str) -> None:
        """Start the container."""
        await self._request("POST", f"/containers/{container}/start")

    async def state(self, container: str) -> ContainerState:
        """Return the state of the container."""
        return _decode(await self._request("GET", f"/containers/{container}/json"), _InspectResponse).state

    async def was_oom_killed(self, container: str) -> bool:
        """Return whether the engine saw an OOM kill in the container; False if the container is gone."""
        try:
            return (await self.state(container)).oom_killed
        except EngineError as error:
            if error.status != NOT_FOUND:
                raise
            return False

    async def wait(self, container: str) -> int:
        """Wait until the container has stopped and return its exit code; 137 if it was removed."""
        try:
            return _decode(await self._request("POST", f"/containers/{container}/wait"), _WaitResponse).status
        except EngineError as error:
            if error.status != NOT_FOUND:
                raise
            return _KILLED

    async def kill(self, container: str, signal: str) -> None:
        """Send a signal to its first process; a container that has stopped is no error."""
        try:
            await self._request("POST", f"/containers/{container}/kill?signal={signal}")
        except EngineError as error:
            if error.status not in (NOT_FOUND, CONFLICT) and not error.is_container_ending:
                raise

    async def remove(self, container: str) -> None:
        """Kill and remove the container; one that is gone or being removed is no error."""
        for _ in range(_TRIES):
            try:
                await self._request("DELETE", f"/containers/{container}?force=1&v=1")
            except EngineError as error:
                if error.is_container_ending:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                if error.status not in (NOT_FOUND, CONFLICT):
                    raise
            return

    async def list_containers(self, label: str) -> list[ListedContainer]:
        """Return all containers with that label (`name` or `name=value`), running or not."""
        filters = json.dumps({"label": [label]})
        return _decode(
            await self._request("GET", f"/containers/json?all=1&filters={quote(filters)}"), list[ListedContainer]
        )

    @asynccontextmanager
    async def attach(self, container: str) -> AsyncGenerator[AttachedStreams]:
        """Attach to the container's standard streams, before it is started."""
        path = f"/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1"
        reader, writer = await self._connect()
        attached = AttachedStreams(reader, writer)
        try:
            writer.write(_request_head("POST", path, 0, "application/json", "Connection: Upgrade\r\nUpgrade: tcp\r\n"))
            status = await _status(reader)
            if status != _UPGRADED and status not in _OK:
                raise EngineError(status, _error_message(await reader.read()))
            yield attached
        finally:
            attached.close()

    async def _request(
        self, method: str, path: str, content: object = None, content_type: str = "application/json"
    ) -> bytes:
        """Send a request and return the response body; raise `EngineError` if the engine refuses."""
        reader, writer = await self._connect()
        try:
            if isinstance(content, Path):
                await _send_file(writer, _request_head(method, path, content.stat().st_size, content_type), content)
            else:
                body = b"" if content is None else msgspec.json.encode(content)
                writer.write(_request_head(method, path, len(body), content_type) + body)
            status = await _status(reader)
            answer = await reader.read()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise EngineError(0, f"the engine ended the connection: {error}") from error
        finally:
            writer.transport.abort()
        if status not in _OK and status != _UNCHANGED:
            raise EngineError(status, _error_message(answer))
        return answer

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_unix_connection(str(self._socket), limit=_HEAD_BYTES)
        except OSError as error:
            raise SandboxUnavailableError(
                f"no container engine answers at its socket ({error.strerror or error}); start one (Debian: apt-get"
                " install docker.io, or podman with `podman system service`), or name its socket"
            ) from error


def _request_head(method: str, path: str, size: int, content_type: str, more: str = "") -> bytes:
    return (
        f"{method} {path} HTTP/1.0\r\nHost: engine\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {size}\r\n{more}\r\n"
    ).encode()


async def _send_file(writer: asyncio.StreamWriter, head: bytes, path: Path) -> None:
    writer.write(head)
    with path.open("rb") as file:
        while piece := file.read(1024 * 1024):
            writer.write(piece)
            await writer.drain()


async def _status(reader: asyncio.StreamReader) -> int:
    """Read the head of a response and return its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split(None, 2)[1])


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise EngineError(0, f"the engine's answer is not as expected: {error}") from error


def _error_message(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_ErrorResponse).message
    except msgspec.MsgspecError:
        return body.decode("utf-8", "replace")[:1000].strip() or "the engine gave no reason"
