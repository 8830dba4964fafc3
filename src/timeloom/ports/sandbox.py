"""The sandbox port: runs untrusted programs and answers their requests."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.policy.gates import Caller

MIB = 1024 * 1024

MAX_LIMIT = 2**62
"""Largest limit of a program. A larger one does not fit the numbers of a kernel together with what sandboxes add."""


class SandboxUnavailableError(CodedError):
    """This machine cannot isolate a program; the message names the missing parts and what to install."""

    def __init__(self, message: str) -> None:
        super().__init__("sandbox_unavailable", message)


class ExecutionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one program, all its processes together; `file_bytes` is per file, `open_files` per process."""

    wall_s: float = 60.0
    cpu_s: float = 60.0
    memory_bytes: int = 1024 * MIB
    processes: int = 64
    open_files: int = 256
    file_bytes: int = 256 * MIB
    growth_bytes: int = 512 * MIB
    """Total size of all data that it may write into its folders."""
    growth_files: int = 10_000
    output_bytes: int = 4 * MIB
    """Total size of its printed output."""
    tool_calls: int = 1000
    tool_bytes: int = 64 * MIB
    """Total size of the parameters and answers of its tool calls, which the timeline stores. The broker enforces
    `tool_calls` and `tool_bytes`: it refuses further calls, and the program continues."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not 0 <= value <= MAX_LIMIT:
                got = value if isinstance(value, float) or abs(value) < 10**20 else "a larger number"
                raise CodedError("setting_invalid", f"the limit {name} is from 0 to {MAX_LIMIT}, got {got}")


class ToolStub(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the program may call as `module.function(...)`; `tool_id` is its id."""

    tool_id: str
    module: str
    function: str
    params: tuple[str, ...] = ()
    """The parameter names in order, so that arguments may be positional."""
    doc: str = ""


class CallDelegation(msgspec.Struct, frozen=True, kw_only=True):
    """Tool calls that a remote supervisor may execute itself, and the caller they act for.

    The supervisor asks its broker about all other calls. The gates have approved these calls in advance: they need no
    further approval, and the timeline records them afterwards.
    """

    tool_ids: tuple[str, ...] = ()
    """Tools whose calls need no person's approval."""

    most_calls: int = 0
    """Maximum number of such calls."""

    caller: Caller = Caller(tenant="", project="", user="")
    conversation: ConversationId = ConversationId("")
    turn_id: TurnId = TurnId("")
    tool_call_id: CallId = CallId("")
    """The call that runs the program."""


def _no_descriptors() -> Mapping[str, str]:
    return {}


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program and its inputs; it starts with two private folders, one for work and one for outputs."""

    code: str
    execution_id: str
    name: str = "program"
    inputs: Mapping[str, Path] = {}
    """Files that are copied into its `OUT_DIR` before it starts, by their relative path there."""
    read_only: tuple[str, ...] = ()
    """Inputs that the program cannot open for writing, by their relative path."""
    folders: tuple[str, ...] = ()
    """Folders that exist in its `OUT_DIR` when it starts, by relative path; the program creates them itself."""
    links: Mapping[str, str] = {}
    """Symbolic links in its `OUT_DIR` when it starts: their names, and the names of the folders beside them."""
    stubs: tuple[ToolStub, ...] = ()
    limits: ExecutionLimits = ExecutionLimits()
    bundle: str = ""
    """The name of the bundle whose tools the program may call; empty without one."""
    make_descriptors: Callable[[], Mapping[str, str]] = _no_descriptors
    """Makes the settings and secrets of that bundle as files by name, for a supervisor on another machine. It reads
    secrets and may block, so only a sandbox that loads tools elsewhere calls it."""
    leave: CallDelegation = CallDelegation()
    """Used where a program runs far from its conversation; elsewhere the broker decides about every call."""


class Broker(Protocol):
    """Answers the requests of a program and enforces tool lists, gates and budgets.

    Parameters and answers are JSON texts. An error is an answer with `ok` false, never an exception.
    """

    async def call(self, tool_id: str, params: str) -> str:
        """Return the answer to a tool call: an object with `ok`, `error` and `ret`."""
        ...

    async def fetch(self, path: str) -> str:
        """Return the content at a logical path: an object with `ok`, `error` and `ret`."""
        ...


class OutputSink(Protocol):
    """Receives a program's output while the program runs."""

    def __call__(self, stream: Literal["stdout", "stderr"], text: str, /) -> None: ...


ExitReason = Literal["exited", "timeout", "cpu", "memory", "output", "growth", "killed"]
"""How a program ended: it exited, exceeded one of its limits, or was killed by a signal from elsewhere."""


class ProgramUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a program used."""

    wall_ms: int = 0
    cpu_ms: int = 0
    peak_bytes: int = 0


class DelegatedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A delegated call that was executed away from the timeline; `params` and `answer` are JSON texts."""

    tool_id: str
    params: str
    answer: str


class ProgramResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended, its output and its files.

    An untrusted program wrote the content of `out_dir`: expect links, devices and hostile names.
    """

    ending: ExitReason
    exit_code: int
    """The exit code as in shells: 128 plus the signal number if a signal ended the program."""
    out_dir: Path
    stdout_tail: str = ""
    stderr_tail: str = ""
    used: ProgramUsage = ProgramUsage()
    detail: str = ""
    """If a limit ended the program: the limit, and by how much it was exceeded."""
    calls: tuple[DelegatedCall, ...] = ()
    """The delegated calls in order of execution; the timeline does not contain them yet."""


class Sandbox(Protocol):
    """Runs each program isolated from everything except its folders and its broker."""

    @property
    def name(self) -> str:
        """The kind of sandbox: `local`, `docker` or `fargate`."""
        ...

    async def check(self) -> None:
        """Raise `SandboxUnavailableError` if programs cannot be isolated; no program ever runs unprotected."""
        ...

    def run(self, program: Program, broker: Broker, output: OutputSink) -> AbstractAsyncContextManager[ProgramResult]:
        """Run the program to its end on entering the context; its outputs exist until the context exits.

        If the caller is cancelled, all processes of the program are ended before the cancellation propagates.
        """
        ...

    async def close(self) -> None:
        """End all running and waiting programs, and remove their files."""
        ...
