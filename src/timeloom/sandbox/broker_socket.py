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

from timeloom.platform.token_bucket import Pace
from timeloom.ports.sandbox import Broker, Program, SandboxUnavailableError
from timeloom.sandbox.protocol import (
    MAX_HELLO_BYTES,
    VERSION,
    Answer,
    Ask,
    Call,
    Exit,
    Fetch,
    Hello,
    ProtocolError,
    Start,
    frame,
    read_frame,
    read_hello,
    read_said,
)

WORKDIR: Final = "/workspace/work"
OUTPUT_DIR: Final = "/workspace/out"
"""Paths of the two folders of an execution, as its program sees them."""

MAX_CONNECTIONS: Final = 16
"""Most connections at a time. A lower limit refuses programs with several processes; a higher one only costs memory."""

MAX_ASKS: Final = 16
"""Most requests that are answered at a time, over all connections. Further requests are not read until one is done."""

HELLO_S: Final = 10.0
"""Seconds within which a new connection must send its token."""

KNOCKS: Final = (64, 50.0)
"""Token bucket for new connections: burst size, then connections per second. Lower values delay programs that start a
process for each call; with much higher ones, a program that reconnects in a loop uses up a processor of the host."""

ASKS: Final = (1000, 200.0)
"""Token bucket for requests: burst size, then requests per second. A large frame counts as several requests. Lower
values delay programs that read a lot."""

ASK_BYTES: Final = 64 * 1024
"""A frame costs one request, plus one for each full block of this many bytes."""

LAST_WORD_S: Final = 1.0
"""How long to wait for the exit message of a program that has ended. It has either arrived already or never will."""

BUSY_S: Final = 1.0
"""Pause after a failed `accept`, for example when too many files are open."""

_PEER: Final = struct.Struct("3i")
_logger = logging.getLogger(__name__)


