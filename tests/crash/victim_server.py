"""A fork server for the HTTP kill test: each fork runs a whole server, as `timeloom serve` does, until it is killed.

It reads plans from standard input, one JSON object per line. Each fork prints its process id, then its address; the
fork server prints the exit status. The tools of the crash tests are added, so that effects can be counted.
"""

import asyncio
import os
import sys
import traceback
from pathlib import Path

import msgspec

from tests.crash.crash_scenes import InstrumentedTool, crash_tools
from tests.crash.external_world import EffectLog
from timeloom.config.sections.execution import ExecutionSettings, RuntimeSettings
from timeloom.config.sections.governance import AllowanceSettings, BudgetSettings
from timeloom.config.sections.server import ServerLimitSettings, ServerSettings
from timeloom.config.settings import OpenAISettings, Settings
from timeloom.core.policy.gates import Effect
from timeloom.server.bootstrap import serve
from timeloom.server.observability.logs import log_to_stderr

BROKEN = 1
REPEATED_CALL = "an irreversible call is repeated"
"""The fault of a tool that says that its calls may be repeated, and whose effects cannot be undone."""

SHARED = AllowanceSettings(tokens=10**11, rounds=10**6, tool_calls=10**6)
"""A budget that several conversations share and none exhausts: it makes each step ask the ledger."""


class ServerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The folder of the data, keys and effects, the address of the model service, and how the server ends."""

    folder: str
    model_url: str
    kill_at: int | None = None
    """Kill the server at that boundary of a tool call, counted over all servers."""
    fault: str = ""
    """A fault to inject for the checker to find."""


class ServerForked(msgspec.Struct, frozen=True, tag=True):
    """The process id of a server that begins to start."""

    pid: int


class ServerReady(msgspec.Struct, frozen=True, tag=True):
    """The address of a server that accepts requests."""

    url: str


class ServerExit(msgspec.Struct, frozen=True, tag=True):
    """The exit status of a server; negative for a signal."""

    status: int


ServerLine = ServerForked | ServerReady | ServerExit


async def run_server(plan: ServerPlan) -> None:
    """Run a server by that plan until it is told to stop."""
    folder = Path(plan.folder)
    effect_log = EffectLog(folder / "outside.jsonl", plan.kill_at)
    effect: Effect = "idempotent" if plan.fault == REPEATED_CALL else "irreversible"
    tools = [InstrumentedTool(one, effect_log) for one in crash_tools(effect_log, folder / "room", effect)]
    log_to_stderr()
    async with serve(server_settings(plan), tools=tools) as server:
        server.shut_down_on_signals()
        _print_line(ServerReady(server.url))
        await server.wait()


def server_settings(plan: ServerPlan) -> Settings:
    """Return the settings of the server: API keys, shared budgets, and conversations that are released quickly."""
    folder = Path(plan.folder)
    limits = ServerLimitSettings(requests_per_s="none", streams="none")
    return Settings(
        data_dir=folder / "data",
        model="openai:outside",
        title_model="none",
        summary_model="none",
        openai=OpenAISettings(base_url=plan.model_url, api_key="outside"),
        budget=BudgetSettings(tree=SHARED, user=SHARED, project=SHARED),
        execution=ExecutionSettings(runtime=RuntimeSettings(enabled=False)),
        server=ServerSettings(
            port=0,
            mode="tokens",
            tokens_file=folder / "keys.toml",
            rest_s=0.2,
            grace_s=0.1,
            heartbeat_s=1.0,
            limits=limits,
        ),
    )


def fork_server(plan: ServerPlan) -> ServerExit:
    """Run the plan in a forked child and return its exit status."""
    child = os.fork()
    if not child:
        status = BROKEN
        try:
            _print_line(ServerForked(os.getpid()))
            asyncio.run(run_server(plan))
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            # Nothing of the parent process may run in the child, also after an error.
            sys.stderr.flush()
            os._exit(status)
    return ServerExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _print_line(line: ServerLine) -> None:
    # One write, because the fork server prints to the same pipe.
    os.write(1, msgspec.json.encode(line) + b"\n")


if __name__ == "__main__":
    for line in sys.stdin.buffer:
        _print_line(fork_server(msgspec.json.decode(line, type=ServerPlan)))
