"""The surroundings of the killed servers: their processes, the model service that they ask, and the API keys."""

import asyncio
import hashlib
import os
import random
import re
import signal
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import msgspec
import uvicorn
from msgspec.structs import replace

from tests.crash.victim_server import ServerExit, ServerForked, ServerLine, ServerPlan, ServerReady
from tests.harness.replies import answers, calls
from tests.harness.repository import ROOT, program
from timeloom.core.blocks import Usage
from timeloom.ports.model import FinishEvent, ModelEvent, ModelRequest, TextPiece, TextSegment
from timeloom.server.auth.api_key_file import add_key
from timeloom.server.auth.principal import Principal, Role
from timeloom.testing.model_endpoint.app import model_app

PROGRAM = program("tests.crash.victim_server")
TENANT, PROJECT = "home", "demo"
KEYS: dict[str, Role] = {"ann": "user", "bob": "user", "eve": "approver"}
"""The users, each with an API key that is their name, and their roles."""

MARK = re.compile(r"mark-\d{6}")
"""Each text that a client sends contains one mark, so that it can be found on timelines and in requests."""
TAG = re.compile(r"tag-\d{6}")
"""The first message of a conversation contains its tag."""

REPLIES: Mapping[str, int] = MappingProxyType(
    {"answer": 40, "t.look": 22, "t.put": 8, "t.send": 12, "t.pay": 8, "write": 10}
)
"""How often the model service answers, calls each tool, or writes a file."""

CHUNK = 40
MAX_DELAY_S = 0.01
"""Longest pause between two pieces of a reply: long enough that kills hit the middle of replies."""


class ReceivedRequest(msgspec.Struct, frozen=True):
    """A request that the model service received: the hash of its text, and the marks in it."""

    sha256: str
    tag: str
    marks: frozenset[str]


class OutsideModel:
    """The model service: chooses replies by the tag of the conversation and the number of the call; keeps requests."""

    def __init__(self, seed: int, weights: Mapping[str, int] = REPLIES) -> None:
        self._seed = seed
        self._weights = weights
        self.requests: list[ReceivedRequest] = []
        self.asked = asyncio.Event()
        """Set by each request; whoever waits for the next one clears it."""

    @property
    def name(self) -> str:
        return "outside"

    @property
    def window_tokens(self) -> int:
        return 200_000

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        text = "".join(segment.text for segment in request.segments if isinstance(segment, TextSegment))
        found = TAG.search(text)
        tag = found.group() if found else ""
        self.requests.append(ReceivedRequest(text_sha256(text), tag, frozenset(MARK.findall(text))))
        self.asked.set()
        chance = random.Random(f"{self._seed} {tag} {request.number}")
        reply = _choose_reply(chance, self._weights, request.number)
        for at in range(0, len(reply), CHUNK):
            await asyncio.sleep(chance.uniform(0, MAX_DELAY_S))
            yield TextPiece(reply[at : at + CHUNK])
        yield FinishEvent("end", Usage(input_tokens=len(text) // 4, output_tokens=len(reply) // 4), self.name)

    async def close(self) -> None:
        pass


def text_sha256(text: str) -> str:
    """Return the hash by which a request of the log is compared with a request that was received."""
    return hashlib.sha256(text.encode()).hexdigest()


def _choose_reply(chance: random.Random, weights: Mapping[str, int], number: int) -> str:
    thinking = "Let me see. " * chance.randint(1, 5)
    what = f"item{number}"
    match chance.choices(tuple(weights), tuple(weights.values()))[0]:
        case "answer":
            return answers("Done. " * chance.randint(1, 20))
        case "write":
            return calls("react.write", thinking=thinking, path=f"files/{what}.md", content="# Note\n" * 20)
        case tool_id:
            return calls(tool_id, thinking=thinking, what=what)


@asynccontextmanager
async def serve_model(model: OutsideModel) -> AsyncGenerator[str]:
    """Serve the model on a free port of this process and yield its base URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(model_app(model), log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = server.force_exit = True
        await task
        listener.close()


class ServerProcess:
    """The server over one data folder: killed and started again, each time at another address."""

    def __init__(self, process: asyncio.subprocess.Process, plan: ServerPlan) -> None:
        self._process = process
        self._plan = plan
        self._pid = 0
        self.url = ""
        """The address of the current or last server."""
        self.is_ready = asyncio.Event()
        """Set while a server accepts requests."""

    async def fork(self, *, kill_at: int | None = None) -> None:
        """Begin to start a server, which may kill itself at a boundary of a tool call."""
        assert self._process.stdin is not None
        plan = replace(self._plan, kill_at=kill_at)
        self._process.stdin.write(msgspec.json.encode(plan) + b"\n")
        line = await self._read_line()
        assert isinstance(line, ServerForked), line
        self._pid = line.pid

    async def wait_until_ready(self) -> None:
        """Wait until the server that was forked accepts requests."""
        line = await self._read_line()
        assert isinstance(line, ServerReady), f"{line}: {self.read_log()}"
        self.url = line.url
        self.is_ready.set()

    async def end(self, number: signal.Signals) -> int:
        """Send the signal and return the exit status."""
        # The fork server has reaped a process that killed itself just before.
        with suppress(ProcessLookupError):
            os.kill(self._pid, number)
        return await self.wait_for_exit()

    async def wait_for_exit(self) -> int:
        """Wait until the server ends by itself and return the exit status."""
        while not isinstance(line := await self._read_line(), ServerExit):
            pass
        self.is_ready.clear()
        return line.status

    def read_log(self) -> str:
        """Return the end of what the servers wrote to standard error."""
        return (Path(self._plan.folder) / "stderr.txt").read_text()[-5000:]

    async def _read_line(self) -> ServerLine:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, f"the fork server ended: {self.read_log()}"
        return msgspec.json.decode(line, type=ServerLine)


@asynccontextmanager
async def open_server_process(folder: Path, model_url: str, fault: str = "") -> AsyncGenerator[ServerProcess]:
    """Prepare the folder and yield a server that is not started yet."""
    (folder / "room").mkdir(parents=True)
    (folder / "outside.jsonl").touch()
    for user, role in KEYS.items():
        add_key(folder / "keys.toml", user, Principal(tenant=TENANT, project=PROJECT, user=user, role=role))
    plan = ServerPlan(folder=str(folder), model_url=model_url, fault=fault)
    # No coverage: a killed process cannot report it. No variables of this machine either: the settings are complete.
    names = ("PATH", "HOME", "TMPDIR", "LANG", "PYTHONPATH")
    quiet = {name: os.environ[name] for name in names if name in os.environ}
    with (folder / "stderr.txt").open("wb") as stderr:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=stderr, env=quiet
        )
        server = ServerProcess(process, plan)
        try:
            yield server
        finally:
            if process.returncode is None:
                if server.is_ready.is_set():
                    await server.end(signal.SIGKILL)
                process.kill()
            await process.wait()
