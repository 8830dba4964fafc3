"""The door lets in who has the right user and token, and is harmed by nothing that they say."""

import asyncio
import contextlib
import os
import stat
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.harness.broker_socket import ME, TOKEN, TableBroker, run_guest
from timeloom.ports.sandbox import Program, SandboxUnavailableError
from timeloom.sandbox import broker_socket as module
from timeloom.sandbox.broker_socket import MAX_CONNECTIONS, BrokerSocket
from timeloom.sandbox.protocol import MAX_FRAME_BYTES, VERSION, ProtocolError

pytestmark = pytest.mark.anyio
PROGRAM = Program(code="print(1)", execution_id="exec_1")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[BrokerSocket]:
    opened = await BrokerSocket.open(tmp_path / "door", token=TOKEN, uids=ME)
    yield opened
    await opened.close()


class Peer:
    """A connected client that sends arbitrary bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def at(cls, folder: Path, hello: object = None) -> "Peer":
        peer = cls(*await asyncio.open_unix_connection(folder / "door"))
        if hello is not None:
            # Who is not let in may be shut out before they have said a word.
            with contextlib.suppress(ConnectionError):
                await peer.say(hello)
        return peer

    async def say(self, message: object) -> None:
        body = message if isinstance(message, bytes) else msgspec.json.encode(message)
        self.writer.write(struct.pack(">I", len(body)) + body)
        await self.writer.drain()

    async def hear(self) -> dict[str, object]:
        size = struct.unpack(">I", await self.reader.readexactly(4))[0]
        return msgspec.json.decode(await self.reader.readexactly(size), type=dict[str, object])

    async def ask(self, number: int = 1) -> dict[str, object]:
        await self.say({"kind": "call", "id": number, "tool_id": "a.tool", "params": "{}"})
        return await self.hear()

    async def is_shut_out(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def leave(self) -> None:
        self.writer.close()


HELLO = {"token": TOKEN, "version": VERSION}


async def started(door: BrokerSocket, folder: Path, broker: TableBroker | None = None) -> Peer:
    """An interpreter that has its program."""
    peer = await Peer.at(folder, HELLO)
    await door.wait_ready()
    await door.start_program(PROGRAM, broker or TableBroker())
    assert (await peer.hear())["code"] == "print(1)"
    return peer


async def test_the_interpreter_gets_its_program_and_its_variables(door: BrokerSocket, tmp_path: Path) -> None:
    peer = await Peer.at(tmp_path, HELLO)
    await door.wait_ready()
    await door.start_program(PROGRAM, TableBroker())
    env = {
        "WORKDIR": "/workspace/work",
        "OUTPUT_DIR": "/workspace/out",
        "EXECUTION_ID": "exec_1",
        "AGENT_IO_CONTEXT": "limited",
    }
    start: dict[str, object] = {
        "code": "print(1)",
        "name": "program",
        "env": env,
        "folders": [],
        "links": {},
        "read_only": [],
        "stubs": [],
    }
    assert await peer.hear() == start
    peer.leave()


async def test_another_user_is_shut_out(tmp_path: Path) -> None:
    door = await BrokerSocket.open(tmp_path / "door", token=TOKEN, uids=frozenset({os.getuid() + 1}))
    peer = await Peer.at(tmp_path, HELLO)
    assert await peer.is_shut_out()
    peer.leave()
    await door.close()


@pytest.mark.parametrize(
    "hello",
    [
        {"token": "5e" * 16, "version": VERSION},
        {"token": "", "version": VERSION},
        {"token": "ü", "version": VERSION},
        {"token": [TOKEN], "version": VERSION},
        {"version": VERSION},
        b"\xff\xfe garbage",
        b"[" * 1000,
        b"",
        {"token": TOKEN, "version": VERSION, "more": "x" * 2000},
    ],
    ids=range(9),
)
async def test_who_does_not_show_the_token_is_shut_out(door: BrokerSocket, tmp_path: Path, hello: object) -> None:
    peer = await Peer.at(tmp_path, hello)
    assert await peer.is_shut_out()
    peer.leave()
    own = await started(door, tmp_path)
    own.leave()


@pytest.mark.usefixtures("door")
async def test_who_shows_nothing_is_shut_out_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELLO_S", 0.01)
    peer = await Peer.at(tmp_path)
    assert await peer.is_shut_out()
    peer.leave()


async def test_an_interpreter_of_another_version_is_said_to_be_one(door: BrokerSocket, tmp_path: Path) -> None:
    peer = await Peer.at(tmp_path, {"token": TOKEN, "version": VERSION + 1})
    with pytest.raises(SandboxUnavailableError, match="build its image again"):
        await door.wait_ready()
    assert await peer.is_shut_out()
    peer.leave()


async def test_there_are_so_many_connections_and_no_more(door: BrokerSocket, tmp_path: Path) -> None:
    peers = [await started(door, tmp_path)]
    peers += [await Peer.at(tmp_path, HELLO) for _ in range(MAX_CONNECTIONS - 1)]
    assert [(await peer.ask())["id"] for peer in peers] == [1] * MAX_CONNECTIONS
    late = await Peer.at(tmp_path, HELLO)
    assert await late.is_shut_out()
    for peer in [*peers, late]:
        peer.leave()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\x01\x02",
        b"[" * 100_000,
        b'{"kind":"call","id":1,"tool_id":"a.tool","params":' + b"[" * 100_000,
        b'{"kind":"shell","id":1}',
        b'{"kind":"call","id":"one","tool_id":"a.tool","params":"{}"}',
        b'{"kind":"call","id":1e400,"tool_id":"a.tool","params":"{}"}',
        b'{"kind":"fetch","id":1,"path":"\xff"}',
        b'{"kind":"fetch","id":1180591620717411303424,"path":"ar:x"}',
        b"null",
        b"",
    ],
    ids=range(10),
)
async def test_garbage_ends_the_connection_it_came_on_and_nothing_else(
    door: BrokerSocket, tmp_path: Path, garbage: bytes
) -> None:
    peer = await started(door, tmp_path)
    other = await Peer.at(tmp_path, HELLO)
    await other.say(garbage)
    assert await other.is_shut_out()
    assert (await peer.ask())["id"] == 1
    peer.leave()
    other.leave()


async def test_an_oversized_frame_is_refused_before_it_is_read(door: BrokerSocket, tmp_path: Path) -> None:
    peer = await started(door, tmp_path)
    peer.writer.write(struct.pack(">I", MAX_FRAME_BYTES + 1))
    assert await peer.is_shut_out()
    peer.leave()


async def test_a_frame_that_is_cut_off_harms_nobody(door: BrokerSocket, tmp_path: Path) -> None:
    peer = await started(door, tmp_path)
    other = await Peer.at(tmp_path, HELLO)
    other.writer.write(struct.pack(">I", 100) + b'{"kind"')
    other.leave()
    assert (await peer.ask())["id"] == 1
    peer.leave()


async def test_answers_carry_the_id_of_their_question(door: BrokerSocket, tmp_path: Path) -> None:
    peer = await started(door, tmp_path, TableBroker(table={"so:x": [1]}))
    await peer.say({"kind": "call", "id": 7, "tool_id": "a.tool", "params": '{"n":1}'})
    await peer.say({"kind": "fetch", "id": 8, "path": "so:x"})
    answers = {said["id"]: said["answer"] for said in [await peer.hear(), await peer.hear()]}
    assert answers == {
        7: '{"ok":true,"error":null,"ret":{"tool_id":"a.tool","params":{"n":1}}}',
        8: '{"ok":true,"error":null,"ret":[1]}',
    }
    peer.leave()


async def test_who_hears_no_answers_keeps_nobody_from_closing(door: BrokerSocket, tmp_path: Path) -> None:
    peer = await started(door, tmp_path, TableBroker(table={"fi:x": "x" * 4_000_000}))
    for number in range(40):
        await peer.say({"kind": "fetch", "id": number, "path": "fi:x"})
    await door.close()
    peer.leave()


async def test_a_call_is_cancelled_when_its_connection_ends(door: BrokerSocket, tmp_path: Path) -> None:
    broker = TableBroker(barrier=asyncio.Barrier(2))
    peer = await started(door, tmp_path, broker)
    await peer.say({"kind": "call", "id": 1, "tool_id": "a.tool", "params": "{}"})
    await broker.started.wait()
    peer.leave()
    await peer.writer.wait_closed()
    await door.close()
    assert broker.cancelled == ["a.tool"]


class AbortError(BaseException):
    """What no broker may raise."""


class AbortingBroker(TableBroker):
    """Fails when its calls are cancelled."""

    async def call(self, tool_id: str, params: str) -> str:
        try:
            return await super().call(tool_id, params)
        except asyncio.CancelledError:
            raise AbortError from None


async def test_an_answer_that_fails_while_the_socket_is_closed_is_logged(
    door: BrokerSocket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = AbortingBroker(barrier=asyncio.Barrier(2))
    peer = await started(door, tmp_path, broker)
    await peer.say({"kind": "call", "id": 1, "tool_id": "a.tool", "params": "{}"})
    await broker.started.wait()
    await door.close()
    assert [record.message for record in caplog.records] == ["a task of a broker socket failed"]
    peer.leave()


async def test_closing_ends_everything_and_removes_the_socket(door: BrokerSocket, tmp_path: Path) -> None:
    broker = TableBroker(barrier=asyncio.Barrier(2))
    peer = await started(door, tmp_path, broker)
    silent = await Peer.at(tmp_path)
    await peer.say({"kind": "call", "id": 1, "tool_id": "a.tool", "params": "{}"})
    await broker.started.wait()
    assert stat.S_ISSOCK((tmp_path / "door").stat().st_mode)
    await door.close()
    assert broker.cancelled == ["a.tool"]
    assert await peer.is_shut_out()
    assert await silent.is_shut_out()
    assert not (tmp_path / "door").exists()
    peer.leave()
    silent.leave()


async def test_who_waits_for_an_interpreter_hears_of_the_close(door: BrokerSocket) -> None:
    waiting = asyncio.create_task(door.wait_ready())
    await asyncio.sleep(0)
    await door.close()
    with pytest.raises(ConnectionAbortedError):
        await waiting


async def test_a_program_is_not_sent_to_an_interpreter_that_is_gone(tmp_path: Path) -> None:
    async with run_guest(tmp_path) as here:
        await here.door.wait_ready()
        here.process.kill()
        await here.process.wait()
        with pytest.raises(ConnectionError):
            while True:
                await here.door.start_program(PROGRAM, TableBroker())
                await asyncio.sleep(0)


async def test_a_program_that_is_larger_than_a_frame_is_refused(door: BrokerSocket, tmp_path: Path) -> None:
    peer = await Peer.at(tmp_path, HELLO)
    with pytest.raises(ProtocolError):
        await door.start_program(Program(code="#" * MAX_FRAME_BYTES, execution_id="exec_1"), TableBroker())
    peer.leave()


async def test_a_socket_may_lie_deeper_than_its_address_is_long(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    door = await BrokerSocket.open(deep / "door", token=TOKEN, uids=ME)
    assert (deep / "door").exists()
    await door.close()
    assert not (deep / "door").exists()


async def test_who_connects_again_and_again_is_let_in_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_RATE", (3, 1e-9))
    door = await BrokerSocket.open(tmp_path / "door", token=TOKEN, uids=ME)
    own = await started(door, tmp_path)
    (await Peer.at(tmp_path)).leave()
    (await Peer.at(tmp_path)).leave()
    late = await Peer.at(tmp_path, HELLO)
    asked = asyncio.create_task(late.ask())
    for number in range(20):
        assert (await own.ask(number))["id"] == number
    assert not asked.done()
    await door.close()
    with pytest.raises((ConnectionError, EOFError)):
        await asked
    own.leave()
    late.leave()


async def test_who_asks_without_end_is_answered_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_RATE", (10, 1e-9))
    door = await BrokerSocket.open(tmp_path / "door", token=TOKEN, uids=ME)
    broker = TableBroker()
    own = await started(door, tmp_path, broker)
    for number in range(10):
        await own.ask(number)
    asked = asyncio.create_task(own.ask(10))
    other = await Peer.at(tmp_path, HELLO)
    await other.say({"kind": "call", "id": 1, "tool_id": "a.tool", "params": "{}"})
    await asyncio.sleep(0.05)
    assert len(broker.calls) == 10
    await door.close()
    with pytest.raises((ConnectionError, EOFError)):
        await asked
    own.leave()
    other.leave()


async def test_an_interpreter_says_with_which_code_it_ends(door: BrokerSocket, tmp_path: Path) -> None:
    peer = await started(door, tmp_path)
    await peer.say({"kind": "exit", "code": 137})
    peer.leave()
    assert await door.wait_exit_code() == 137


async def test_an_interpreter_that_is_killed_says_nothing(door: BrokerSocket, tmp_path: Path) -> None:
    peer = await started(door, tmp_path)
    peer.leave()
    assert await door.wait_exit_code() is None
