"""Runs one conversation through as many killed processes as it takes, and collects the result."""

import asyncio
import os
import subprocess
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from types import MappingProxyType

import msgspec

from tests.crash.checker import CrashEvidence
from tests.crash.external_world import BoundaryReached, read_lines
from tests.crash.victim_process import BROKEN, CONVERSATION, DONE, HEADER, ExitPlan, VictimExit, VictimPlan
from tests.harness.repository import ROOT, program
from timeloom.ports.ledger import scope
from timeloom.ports.store import StoreProblem
from timeloom.runtime.replay.replay import ReplayedCall, replay
from timeloom.stores.sqlite import SqliteStore
from timeloom.tools.workspace import RESERVED_PREFIX

PROGRAM = program("tests.crash.victim_process")
MAX_VICTIMS = 1000
"""A conversation that needs more processes does not terminate."""

KILLED = -9


class ForkServer:
    """The process that victim processes are forked from."""

    def __init__(self, process: subprocess.Popen[bytes], stderr: Path) -> None:
        self._process = process
        self._stderr = stderr

    def run_victim(self, plan: VictimPlan) -> int:
        """Fork a process by that plan and return its exit status."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(plan) + b"\n")
        self._process.stdin.flush()
        status = msgspec.json.decode(self._process.stdout.readline(), type=VictimExit).status
        assert status != BROKEN, self._stderr.read_text()[-5000:]
        return status


@contextmanager
def start_fork_server(folder: Path) -> Generator[ForkServer]:
    """Start a process that is ready to be forked; errors of its children go to a file in the folder."""
    # No coverage: a killed process cannot report it, and collecting takes longer than the process runs.
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    pipe = subprocess.PIPE
    with (
        (folder / "stderr.txt").open("wb") as stderr,
        subprocess.Popen(PROGRAM, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=stderr, env=quiet) as process,
    ):
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield ForkServer(process, folder / "stderr.txt")
        finally:
            process.kill()


class BaselineRun(msgspec.Struct, frozen=True):
    """The result of a scene without a kill, its boundaries, and the duration of the longest process."""

    evidence: CrashEvidence
    boundaries: Sequence[str]
    longest_s: float

    def boundary(self, name: str) -> int:
        """Return the number of the first boundary with that name."""
        return next(number for number, place in enumerate(self.boundaries, 1) if place.endswith(name))


class KilledConversation:
    """A conversation in a new folder, run by a sequence of processes."""

    def __init__(self, zygote: ForkServer, folder: Path, scene: str) -> None:
        self._zygote = zygote
        self.folder = folder
        self._scene = scene
        self.kills = 0
        self.longest_s = 0.0
        """Duration of the longest process."""
        (folder / "room").mkdir(parents=True)
        (folder / "outside.jsonl").touch()

    def run_victim(self, fate: ExitPlan) -> int:
        """Run one process and return its exit status."""
        started = time.monotonic()
        status = self._zygote.run_victim(VictimPlan(str(self.folder), self._scene, fate))
        self.kills += status == KILLED
        self.longest_s = max(self.longest_s, time.monotonic() - started)
        return status

    def run_to_end(self, fates: Iterable[ExitPlan] = ()) -> CrashEvidence:
        """Run processes, with these plans first, until the last turn has ended; return the evidence."""
        for lives, fate in enumerate(chain(fates, repeat(ExitPlan()))):
            assert lives < MAX_VICTIMS, "the conversation does not come to its end"
            if self.run_victim(fate) == DONE:
                break
        return asyncio.run(self.collect_evidence())

    def reached_boundaries(self) -> list[str]:
        """Return the boundaries that were reached, in order."""
        return [line.place for line in read_lines(self.folder / "outside.jsonl") if isinstance(line, BoundaryReached)]

    async def collect_evidence(self) -> CrashEvidence:
        """Return the evidence that the folder contains."""
        async with await SqliteStore.open(self.folder / "data") as store:
            findings = [finding.message for finding in (await store.verify()).findings]
            replayed = [found async for found in replay(store, CONVERSATION)]
            findings += [f"a request cannot be made again: {found}" for found in replayed if not _is_same(found)]
            return CrashEvidence(
                entries=await store.load(CONVERSATION),
                lines=list(read_lines(self.folder / "outside.jsonl")),
                findings=findings,
                open_turns=await store.open_turns(),
                files=MappingProxyType(dict(self._files())),
                spent_tokens=(await store.ledger.spent(scope("user", HEADER.tenant, HEADER.user))).tokens,
            )

    def _files(self) -> Iterator[tuple[str, str]]:
        """Yield the files of the conversation's turns, by turn number and name."""
        workspace = self.folder / "data" / "workspaces" / CONVERSATION
        for number, turn in enumerate(sorted(workspace.iterdir()), 1):
            for file in sorted(turn.rglob("*")):
                if file.is_file() and not file.name.startswith(RESERVED_PREFIX):
                    yield f"{number}/{file.relative_to(turn)}", file.read_text()


def _is_same(found: ReplayedCall | StoreProblem) -> bool:
    return isinstance(found, ReplayedCall) and found.verdict == "same"