class Door:
    """Accepts one interpreter, sends it its program, and answers the requests of that program until it is closed."""

    def __init__(self, path: Path, token: str, uids: frozenset[int]) -> None:
        """Use `open`."""
        self._path, self._token, self._uids = path, token, uids
        self._accepting: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._interpreter: _Connection | Exception | None = None
        self._known = asyncio.Event()
        self._broker: Broker | None = None
        self._started = asyncio.Event()
        self._room = asyncio.Semaphore(MAX_ASKS)
        self._knocks, self._asks = Pace(*KNOCKS), Pace(*ASKS)
        self._exit_code: int | None = None
        self._gone = asyncio.Event()

    @classmethod
    async def open(cls, path: Path, *, token: str, uids: frozenset[int]) -> "Door":
        """Return a socket that listens at that path.

        A peer must run as one of these users, numbered as this process sees them, and must send the token.
        """
        door = cls(path, token, uids)
        listening = _listening(path)
        door._accepting = asyncio.create_task(door._accept(listening))
        # A callback, because a task cancelled before its first step runs no `finally`. The same holds for those below.
        door._accepting.add_done_callback(lambda _: listening.close())
        return door

    async def ready(self) -> None:
        """Wait until an interpreter has connected and sent the token.

        Raises `SandboxUnavailableError` if it uses another protocol version, and `ConnectionError` when the socket is
        closed.
        """
        await self._waiting()

    async def start(
        self, program: Program, broker: Broker, *, workdir: str = WORKDIR, output_dir: str = OUTPUT_DIR
    ) -> None:
        """Send the program to the waiting interpreter; from then on the broker answers its requests.

        `workdir` and `output_dir` are the folders as the program sees them. Raises `ConnectionError` if the interpreter
        is gone, and `ProtocolError` if the program is larger than a frame.
        """
        connection = await self._waiting()
        env = {
            "WORKDIR": workdir,
            "OUTPUT_DIR": output_dir,
            "EXECUTION_ID": program.execution_id,
            "AGENT_IO_CONTEXT": "limited",
        }
        message = frame(
            Start(code=program.code, name=program.name, env=env, folders=program.folders, stubs=program.stubs)
        )
        if connection.reader.at_eof() or connection.writer.is_closing():
            raise ConnectionResetError("the interpreter that waited for its program is gone")
        self._broker = broker
        self._started.set()
        connection.writer.write(message)
        await connection.writer.drain()

    async def last_word(self) -> int | None:
        """Return the exit code that an ended interpreter announced, or None if it announced none."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORD_S):
                await self._gone.wait()
        return self._exit_code

    async def close(self) -> None:
        """Close all connections, cancel the requests in progress, and remove the socket."""
        self._path.unlink(missing_ok=True)
        self._settle(ConnectionAbortedError("the door of the execution was closed"))
        if self._accepting is not None:
            # First, because this task adds to the connections.
            await _ended({self._accepting})
        await _ended(self._connections)

    async def _waiting(self) -> "_Connection":
        await self._known.wait()
        match self._interpreter:
            case _Connection() as connection:
                return connection
            case refusal:
                raise cast(Exception, refusal)

    def _settle(self, interpreter: "_Connection | Exception") -> None:
        """Keep the first value: the interpreter, or the reason why there is none."""
        self._interpreter = self._interpreter or interpreter
        self._known.set()

    async def _accept(self, listening: socket.socket) -> None:
        """Accept connections at the limited rate."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._knocks.wait_s(loop.time()))
            await _readable(listening)
            try:
                # Not `loop.sock_accept`: a connection accepted while this task is cancelled would leak.
                peer, _ = listening.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                _logger.warning("could not accept a connection to a broker socket: %s", error)
                await asyncio.sleep(BUSY_S)
                continue
            if len(self._connections) >= MAX_CONNECTIONS or _uid(peer) not in self._uids:
                peer.close()
                continue
            await self._take(peer)

    async def _take(self, peer: socket.socket) -> None:
        """Serve the new connection in a separate task."""
        connection = _Connection(*await asyncio.open_unix_connection(sock=peer))
        task = asyncio.create_task(self._serve(connection))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        task.add_done_callback(lambda _: connection.writer.transport.abort())

    async def _serve(self, connection: "_Connection") -> None:
        answers: set[asyncio.Task[None]] = set()
        try:
            self._admit(connection, await _hello(connection.reader))
            await self._started.wait()
            while True:
                match await self._said(connection):
                    case Exit(code=code):
                        self._exit_code = code
                    case ask:
                        await self._room.acquire()
                        task = asyncio.create_task(self._answer(ask, connection.writer))
                        answers.add(task)
                        task.add_done_callback(answers.discard)
                        task.add_done_callback(lambda _: self._room.release())
        except (ProtocolError, TimeoutError, EOFError, OSError) as error:
            _logger.debug("a connection to a broker socket ended: %s", error)
        finally:
            if connection is self._interpreter:
                self._gone.set()
            await _ended(answers)

    async def _said(self, connection: "_Connection") -> Ask | Exit:
        """Read the next message at the limited rate."""
        body = await read_frame(connection.reader)
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._asks.wait_s(loop.time(), 1 + len(body) // ASK_BYTES))
        return read_said(body)

    def _admit(self, connection: "_Connection", hello: Hello) -> None:
        """Check the token; the first connection is the interpreter, later ones are its program's subprocesses."""
        # Compared as bytes: `compare_digest` rejects texts that are not ASCII.
        if not hmac.compare_digest(hello.token.encode(errors="replace"), self._token.encode()):
            raise ProtocolError("the token is not that of this execution")
        if hello.version != VERSION:
            message = f"the sandbox speaks version {hello.version} of the protocol, and this is {VERSION}"
            self._settle(SandboxUnavailableError(f"{message}; build its image again"))
            raise ProtocolError(message)
        self._settle(connection)

    async def _answer(self, ask: Ask, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(await _answered(ask, cast(Broker, self._broker)))
            await writer.drain()
        except OSError as error:
            _logger.debug("could not send an answer to a program: %s", error)


@dataclass(frozen=True, slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def _hello(reader: asyncio.StreamReader) -> Hello:
    async with asyncio.timeout(HELLO_S):
        return read_hello(await read_frame(reader, MAX_HELLO_BYTES))


async def _answered(ask: Ask, broker: Broker) -> bytes:
    """Return the frame with the answer; if the broker raises, which it must not, the answer is an error."""
    try:
        match ask:
            case Call():
                text = await broker.call(ask.tool_id, ask.params)
            case Fetch():
                text = await broker.fetch(ask.path)
            case _:
                assert_never(ask)
        return frame(Answer(ask.id, text))
    except ProtocolError as error:
        return frame(Answer(ask.id, _failed("tool_result_too_large", f"the answer does not fit: {error}")))
    except Exception:
        _logger.exception("the broker raised while answering a program")
        return frame(Answer(ask.id, _failed("tool_call_error", "the call failed on the side of the supervisor")))


def _failed(code: str, message: str) -> str:
    return msgspec.json.encode({"ok": False, "error": {"code": code, "message": message}, "ret": None}).decode()


async def _ended(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel the tasks and wait for them; a cancellation of the caller is re-raised after all have ended."""
    cancelled: asyncio.CancelledError | None = None
    while left := {task for task in tasks if not task.done()}:
        for task in left:
            task.cancel()
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _listening(path: Path) -> socket.socket:
    """Return a socket that listens at the path; raise `OSError` if a file exists there."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Through the folder's descriptor, because a socket address has at most 107 bytes.
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")
        # The program runs as another user. `_peer_uid` and the token decide which peers may connect.
        path.chmod(0o666)
        listening.listen(MAX_CONNECTIONS)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    finally:
        os.close(folder)
    return listening


async def _readable(listening: socket.socket) -> None:
    """Wait until a peer has connected."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(listening, lambda: readable.done() or readable.set_result(None))
    try:
        await readable
    finally:
        loop.remove_reader(listening)


def _uid(peer: socket.socket) -> int:
    """Return the user id of the peer's process, as the kernel reports it."""
    _, uid, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return uid
