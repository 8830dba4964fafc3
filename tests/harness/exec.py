"""Harness for the exec tool: a conversation, its tools and a sandbox without isolation.

The sandbox runs the program in the real bootstrap beside a broker socket, as a plain child process of the test. The
tests check the tool's inputs, outputs and reports.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tests.harness.broker_socket import ME, TOKEN
from tests.harness.react_tools import T1, ToolHarness
from timeloom.core.blocks import ToolCall, ToolCode
from timeloom.core.ids import TurnId
from timeloom.ports.sandbox import Broker, ExitReason, OutputSink, Program, ProgramResult, Sandbox
from timeloom.ports.tool import Outcome, ToolContext, ToolSpec
from timeloom.sandbox.broker_socket import BrokerSocket
from timeloom.sandbox.guest import BOOTSTRAP
from timeloom.tools.exec.settings import ExecSettings
from timeloom.tools.exec.tool import TOOL_ID, ExecTool


class PlainSandbox:
    """Runs a program as a child of this process; `after` changes its output folder before it is collected."""

    name = "plain"

    def __init__(self, after: Callable[[Path], None] | None = None, ending: ExitReason = "exited") -> None:
        self._after = after
        self._ending: ExitReason = ending
        self.programs: list[Program] = []

    async def check(self) -> None:
        """Do nothing: nothing is isolated, so nothing can be missing."""

    async def close(self) -> None:
        """Do nothing: no process is waiting."""

    @asynccontextmanager
    async def run(self, program: Program, broker: Broker, output: OutputSink) -> AsyncGenerator[ProgramResult]:
        self.programs.append(program)
        root = Path(tempfile.mkdtemp())
        try:
            for name in ("work", "out", "sock"):
                (root / name).mkdir()
            for place, source in program.inputs.items():
                (root / "out" / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, root / "out" / place)
            yield await self._run_program(root, program, broker, output)
        finally:
            shutil.rmtree(root)

    async def _run_program(self, root: Path, program: Program, broker: Broker, output: OutputSink) -> ProgramResult:
        door = await BrokerSocket.open(root / "sock" / "door", token=TOKEN, uids=ME)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", BOOTSTRAP, root / "sock" / "door"), stdin=pipe, stdout=pipe, stderr=pipe, env={}
        )
        try:
            assert process.stdin is not None
            process.stdin.write(f"{TOKEN}\n".encode())
            await door.wait_ready()
            await door.start_program(program, broker, workdir=f"{root}/work", output_dir=f"{root}/out")
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
            await door.close()
        if out:
            output("stdout", out.decode())
        if err:
            output("stderr", err.decode())
        if self._after:
            self._after(root / "out")
        return ProgramResult(
            ending=self._ending,
            exit_code=process.returncode or 0,
            out_dir=root / "out",
            stdout_tail=out.decode(),
            stderr_tail=err.decode().replace(f"{root}/", "/workspace/"),
        )


class TableTools:
    """Answers calls of a program by functions and records them on the timeline."""

    def __init__(self, stage: ToolHarness, context: ToolContext, specs: Sequence[ToolSpec], answer: "AnswerOf") -> None:
        self._stage, self._context, self._answer = stage, context, answer
        self.specs = specs

    async def call(self, tool_id: str, params: str) -> str:
        inner = self._stage.context(self._context.turn_id)
        call = ToolCall(tool_id=tool_id, tool_call_id=inner.tool_call_id, params=params, by=self._context.tool_call_id)
        await self._stage.append(call, turn=self._context.turn_id)
        return msgspec.json.encode(await self._answer(tool_id, params)).decode()


AnswerOf = Callable[[str, str], Awaitable[dict[str, object]]]


async def echo_call(tool_id: str, params: str) -> dict[str, object]:
    if tool_id == "web_tools.broken":
        return {"ok": False, "error": {"code": "gate_refused", "message": "no"}, "ret": None}
    return {"ok": True, "error": None, "ret": msgspec.json.decode(params)}


SPECS = (
    ToolSpec(
        tool_id="web_tools.web_search",
        purpose="Searches.",
        effect="pure",
        params_schema='{"type":"object","properties":{"query":{},"n":{}}}',
    ),
    ToolSpec(tool_id="web_tools.broken", purpose="Fails."),
)


async def make_exec_context(
    stage: ToolHarness, code: str | None, specs: Sequence[ToolSpec] | None = SPECS, turn: TurnId = T1
) -> ToolContext:
    """Return the context of an exec call whose code is on the timeline."""
    context = stage.context(turn)
    if code is not None:
        await stage.append(ToolCode(tool_call_id=context.tool_call_id, text=code), turn=turn)
    await stage.append(ToolCall(tool_id=TOOL_ID, tool_call_id=context.tool_call_id), turn=turn)
    nested = None if specs is None else TableTools(stage, context, specs, echo_call)
    return replace(context, nested=nested)


async def run_exec(
    stage: ToolHarness,
    code: str | None,
    *contract: object,
    sandbox: Sandbox | None = None,
    settings: ExecSettings | None = None,
    **params: object,
) -> Outcome:
    """Run an exec call with this code and contract and return its outcome."""
    context = await make_exec_context(stage, code)
    text = msgspec.json.encode({"contract": contract, **params}).decode()
    return await ExecTool(sandbox or PlainSandbox(), settings).call(text, context)
