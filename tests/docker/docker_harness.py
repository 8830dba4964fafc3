"""Harness for the container sandbox: an open sandbox, an echoing broker and checks for leftovers."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from timeloom.ports.sandbox import ExecutionLimits, Program, ProgramResult
from timeloom.sandbox.docker import DockerProfile, DockerSandbox
from timeloom.sandbox.docker.cleanup import RUNS_LABEL
from timeloom.sandbox.docker.engine import ContainerEngine

SOCKET = os.environ.get("TIMELOOM_DOCKER_SOCKET", "")
Strategy = Literal["split", "combined"]
STRATEGIES: tuple[Strategy, ...] = ("split", "combined")


class EchoBroker:
    """Answers a call with its parameters and a fetch with its path."""

    async def call(self, tool_id: str, params: str) -> str:
        return f'{{"ok": true, "error": null, "ret": {params}}}'

    async def fetch(self, path: str) -> str:
        return f'{{"ok": true, "error": null, "ret": "{path}"}}'


def profile(runs: Path, strategy: Strategy = "split", **more: object) -> DockerProfile:
    """Return a profile for the engine of these tests, with further settings by name."""
    settings: dict[str, object] = {"socket": SOCKET, "runs_dir": runs, "container_strategy": strategy, **more}
    return DockerProfile(**settings)  # type: ignore[arg-type]


@asynccontextmanager
async def open_sandbox(settings: DockerProfile) -> AsyncGenerator[DockerSandbox]:
    sandbox = DockerSandbox(settings)
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def run_program(sandbox: DockerSandbox, code: str, limits: ExecutionLimits | None = None) -> ProgramResult:
    """Run the program and return how it ended; its output folder is removed."""
    program = Program(code=code, execution_id="exec_1", limits=limits or ExecutionLimits(wall_s=30))
    async with sandbox.run(program, EchoBroker(), lambda _stream, _text: None) as result:
        return result


async def containers(runs: Path) -> list[str]:
    """Return the existing containers of supervisors with these folders."""
    return [each.id for each in await ContainerEngine(Path(SOCKET)).list_containers(f"{RUNS_LABEL}={runs}")]


def remaining_files(runs: Path) -> list[str]:
    return [path.name for path in runs.rglob("*")] if runs.is_dir() else []
