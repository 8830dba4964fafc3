"""Harness of the escape suite: every sandbox kind that can run here, and programs that try to escape."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from timeloom.ports.sandbox import ExecutionLimits, Sandbox
from timeloom.sandbox.local import LocalSandbox, LocalSettings
from timeloom.testing.sandbox_contract.fixtures import WAIT_S, CheckedRun, TableBroker, program, run_program

SECRET = "canary-3f9a61c07be2"
"""A value that no program may see: it is in the environment and in files around the sandbox."""

BACKENDS: dict[str, Callable[[Path], Sandbox]] = {
    "local": lambda folder: LocalSandbox(LocalSettings(folder=folder, warm=0)),
    "local-watchdog": lambda folder: LocalSandbox(LocalSettings(folder=folder, warm=0, cgroups=False)),
    "local-warm": lambda folder: LocalSandbox(LocalSettings(folder=folder, warm=2, preload=("json",))),
}


@dataclass
class EscapeHarness:
    """A sandbox, and an event loop that runs programs in it."""

    sandbox: Sandbox
    runner: asyncio.Runner
    outside: Path
    """A host folder that contains the secret."""

    def run(self, code: str, broker: TableBroker | None = None, limits: ExecutionLimits | None = None) -> CheckedRun:
        """Run the program and return its result; assert that the secret is nowhere in it."""
        given = program(PRELUDE + code, limits=limits or ExecutionLimits(wall_s=WAIT_S))
        done = self.runner.run(run_program(self.sandbox, given, broker))
        assert SECRET not in done.description
        assert not any(SECRET.encode() in content for content in done.files.values())
        return done

    def assert_contained(self, code: str, limits: ExecutionLimits | None = None) -> str:
        """Run a program that tries to escape; assert that every attempt failed and return its output."""
        done = self.run(code + "\nprint('tried all')\n", limits=limits)
        assert "tried all" in done.output.stdout, done.description
        assert "ESCAPED" not in done.description, done.description
        return done.output.stdout


def mounts(folder: Path) -> list[str]:
    """Return the mounts in that folder on this machine, and those of a spawner's private mount namespace."""
    places = [line.split(" ") for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    return [
        place for _, place, kind, *_ in places if place.startswith(str(folder)) or (place, kind) == ("/sys", "tmpfs")
    ]


PRELUDE = """
import ctypes, errno, os, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, what):
    try:
        got = what()
    except Exception as error:
        print("refused:", name, type(error).__name__, error)
    else:
        print("ESCAPED:", name, got)
def system_call(number, *arguments):
    long = [ctypes.c_long(each) if isinstance(each, int) else each for each in (number, *arguments)]
    got = libc.syscall(*long)
    if got < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got
def called(name, *arguments):
    got = getattr(libc, name)(*arguments)
    if got < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got
"""
