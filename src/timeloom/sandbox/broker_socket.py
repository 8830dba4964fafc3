"""Serves the Unix socket through which one guest program sends tool calls and fetches to its broker.

The peer is untrusted. This module checks its user id, its token, its request rate and its messages, so that a
misbehaving peer harms only its own connection.
"""

import asyncio
import contextlib
import hmac
import logging
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final, assert_never, cast

import msgspec

from timeloom.platform.tasks import cancel_to_completion
from timeloom.platform.token_bucket import TokenBucket
from timeloom.ports.sandbox import Broker, Program, SandboxUnavailableError
from timeloom.sandbox.protocol import (
    MAX_HELLO_BYTES,
    VERSION,
    CallRequest,
    ExitMessage,
    FetchRequest,
    GuestRequest,
    GuestResponse,
    Hello,
    ProtocolError,
    StartMessage,
    encode_frame,
    read_frame,
    read_hello,
    read_message,
)
from timeloom.sandbox.readable import wait_readable_alone

WORKDIR: Final = "/workspace/work"
OUTPUT_DIR: Final = "/workspace/out"
"""Paths of the two folders of an execution, as its program sees them."""

MAX_CONNECTIONS: Final = 16
"""Most connections at a time. A lower limit refuses programs with several processes; a higher one only costs memory."""

MAX_CONCURRENT_REQUESTS: Final = 16
"""Most requests that are answered at a time, over all connections. Further requests are not read until one is done."""

HELLO_S: Final = 10.0
"""Seconds within which a new connection must send its token."""

CONNECT_RATE: Final = (64, 50.0)
"""Token bucket for new connections: burst size, then connections per second. Lower values delay programs that start a
process for each call; with much higher ones, a program that reconnects in a loop uses up a processor of the host."""

REQUEST_RATE: Final = (1000, 200.0)
"""Token bucket for requests: burst size, then requests per second. A large frame counts as several requests. Lower
values delay programs that read a lot."""

REQUEST_COST_BYTES: Final = 64 * 1024
"""A frame costs one request, plus one for each full block of this many bytes."""

EXIT_MESSAGE_WAIT_S: Final = 1.0
"""How long to wait for the exit message of a program that has ended. It has either arrived already or never will."""

ACCEPT_RETRY_S: Final = 1.0
"""Pause after a failed `accept`, for example when too many files are open."""

_PEER: Final = struct.Struct("3i")
_logger = logging.getLogger(__name__)


