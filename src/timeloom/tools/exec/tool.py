"""The tool `exec_tools.execute_code_python`: runs the program of the code channel in a sandbox."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import ToolTraits
from timeloom.core.ids import TurnId
from timeloom.core.stream.surrogates import replace_lone_surrogates
from timeloom.core.view.aliases import ConversationNames
from timeloom.ports.bundle_context import find_bundle
from timeloom.ports.sandbox import Program, Sandbox
from timeloom.ports.tool import Outcome, ToolContext, ToolSpec
from timeloom.tools.define import tool
from timeloom.tools.exec.broker import ProgramBroker
from timeloom.tools.exec.code import load_code
from timeloom.tools.exec.collect_outputs import OutputCollector, keep_visibility
from timeloom.tools.exec.contract import Contract, ContractFile, DeclaredFile, resolve_contract
from timeloom.tools.exec.conversation_files import add_conversation_files
from timeloom.tools.exec.descriptors import make_descriptors
from timeloom.tools.exec.guest_modules import make_tool_stubs
from timeloom.tools.exec.inputs import ProgramInputs, collect_inputs
from timeloom.tools.exec.output_folder import InputFingerprint
from timeloom.tools.exec.report import FinishedRun, build_envelope
from timeloom.tools.exec.settings import ExecSettings
from timeloom.tools.first_edition import FIRST_EDITION
from timeloom.tools.react.resolve import ContentSource, NoContent
from timeloom.tools.shown_names import shown_place

TOOL_ID: Final = "exec_tools.execute_code_python"

MARGIN_S: Final = 60.0
"""Most time of a call besides its program: copying files, starting, collecting. Smaller fails large programs after they
have ended; larger lets a sandbox that hangs delay its turn."""

MAX_NAME_CHARS: Final = 80


class ExecTool:
    """The tool, with the sandbox that its programs run in."""

    def __init__(
        self, sandbox: Sandbox, settings: ExecSettings | None = None, source: ContentSource | None = None
    ) -> None:
        self._sandbox = sandbox
        self._settings = settings or ExecSettings()
        self._source = source or NoContent()
        self._tool = tool(
            TOOL_ID,
            # The program itself cannot affect anything outside its sandbox; its tool calls are approved one by one.
            effect="idempotent",
            deadline_s=self._settings.max_timeout_s + MARGIN_S,
            reports=True,
            max_text_bytes=self._settings.text_bytes,
            traits=ToolTraits(runs_code=True),
            first_edition=FIRST_EDITION[TOOL_ID],
        )(self.execute)

    @property
    def spec(self) -> ToolSpec:
        """The description of the tool for the catalogue and the runtime."""
        return self._tool.spec

    def with_source(self, source: ContentSource) -> "ExecTool":
        """Return the tool for an agent whose programs can fetch the content of that source, in the same sandbox."""
        return ExecTool(self._sandbox, self._settings, source)

    async def call(self, params: str, context: ToolContext) -> Outcome:
        """Run the program and return its outcome; failures, also a missing sandbox, become the outcome's error."""
        return await self._tool.call(_with_contract(params), context)

    async def execute(
        self,
        context: ToolContext,
        contract: tuple[ContractFile, ...],
        prog_name: str = "program",
        timeout_s: float | None = None,
    ) -> Outcome:
        """Run a Python program in isolation: no network, no secrets, only its own folders.

        Files are at OUT_DIR / "t1/files/…" (also outputs/, attachments/). Write results to
        OUT_DIR / "<current turn>/files/…"; other files are lost. `await` works at the top level.
        context_tools.fetch_ctx(path) returns what is at a path; so: paths give rows.
        io_tools.tool_call(tool_id, params) calls a tool and returns an object with ok, error and ret.
        numpy, pandas and matplotlib may be installed.

        contract: the files to produce, each by filepath (from OUT_DIR) or filename (in the current turn's files/);
            empty if the program only prints
        prog_name: a short name
        timeout_s: seconds that it may run
        """
        settings = self._settings
        code = await load_code(context, settings.code_bytes)
        files = resolve_contract(contract, context, settings.contract_files)
        inputs = await collect_inputs(code, context, settings)
        with TemporaryDirectory(prefix="timeloom-exec-") as folder:
            await add_conversation_files(code, context, Path(folder), inputs)
            program = self._make_program(code, context, inputs, files, prog_name, timeout_s)
            return build_envelope(await self._run(program, context, inputs, files.files)).outcome(files.notices)

    def _make_program(
        self,
        code: str,
        context: ToolContext,
        inputs: ProgramInputs,
        files: Contract,
        prog_name: str,
        timeout_s: float | None,
    ) -> Program:
        folders, bundle = files.folders(context.turn_id), find_bundle()
        return Program(
            code=code,
            execution_id=f"{context.turn_id}.{context.tool_call_id}",
            name=replace_lone_surrogates(prog_name[:MAX_NAME_CHARS]) or "program",
            inputs=inputs.files,
            read_only=tuple(inputs.read_only),
            folders=folders,
            links=_alias_links((*inputs.files, *folders), context),
            stubs=make_tool_stubs(context.nested.specs) if context.nested else (),
            limits=replace(self._settings.limits, wall_s=self._wall_s(timeout_s)),
            bundle=bundle.bundle if bundle else "",
            make_descriptors=partial(make_descriptors, bundle) if bundle else dict[str, str],
        )

    def _wall_s(self, requested_s: float | None) -> float:
        wall_s = self._settings.limits.wall_s if requested_s is None else requested_s
        return min(max(wall_s, 1.0), self._settings.max_timeout_s)

    async def _run(
        self, program: Program, context: ToolContext, inputs: ProgramInputs, contract: Sequence[DeclaredFile]
    ) -> FinishedRun:
        # Before the program starts: tools that it calls may change the originals.
        fingerprints = await asyncio.to_thread(
            lambda: {place: InputFingerprint.of_file(file) for place, file in program.inputs.items()}
        )
        broker = ProgramBroker(context, self._settings.fetch_bytes, program.limits, self._source)
        printed = Counter[str]()

        def output(stream: Literal["stdout", "stderr"], text: str) -> None:
            printed[stream] += len(text)
            context.emit(stream, text)

        async with self._sandbox.run(program, broker, output) as ran:
            collector = OutputCollector(ran.out_dir, fingerprints, program.links, context, self._settings)
            collected = await asyncio.to_thread(collector.collect, contract)
        await keep_visibility(collected, context)
        for made in ran.calls:
            broker.count_answer(made.tool_id, made.answer)
        return FinishedRun(
            ran=ran,
            limits=program.limits,
            max_timeout_s=self._settings.max_timeout_s,
            inputs=inputs,
            produced=collected,
            calls=broker.calls,
            printed=printed,
            show_place=lambda place: shown_place(place, context.timeline.views),
        )


def _alias_links(places: Iterable[str], context: ToolContext) -> dict[str, str]:
    """Return the aliases of the turns whose folders the program has, each with the name of the folder."""
    names = ConversationNames(context.timeline.views)
    turns = dict.fromkeys(TurnId(folder) for folder, slash, _ in (place.partition("/") for place in places) if slash)
    return {alias: turn for turn in turns if (alias := names.turn(turn)) != turn}


_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _with_contract(params: str) -> str:
    """Return the parameters with an empty contract if they have none.

    The schema still requires one, because a model that names its files gets them into the conversation.
    """
    try:
        given = _OBJECT.decode(params)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        # The tool refuses these parameters and says why.
        return params
    if bytes(given.get("contract", b"null")) != b"null":
        return params
    return msgspec.json.encode({**given, "contract": msgspec.Raw(b"[]")}).decode()
