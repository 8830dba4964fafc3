"""The door of one execution: the supervisor's end of the socket through which its program asks for things.

Whoever is on the other side is not trusted: who they are, how much they say and what they say is checked here, and
nothing that they do harms more than their own connection.
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
"""Where the folders of an execution are in its sandbox."""

MAX_CONNECTIONS: Final = 16
"""Most connections at a time. Fewer refuses programs with several processes; more costs memory for nothing."""

MAX_ASKS: Final = 16
"""Most calls that are answered at a time, of all connections; further ones are not read until one is done."""

HELLO_S: Final = 10.0
"""How long somebody who has connected may take to show the token."""

KNOCKS: Final = (64, 50.0)
"""Connections that are taken at once, and then in a second. Fewer hold up programs that start a process for each call;
with many more, a program that connects and leaves again and again takes a processor of ours."""

ASKS: Final = (1000, 200.0)
"""The same for what is asked, where a large frame counts as many. Fewer hold up programs that read a lot."""

ASK_BYTES: Final = 64 * 1024
"""A frame counts as one for each so many bytes."""

LAST_WORD_S: Final = 1.0
"""How long the last words of a program that has ended are waited for; they are here already, or will never be."""

BUSY_S: Final = 1.0
"""After a connection that could not be taken because too many files are open here."""

_PEER: Final = struct.Struct("3i")
_logger = logging.getLogger(__name__)


class Door:
    """Lets one interpreter in, gives it its program, and answers what the program asks for until it is closed."""

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
        """The door whose socket is at that path.

        Only processes of these users, as this process sees their numbers, are let in, and only with the token.
        """
        door = cls(path, token, uids)
        listening = _listening(path)
        door._accepting = asyncio.create_task(door._accept(listening))
        # A callback, because a task that is cancelled before it began runs no `finally`; so it is with others below.
        door._accepting.add_done_callback(lambda _: listening.close())
        return door

    async def ready(self) -> None:
        """Waits until an interpreter has connected and shown the token.

        Raises `SandboxUnavailableError` where it speaks another protocol, and `ConnectionError` when the door closes.
        """
        await self._waiting()

    async def start(
        self, program: Program, broker: Broker, *, workdir: str = WORKDIR, output_dir: str = OUTPUT_DIR
    ) -> None:
        """Sends the program to the interpreter that waits, and has the broker answer from then on.

        `workdir` and `output_dir` are the folders as the program sees them. Raises `ConnectionError` where the
        interpreter is gone, and `ProtocolError` where the program is larger than a frame.
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
        """The exit code with which an interpreter that has ended said that it would; None where it said none."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORD_S):
                await self._gone.wait()
        return self._exit_code

    async def close(self) -> None:
        """Ends all connections and what is being answered on them, and removes the socket."""
        self._path.unlink(missing_ok=True)
        self._settle(ConnectionAbortedError("the door of the execution was closed"))
        if self._accepting is not None:
            # First, for it adds to the connections.
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
        """The first is the interpreter, or why there is none."""
        self._interpreter = self._interpreter or interpreter
        self._known.set()

    async def _accept(self, listening: socket.socket) -> None:
        """Takes who connects, no more often than they may."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._knocks.wait_s(loop.time()))
            await _readable(listening)
            try:
                # Not by the loop: whom it has taken when this is cancelled would be forgotten.
                peer, _ = listening.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                _logger.warning("a connection to an execution could not be taken: %s", error)
                await asyncio.sleep(BUSY_S)
                continue
            if len(self._connections) >= MAX_CONNECTIONS or _uid(peer) not in self._uids:
                peer.close()
                continue
            await self._take(peer)

    async def _take(self, peer: socket.socket) -> None:
        """Whoever has connected; from here on they are a task of their own."""
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
            _logger.debug("a connection to an execution ended: %s", error)
        finally:
            if connection is self._interpreter:
                self._gone.set()
            await _ended(answers)

    async def _said(self, connection: "_Connection") -> Ask | Exit:
        """What they say next, no more often than they may."""
        body = await read_frame(connection.reader)
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._asks.wait_s(loop.time(), 1 + len(body) // ASK_BYTES))
        return read_said(body)

    def _admit(self, connection: "_Connection", hello: Hello) -> None:
        """Lets them stay; the first is the interpreter, the others belong to processes that its program has started."""
        # Compared as bytes: texts that are not ASCII cannot be compared in constant time.
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
            _logger.debug("an answer came too late: %s", error)


@dataclass(frozen=True, slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def _hello(reader: asyncio.StreamReader) -> Hello:
    async with asyncio.timeout(HELLO_S):
        return read_hello(await read_frame(reader, MAX_HELLO_BYTES))


async def _answered(ask: Ask, broker: Broker) -> bytes:
    """The frame that answers; a broker that breaks its promise not to raise is answered for."""
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
        _logger.exception("a program's call was not answered")
        return frame(Answer(ask.id, _failed("tool_call_error", "the call failed on the side of the supervisor")))


def _failed(code: str, message: str) -> str:
    return msgspec.json.encode({"ok": False, "error": {"code": code, "message": message}, "ret": None}).decode()


async def _ended(tasks: set[asyncio.Task[None]]) -> None:
    """Cancels the tasks and waits for them; a cancellation of whoever waits goes on when they are gone."""
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
    """A socket that listens at the path; a file that is there already is an error."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # By way of the folder's descriptor, because the address of a socket has 107 bytes at most.
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")
        # The program has another user than we; who may connect is checked by `_uid` and the token.
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
    """Waits until somebody has connected."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(listening, lambda: readable.done() or readable.set_result(None))
    try:
        await readable
    finally:
        loop.remove_reader(listening)


def _uid(peer: socket.socket) -> int:
    """The user of the process at the other end, as the kernel says."""
    _, uid, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return uid