class BrokerSocket:
    """Accepts one interpreter, sends it its program, and answers the requests of that program until it is closed."""

    def __init__(self, path: Path, token: str, uids: frozenset[int]) -> None:
        """Use `open`."""
        self._path, self._token, self._uids = path, token, uids
        self._accept_task: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._interpreter: _GuestConnection | Exception | None = None
        self._interpreter_known = asyncio.Event()
        self._broker: Broker | None = None
        self._started = asyncio.Event()
        self._request_slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)
        self._knocks, self._asks = TokenBucket(*CONNECT_RATE), TokenBucket(*REQUEST_RATE)
        self._exit_code: int | None = None
        self._interpreter_gone = asyncio.Event()

    @classmethod
    async def open(cls, path: Path, *, token: str, uids: frozenset[int]) -> "BrokerSocket":
        """Return a socket that listens at that path.

        A peer must run as one of these users, numbered as this process sees them, and must send the token.
        """
        broker_socket = cls(path, token, uids)
        listener = _open_listener(path)
        broker_socket._accept_task = asyncio.create_task(broker_socket._accept(listener))
        # A callback, because a task cancelled before its first step runs no `finally`. The same holds for those below.
        broker_socket._accept_task.add_done_callback(lambda _: listener.close())
        broker_socket._accept_task.add_done_callback(_log_failure)
        return broker_socket

    async def wait_ready(self) -> None:
        """Wait until an interpreter has connected and sent the token.

        Raises `SandboxUnavailableError` if it uses another protocol version, and `ConnectionError` when the socket is
        closed.
        """
        await self._wait_for_interpreter()

    async def start_program(
        self, program: Program, broker: Broker, *, workdir: str = WORKDIR, output_dir: str = OUTPUT_DIR
    ) -> None:
        """Send the program to the waiting interpreter; from then on the broker answers its requests.

        `workdir` and `output_dir` are the folders as the program sees them. Raises `ConnectionError` if the interpreter
        is gone, and `ProtocolError` if the program is larger than a frame.
        """
        connection = await self._wait_for_interpreter()
        env = {
            "WORKDIR": workdir,
            "OUTPUT_DIR": output_dir,
            "EXECUTION_ID": program.execution_id,
            "AGENT_IO_CONTEXT": "limited",
        }
        message = encode_frame(
            StartMessage(
                code=program.code,
                name=program.name,
                env=env,
                folders=program.folders,
                links=program.links,
                read_only=program.read_only,
                stubs=program.stubs,
            )
        )
        if connection.reader.at_eof() or connection.writer.is_closing():
            raise ConnectionResetError("the interpreter that waited for its program is gone")
        self._broker = broker
        self._started.set()
        connection.writer.write(message)
        await connection.writer.drain()

    async def wait_exit_code(self) -> int | None:
        """Return the exit code that an ended interpreter announced, or None if it announced none."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_MESSAGE_WAIT_S):
                await self._interpreter_gone.wait()
        return self._exit_code

    async def close(self) -> None:
        """Close all connections, cancel the requests in progress, and remove the socket."""
        self._path.unlink(missing_ok=True)
        self._set_interpreter(ConnectionAbortedError("the door of the execution was closed"))
        if self._accept_task is not None:
            # First, because this task adds to the connections.
            await cancel_to_completion(self._accept_task)
        await cancel_to_completion(*self._connections)

    async def _wait_for_interpreter(self) -> "_GuestConnection":
        await self._interpreter_known.wait()
        match self._interpreter:
            case _GuestConnection() as connection:
                return connection
            case refusal:
                raise cast(Exception, refusal)

    def _set_interpreter(self, outcome: "_GuestConnection | Exception") -> None:
        """Keep the first value: the interpreter, or the reason why there is none."""
        self._interpreter = self._interpreter or outcome
        self._interpreter_known.set()

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections at the limited rate."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._knocks.wait_s(loop.time()))
            await wait_readable_alone(listener.fileno())
            try:
                # Not `loop.sock_accept`: a connection accepted while this task is cancelled would leak.
                peer, _ = listener.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                _logger.warning("could not accept a connection to a broker socket: %s", error)
                await asyncio.sleep(ACCEPT_RETRY_S)
                continue
            if len(self._connections) >= MAX_CONNECTIONS or _peer_uid(peer) not in self._uids:
                peer.close()
                continue
            await self._add_connection(peer)

    async def _add_connection(self, peer: socket.socket) -> None:
        """Serve the new connection in a separate task."""
        connection = _GuestConnection(*await asyncio.open_unix_connection(sock=peer))
        task = asyncio.create_task(self._serve_connection(connection))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        task.add_done_callback(lambda _: connection.writer.transport.abort())
        task.add_done_callback(_log_failure)

    async def _serve_connection(self, connection: "_GuestConnection") -> None:
        answers: set[asyncio.Task[None]] = set()
        try:
            self._authenticate(connection, await _receive_hello(connection.reader))
            await self._started.wait()
            while True:
                match await self._read_message(connection):
                    case ExitMessage(code=code):
                        self._exit_code = code
                    case ask:
                        await self._request_slots.acquire()
                        task = asyncio.create_task(self._send_answer(ask, connection.writer))
                        answers.add(task)
                        task.add_done_callback(answers.discard)
                        task.add_done_callback(lambda _: self._request_slots.release())
                        task.add_done_callback(_log_failure)
        except (ProtocolError, TimeoutError, EOFError, OSError) as error:
            _logger.debug("a connection to a broker socket ended: %s", error)
        finally:
            if connection is self._interpreter:
                self._interpreter_gone.set()
            await cancel_to_completion(*answers)

    async def _read_message(self, connection: "_GuestConnection") -> GuestRequest | ExitMessage:
        """Read the next message at the limited rate."""
        body = await read_frame(connection.reader)
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._asks.wait_s(loop.time(), 1 + len(body) // REQUEST_COST_BYTES))
        return read_message(body)

    def _authenticate(self, connection: "_GuestConnection", hello: Hello) -> None:
        """Check the token; the first connection is the interpreter, later ones are its program's subprocesses."""
        # Compared as bytes: `compare_digest` rejects texts that are not ASCII.
        if not hmac.compare_digest(hello.token.encode(errors="replace"), self._token.encode()):
            raise ProtocolError("the token is not that of this execution")
        if hello.version != VERSION:
            message = f"the sandbox speaks version {hello.version} of the protocol, and this is {VERSION}"
            self._set_interpreter(SandboxUnavailableError(f"{message}; build its image again"))
            raise ProtocolError(message)
        self._set_interpreter(connection)

    async def _send_answer(self, request: GuestRequest, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(await _answer_frame(request, cast(Broker, self._broker)))
            await writer.drain()
        except OSError as error:
            _logger.debug("could not send an answer to a program: %s", error)


@dataclass(frozen=True, slots=True)
class _GuestConnection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def _receive_hello(reader: asyncio.StreamReader) -> Hello:
    async with asyncio.timeout(HELLO_S):
        return read_hello(await read_frame(reader, MAX_HELLO_BYTES))


async def _answer_frame(request: GuestRequest, broker: Broker) -> bytes:
    """Return the frame with the answer; if the broker raises, which it must not, the answer is an error."""
    try:
        match request:
            case CallRequest():
                text = await broker.call(request.tool_id, request.params)
            case FetchRequest():
                text = await broker.fetch(request.path)
            case _:
                assert_never(request)
        return encode_frame(GuestResponse(request.id, text))
    except ProtocolError as error:
        return encode_frame(
            GuestResponse(request.id, _error_envelope("tool_result_too_large", f"the answer does not fit: {error}"))
        )
    except Exception:
        _logger.exception("the broker raised while answering a program")
        return encode_frame(
            GuestResponse(
                request.id, _error_envelope("tool_call_error", "the call failed on the side of the supervisor")
            )
        )


def _error_envelope(code: str, message: str) -> str:
    return msgspec.json.encode({"ok": False, "error": {"code": code, "message": message}, "ret": None}).decode()


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        _logger.error("a task of a broker socket failed", exc_info=error)


def _open_listener(path: Path) -> socket.socket:
    """Return a socket that listens at the path; raise `OSError` if a file exists there."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Through the folder's descriptor, because a socket address has at most 107 bytes.
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        # The program runs as another user. `_peer_uid` and the token decide which peers may connect.
        path.chmod(0o666)
        listener.listen(MAX_CONNECTIONS)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener


def _peer_uid(peer: socket.socket) -> int:
    """Return the user id of the peer's process, as the kernel reports it."""
    _, uid, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return uid
