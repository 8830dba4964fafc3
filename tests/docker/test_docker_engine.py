"""The client of an engine, with a socket that plays one."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.docker.docker_harness import profile
from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.docker import DockerSandbox
from timeloom.sandbox.docker.engine import ContainerEngine, EngineError

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def playing(path: Path, answers: dict[str, bytes]) -> AsyncGenerator[list[str]]:
    """An engine that answers a request by how its first line begins."""
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[0]
        asked.append(line)
        writer.write(next(answer for start, answer in answers.items() if line.startswith(start)))
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, path)
    try:
        yield asked
    finally:
        server.close()


def reply(status: int, body: str) -> bytes:
    return f"HTTP/1.0 {status} Something\r\nContent-Type: application/json\r\n\r\n{body}".encode()


async def test_an_engine_that_is_not_there_is_said_with_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match=r"apt-get install docker\.io") as caught:
        await ContainerEngine(tmp_path / "none.sock").info()
    assert str(tmp_path) not in str(caught.value)


async def test_a_refusal_is_in_the_engines_own_words(tmp_path: Path) -> None:
    answers = {"GET /info": reply(500, '{"message": "no room"}'), "GET /containers": reply(404, "not even JSON")}
    async with playing(tmp_path / "e.sock", answers):
        engine = ContainerEngine(tmp_path / "e.sock")
        with pytest.raises(EngineError, match="no room") as caught:
            await engine.info()
        assert caught.value.status == 500
        with pytest.raises(EngineError, match="not even JSON"):
            await engine.list_containers("x")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 200", b"HTTP/1.0 200 OK\r\n\r\n", reply(200, "[1")])
async def test_an_answer_that_is_cut_is_an_error(answer: bytes, tmp_path: Path) -> None:
    async with playing(tmp_path / "e.sock", {"GET": answer}):
        with pytest.raises(EngineError):
            await ContainerEngine(tmp_path / "e.sock").info()


async def test_what_is_gone_already_need_not_be_ended(tmp_path: Path) -> None:
    async with playing(tmp_path / "e.sock", {"POST": reply(409, "{}"), "DELETE": reply(404, "{}")}) as asked:
        engine = ContainerEngine(tmp_path / "e.sock")
        await engine.kill("abc", "SIGKILL")
        await engine.remove("abc")
    assert asked == [
        "POST /containers/abc/kill?signal=SIGKILL HTTP/1.0",
        "DELETE /containers/abc?force=1&v=1 HTTP/1.0",
    ]


async def test_streams_come_apart_however_they_are_cut(tmp_path: Path) -> None:
    frames = b"".join(bytes([kind, 0, 0, 0]) + len(text).to_bytes(4, "big") + text for kind, text in TEXTS)
    head = b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
    sent = head + frames + b"\x01\0\0\0\0\0\0\x09cut"
    engine = ContainerEngine(tmp_path / "e.sock")
    async with playing(tmp_path / "e.sock", {"POST": sent}), engine.attach("abc") as attached:
        heard = [piece async for piece in attached.read_output()]
    assert "".join(text.decode() for name, text in heard if name == "stdout") == "one" + "x" * 200_000 + "cut"
    assert [text for name, text in heard if name == "stderr"] == [b"two"]


TEXTS = [(1, b"one"), (2, b"two"), (1, b"x" * 200_000), (0, b"ignored"), (2, b"")]


@pytest.mark.parametrize(
    ("info", "why"),
    [
        ('{"OSType": "windows"}', "containers of Linux"),
        ('{"MemoryLimit": false}', "cannot limit memory"),
        ('{"SecurityOptions": ["name=seccomp", "name=rootless"]}', "other users than this machine"),
        ('{"SecurityOptions": ["name=userns"]}', "other users than this machine"),
    ],
)
async def test_an_engine_that_cannot_isolate_is_refused(info: str, why: str, tmp_path: Path) -> None:
    async with playing(tmp_path / "e.sock", {"GET /info": reply(200, info)}):
        settings = profile(tmp_path / "runs", socket=str(tmp_path / "e.sock"))
        with pytest.raises(SandboxUnavailableError, match=why):
            await DockerSandbox(settings).check()


async def test_an_image_of_another_protocol_is_refused(tmp_path: Path) -> None:
    image = '{"Config": {"Labels": {"timeloom.protocol": "0"}}}'
    async with playing(tmp_path / "e.sock", {"GET /info": reply(200, "{}"), "GET /images": reply(200, image)}):
        settings = profile(tmp_path / "runs", socket=str(tmp_path / "e.sock"))
        with pytest.raises(SandboxUnavailableError, match="was not made for this version of timeloom; build it"):
            await DockerSandbox(settings).check()
