"""Harness for the broker socket: a guest bootstrap as a plain child process and a table-driven broker.

Nothing is isolated here. It tests the protocol between the two, never the isolation of a program.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from timeloom.ports.sandbox import Program, ToolStub
from timeloom.sandbox.broker_socket import BrokerSocket
from timeloom.sandbox.guest import BOOTSTRAP

TOKEN = "5f" * 16
ME = frozenset({os.getuid()})


def make_envelope(ret: object = None, error: object = None) -> str:
    return msgspec.json.encode({"ok": error is None, "error": error, "ret": ret}).decode()


@dataclass
class TableBroker:
    """Answers calls with their parameters and fetches from a table; `gate` holds calls until enough have arrived."""

    table: dict[str, object] = field(default_factory=dict[str, object])
    calls: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    cancelled: list[str] = field(default_factory=list[str])
    started: asyncio.Event = field(default_factory=asyncio.Event)
    barrier: asyncio.Barrier | None = None

    async def call(self, tool_id: str, params: str) -> str:
        self.calls.append((tool_id, params))
        self.started.set()
        try:
            if self.barrier:
                await self.barrier.wait()
        except asyncio.CancelledError:
            self.cancelled.append(tool_id)
            raise
        if tool_id == "bad.raises":
            raise RuntimeError("a broker with a mistake")
        if tool_id == "big.answer":
            return make_envelope("x" * 9_000_000)
        if tool_id == "no.such":
            return make_envelope(error={"code": "unknown_tool", "message": "no tool has this id"})
        return make_envelope({"tool_id": tool_id, "params": msgspec.json.decode(params)})

    async def fetch(self, path: str) -> str:
        if path in self.table:
            return make_envelope(self.table[path])
        return make_envelope(error={"code": "path_not_found", "message": f"nothing is at {path}"})


class GuestExit(msgspec.Struct, frozen=True):
    """The exit code and the output of a program."""

    code: int
    out: str
    err: str


@dataclass
class GuestProcess:
    """A guest bootstrap that runs beside its broker socket."""

    door: BrokerSocket
    process: asyncio.subprocess.Process
    root: Path

    async def run(self, code: str, broker: TableBroker | None = None, stubs: Sequence[ToolStub] = ()) -> GuestExit:
        await self.door.wait_ready()
        program = Program(code=code, execution_id="exec_1", stubs=tuple(stubs))
        await self.door.start_program(
            program, broker or TableBroker(), workdir=f"{self.root}/work", output_dir=self.out
        )
        out, err = await self.process.communicate()
        return GuestExit(self.process.returncode or 0, out.decode(), err.decode())

    @property
    def out(self) -> str:
        return f"{self.root}/out"


@asynccontextmanager
async def run_guest(root: Path, *arguments: str, token: str = TOKEN) -> AsyncGenerator[GuestProcess]:
    for name in ("work", "out", "sock"):
        (root / name).mkdir()
    path = root / "sock" / "door"
    door = await BrokerSocket.open(path, token=TOKEN, uids=ME)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", BOOTSTRAP, path, *arguments), stdin=pipe, stdout=pipe, stderr=pipe, env={}
    )
    try:
        assert process.stdin is not None
        process.stdin.write(f"{token}\n".encode())
        await process.stdin.drain()
        yield GuestProcess(door, process, root)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
        await door.close()
