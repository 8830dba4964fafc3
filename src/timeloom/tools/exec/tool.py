"""The tool `exec_tools.execute_code_python`: runs the program of the code channel in a sandbox."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

from msgspec.structs import replace

from timeloom.core.stream.surrogates import mended
from timeloom.ports.sandbox import Program, Sandbox
from timeloom.ports.tool import Outcome, ToolContext, ToolSpec
from timeloom.tools.define import tool
from timeloom.tools.exec.broker import ProgramBroker
from timeloom.tools.exec.code import code_of
from timeloom.tools.exec.collect_outputs import Collecting
from timeloom.tools.exec.contract import ContractFile, Declared, agreed
from timeloom.tools.exec.guest_modules import stubs_of
from timeloom.tools.exec.inputs import Inputs, inputs_of
from timeloom.tools.exec.output_folder import Given
from timeloom.tools.exec.report import Course, envelope
from timeloom.tools.exec.settings import ExecSettings

TOOL_ID: Final = "exec_tools.execute_code_python"

MARGIN_S: Final = 60.0
"""Most time of a call besides its program: copying files, starting, collecting. Smaller fails large programs after they
have ended; larger lets a sandbox that hangs delay its turn."""

MAX_NAME_CHARS: Final = 80


class ExecTool:
    """The tool, with the sandbox that its programs run in."""

    def __init__(self, sandbox: Sandbox, settings: ExecSettings | None = None) -> None:
        self._sandbox = sandbox
        self._settings = settings or ExecSettings()
        self._tool = tool(
            TOOL_ID,
            # The program itself cannot affect anything outside its sandbox; its tool calls are approved one by one.
            effect="idempotent",
            deadline_s=self._settings.max_timeout_s + MARGIN_S,
            reports=True,
            max_text_bytes=self._settings.text_bytes,
            examples=('{"contract":[{"filename":"prices.csv","description":"price per place"}],"timeout_s":60}',),
        )(self.execute)

    @property
    def spec(self) -> ToolSpec:
        """The description of the tool for the catalogue and the runtime."""
        return self._tool.spec

    async def call(self, params: str, context: ToolContext) -> Outcome:
        """Run the program and return its outcome; failures, also a missing sandbox, become the outcome's error."""
        return await self._tool.call(params, context)

    async def execute(
        self,
        context: ToolContext,
        contract: tuple[ContractFile, ...],
        prog_name: str = "program",
        timeout_s: float | None = None,
    ) -> Outcome:
        """Runs the Python program of the code channel, isolated: no network, no secrets, only its own folders.

        It finds files at OUT_DIR / "turn_…/files/…" (also outputs/, attachments/) and writes what it produces to
        OUT_DIR / "<current turn>/files/…"; all else it writes is scratch. `await` works at the top level.
        context_tools.fetch_ctx(path) brings what is at ar:, tc:, so:, ws:, su: and fi: paths; so: gives rows.
        io_tools.tool_call(tool_id, params), or web_tools.web_search(…) and the like, call tools and return an object
        with ok, error and ret. numpy, pandas and matplotlib are there if they are installed.

        contract: the files to be produced, each with filepath (relative to OUT_DIR) or filename (in the current turn's
            files/), description and visibility (external or internal); empty for a program that only prints
        prog_name: a short name for it
        timeout_s: how long it may run
        """
        settings = self._settings
        code = await code_of(context, settings.code_bytes)
        files = agreed(contract, context, settings.contract_files)
        inputs = await inputs_of(code, context, settings)
        program = Program(
            code=code,
            execution_id=f"{context.turn_id}.{context.tool_call_id}",
            name=mended(prog_name[:MAX_NAME_CHARS]) or "program",
            inputs=inputs.files,
            folders=files.folders(context.turn_id),
            stubs=stubs_of(context.nested.specs) if context.nested else (),
            limits=replace(settings.limits, wall_s=self._wall_s(timeout_s)),
        )
        return envelope(await self._run(program, context, inputs, files.files)).outcome(files.notices)

    def _wall_s(self, asked_s: float | None) -> float:
        wall_s = self._settings.limits.wall_s if asked_s is None else asked_s
        return min(max(wall_s, 1.0), self._settings.max_timeout_s)

    async def _run(
        self, program: Program, context: ToolContext, inputs: Inputs, contract: Sequence[Declared]
    ) -> Course:
        # Before the program starts: tools that it calls may change the originals.
        given = await asyncio.to_thread(lambda: {place: Given.of(file) for place, file in program.inputs.items()})
        broker = ProgramBroker(context, self._settings.fetch_bytes, program.limits)
        printed = Counter[str]()

        def output(stream: Literal["stdout", "stderr"], text: str) -> None:
            printed[stream] += len(text)
            context.emit(stream, text)

        async with self._sandbox.run(program, broker, output) as ran:
            collecting = Collecting(ran.out_dir, given, context, self._settings)
            produced = await asyncio.to_thread(collecting.collect, contract)
        for made in ran.calls:
            broker.count(made.tool_id, made.answer)
        return Course(
            ran=ran,
            limits=program.limits,
            max_timeout_s=self._settings.max_timeout_s,
            inputs=inputs,
            produced=produced,
            calls=broker.calls,
            printed=printed,
        )
