"""A tool broker, an output recorder and program runners for the checks of the sandbox contract."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from timeloom.platform.tasks import finishes_before
from timeloom.ports.sandbox import ExecutionLimits, Program, ProgramResult, Sandbox, ToolStub

Open = Callable[[], Awaitable[Sandbox]]
Check = Callable[[Open], Coroutine[None, None, None]]

WAIT_S: Final = 60.0
"""Timeout of a check in seconds. A sandbox that keeps the contract never reaches it."""

STUBS: Final = (
    ToolStub(tool_id="web.search", module="web_tools", function="search", params=("query", "limit"), doc="Searches."),
)


@asynccontextmanager
async def scoped_sandbox(open_sandbox: Open) -> AsyncGenerator[Sandbox]:
    """Yield the sandbox and close it at the end."""
    sandbox = await open_sandbox()
    try:
        yield sandbox
    finally:
        await sandbox.close()


@dataclass(slots=True)
class TableBroker:
    """Echoes tool calls, returns paths from a table, and records all requests."""

    table: Mapping[str, str] = field(default_factory=dict[str, str])
    allowed: frozenset[str] = frozenset({"web.search"})
    requests: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    async def call(self, tool_id: str, params: str) -> str:
        self.requests.append((tool_id, params))
        if tool_id not in self.allowed:
            return _envelope(error={"code": "tool_not_allowed", "message": f"{tool_id} is not allowed"})
        return _envelope(ret={"tool_id": tool_id, "params": msgspec.json.decode(params)})

    async def fetch(self, path: str) -> str:
        self.requests.append(("fetch", path))
        if path in self.table:
            return _envelope(ret=self.table[path])
        return _envelope(error={"code": "path_not_found", "message": f"nothing is at {path}"})


@dataclass(slots=True)
class OutputRecorder:
    """Records the output of a program, and lets a check wait for a word in it."""

    stdout: str = ""
    stderr: str = ""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        match stream:
            case "stdout":
                self.stdout += text
            case "stderr":
                self.stderr += text
        self._changed.set()

    async def wait_for_word(self, word: str) -> None:
        """Wait until the program has printed the word to stdout."""
        async with asyncio.timeout(WAIT_S):
            while word not in self.stdout:
                self._changed.clear()
                await self._changed.wait()


class CheckedRun(msgspec.Struct, frozen=True):
    """A finished program: its run, its output, and its output files by name."""

    ran: ProgramResult
    output: OutputRecorder
    files: Mapping[str, bytes]

    @property
    def description(self) -> str:
        """The exit status and all output, for the message of a failed check."""
        return f"{self.ran.ending} {self.ran.exit_code} {self.ran.detail}\n{self.output.stdout}\n{self.output.stderr}"


def program(code: str, *, limits: ExecutionLimits | None = None, inputs: Mapping[str, Path] | None = None) -> Program:
    """Return a program with the usual tool stubs and a time limit of `WAIT_S`, unless `limits` is given."""
    return Program(
        code=code,
        execution_id="exec_contract",
        stubs=STUBS,
        inputs=inputs or {},
        limits=limits or ExecutionLimits(wall_s=WAIT_S),
    )


async def run_program(
    sandbox: Sandbox, code_or_program: Program | str, broker: TableBroker | None = None
) -> CheckedRun:
    """Run the program or code to its end."""
    output = OutputRecorder()
    prepared = code_or_program if isinstance(code_or_program, Program) else program(code_or_program)
    async with asyncio.timeout(WAIT_S), sandbox.run(prepared, broker or TableBroker(), output) as ran:
        return CheckedRun(ran, output, _files(ran.out_dir))


async def start_program(
    sandbox: Sandbox, prepared: Program, word: str
) -> tuple["asyncio.Task[CheckedRun]", OutputRecorder]:
    """Start the program and wait until it has printed that word; returns its task and its output."""
    output = OutputRecorder()

    async def run() -> CheckedRun:
        async with sandbox.run(prepared, TableBroker(), output) as ran:
            return CheckedRun(ran, output, _files(ran.out_dir))

    task = asyncio.create_task(run())
    if not await finishes_before(output.wait_for_word(word), task):
        raise AssertionError(f"the program ended before it printed {word!r}: {(await task).description}")
    return task, output


async def cancel_run(task: "asyncio.Task[CheckedRun]") -> None:
    """Cancel the task of a run and wait until it has ended as cancelled."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled(), "a run that is cancelled ends as cancelled"


def _files(folder: Path) -> dict[str, bytes]:
    """Return the regular files without following links, by relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _envelope(ret: object = None, error: object = None) -> str:
    return msgspec.json.encode({"ok": error is None, "error": error, "ret": ret}).decode()
