"""The sandbox port: running a program that nobody trusts, and what it may ask for while it runs."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.policy.gates import Caller

MIB = 1024 * 1024


class SandboxUnavailableError(CodedError):
    """This machine cannot isolate a program; the message says what it lacks and what to install."""

    def __init__(self, message: str) -> None:
        super().__init__("sandbox_unavailable", message)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one program may use, all its processes together; `file_bytes` is of a file, `open_files` of a process."""

    wall_s: float = 60.0
    cpu_s: float = 60.0
    memory_bytes: int = 1024 * MIB
    processes: int = 64
    open_files: int = 256
    file_bytes: int = 256 * MIB
    growth_bytes: int = 512 * MIB
    """What it may write into its folders altogether."""
    growth_files: int = 10_000
    output_bytes: int = 4 * MIB
    """What it may print altogether."""
    tool_calls: int = 1000
    tool_bytes: int = 64 * MIB
    """What calls of tools may hold altogether, parameters and answers; each is kept on the timeline. The broker keeps
    these two: a call beyond is refused, and the program goes on."""


class ToolStub(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the program may call: `module.function(...)`, whose id is `tool_id`."""

    tool_id: str
    module: str
    function: str
    params: tuple[str, ...] = ()
    """The names of its parameters, in order, so that arguments may be given by place."""
    doc: str = ""


class Leave(msgspec.Struct, frozen=True, kw_only=True):
    """What a supervisor on another machine may carry out by itself, and on whose behalf; all else it asks its broker.

    Whoever gives it has asked the gates: nobody is asked again before such a call, and it is known of afterwards.
    """

    tool_ids: tuple[str, ...] = ()
    """Tools whose calls need no person's leave."""

    most_calls: int = 0
    """How many such calls the program may make."""

    caller: Caller = Caller(tenant="", project="", user="")
    conversation: ConversationId = ConversationId("")
    turn_id: TurnId = TurnId("")
    tool_call_id: CallId = CallId("")
    """The call that runs the program."""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program and what it is given; it begins with two folders of its own, for work and for what it leaves."""

    code: str
    execution_id: str
    name: str = "program"
    inputs: Mapping[str, Path] = {}
    """Files that lie in its `OUT_DIR` when it begins, by their relative path there; they are copied."""
    folders: tuple[str, ...] = ()
    """Folders that are in its `OUT_DIR` when it begins, by their relative path; it makes them itself."""
    stubs: tuple[ToolStub, ...] = ()
    limits: Limits = Limits()
    leave: Leave = Leave()
    """Of use where a program runs far from its conversation; elsewhere the broker is asked for everything."""


class Broker(Protocol):
    """Answers what a program asks for; it is the place where lists, gates and budgets are enforced.

    Parameters and answers are texts of JSON. What goes wrong is an answer with `ok` false, never a raise.
    """

    async def call(self, tool_id: str, params: str) -> str:
        """The answer to a call of that tool: an object with `ok`, `error` and `ret`."""
        ...

    async def fetch(self, path: str) -> str:
        """What stands at a logical path: an object with `ok`, `error` and `ret`."""
        ...


class Output(Protocol):
    """Hears what a program prints, as it prints it."""

    def __call__(self, stream: Literal["stdout", "stderr"], text: str, /) -> None: ...


Ending = Literal["exited", "timeout", "cpu", "memory", "output", "growth", "killed"]
"""How a program ended: by itself, or because it went over one of its limits, or by a signal that nobody here sent."""


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What a program used."""

    wall_ms: int = 0
    cpu_ms: int = 0
    peak_bytes: int = 0


class MadeCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was carried out by leave, away from the timeline; `params` and `answer` are texts of JSON."""

    tool_id: str
    params: str
    answer: str


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended and what it left.

    What lies in `out_dir` was written by a program that nobody trusts: links, devices and names are to be expected.
    """

    ending: Ending
    exit_code: int
    """As shells count it: 128 and the signal where one ended it."""
    out_dir: Path
    stdout_tail: str = ""
    stderr_tail: str = ""
    used: Used = Used()
    detail: str = ""
    """Where a limit ended it: which, and how far it went over it."""
    calls: tuple[MadeCall, ...] = ()
    """What was called by leave, in the order in which it was done; the timeline does not know of it yet."""


class Sandbox(Protocol):
    """Runs programs, each in a place of its own from which it reaches nothing but its folders and its broker."""

    @property
    def name(self) -> str:
        """Which kind it is: `local`, `docker`, `fargate`."""
        ...

    async def check(self) -> None:
        """Raises `SandboxUnavailableError` where programs cannot be isolated; nothing is ever run unprotected."""
        ...

    def run(self, program: Program, broker: Broker, output: Output) -> AbstractAsyncContextManager[Ran]:
        """Runs the program to its end when it is entered; what it left is there until it is exited.

        When whoever enters it is cancelled, all processes of the program are gone before the cancellation goes on.
        """
        ...

    async def close(self) -> None:
        """Ends what runs or waits, and removes what is left of it."""
        ...
