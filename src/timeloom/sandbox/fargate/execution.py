"""Executes one program in a Fargate task: uploads it, follows the task, collects the files and cleans up."""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final

import msgspec

from timeloom.platform.tasks import uncancelled
from timeloom.ports.sandbox import Broker, Ending, Output, Program, Ran, SandboxUnavailableError
from timeloom.sandbox.fargate.broker_relay import Answering
from timeloom.sandbox.fargate.profile import FargateProfile
from timeloom.sandbox.fargate.tasks import NotLaunchedError, Tasks, TaskState
from timeloom.sandbox.fargate.upload import Sent, send
from timeloom.sandbox.folders.run_folder import RunFolder
from timeloom.sandbox.remote.bucket import Bucket
from timeloom.sandbox.remote.bucket_messages import Mailbox
from timeloom.sandbox.remote.cloud import CloudError
from timeloom.sandbox.remote.launch_payload import (
    MAX_REPORT_BYTES,
    VERSION,
    Report,
    read_report,
    report_key,
    room_for,
    sealed,
)
from timeloom.sandbox.remote.snapshot import SnapshotError, digest, remove, unpack

STOP_S: Final = 180.0
"""How long to wait for a task to stop: ECS gives its containers half a minute to exit by themselves."""

MOST_MISSED: Final = 10
"""Failed polls in a row before an execution is abandoned; a busy service may fail for a while."""

_KILLED: Final = 137

_logger = logging.getLogger(__name__)


class _GivenUpError(Exception):
    """The caller stopped waiting; `ending` is the resulting ending, the message is the reason."""

    def __init__(self, ending: Ending, detail: str) -> None:
        super().__init__(detail)
        self.ending: Ending = ending


@dataclass(slots=True)
class Execution:
    """One program in its Fargate task."""

    profile: FargateProfile
    tasks: Tasks
    bucket: Bucket
    program: Program
    run: RunFolder
    base: str
    secret: str
    arn: str = ""
    sent: Sent | None = None
    stopped: bool = False

    async def ran(self, broker: Broker, output: Output) -> Ran:
        """Run the program to its end; none of its resources is left in AWS afterwards.

        Raises `SandboxUnavailableError` if the services cannot be used at all.
        """
        answering = Answering(Mailbox(self.bucket, f"{self.base}down/", f"{self.base}up/"), broker, output)
        try:
            ran = await self._ran(answering)
        finally:
            await uncancelled(self._cleared(answering))
        return msgspec.structs.replace(ran, calls=tuple(answering.made))

    async def _ran(self, answering: Answering) -> Ran:
        """Run the program without the cleanup; a failure on the way becomes an ending."""
        try:
            await uncancelled(self._launch())
            return await self._taken_over(await self._followed(answering))
        except SandboxUnavailableError:
            raise
        except CloudError as error:
            if error.unusable:
                raise SandboxUnavailableError(f"{error}; check the credentials, rights and settings") from None
            return self._lost("killed", str(error))
        except _GivenUpError as error:
            return self._lost(error.ending, str(error))
        except (NotLaunchedError, ValueError, OSError) as error:
            return self._lost("killed", str(error) or type(error).__name__)

    async def stop(self, reason: str) -> None:
        """Stop the task and wait until it has stopped."""
        if not self.arn or self.stopped:
            return
        await asyncio.to_thread(self.tasks.stop, self.arn, reason)
        give_up_at = time.monotonic() + STOP_S
        while time.monotonic() < give_up_at:
            state = await asyncio.to_thread(self.tasks.look, self.arn)
            if state is None or state.stopped:
                self.stopped = True
                return
            await asyncio.sleep(self.profile.poll_s)
        _logger.warning("a task did not stop within %g s; ECS will kill it", STOP_S)

    async def _launch(self) -> None:
        self.sent = await asyncio.to_thread(send, self.program, self.profile, self.run, self.bucket, self.base)
        await asyncio.to_thread(self.tasks.keep_secret, self.secret, sealed(self.sent.launch))
        self.arn = await asyncio.to_thread(self.tasks.start, self.secret)

    async def _followed(self, answering: Answering) -> TaskState:
        """Wait for the end of the task and answer its requests; raise `_AbandonedError` past a deadline."""
        deadline = _Deadline(self.profile, self.program.limits.wall_s)
        missed = 0
        while True:
            try:
                state = await asyncio.to_thread(self.tasks.look, self.arn)
                if state is not None and (state.runs or state.stopped):
                    await answering.look()
                missed = missed + 1 if state is None else 0
            except CloudError:
                state, missed = None, missed + 1
                if missed > MOST_MISSED:
                    raise
            if state is not None and state.stopped:
                self.stopped = True
                return state
            if missed > MOST_MISSED:
                raise _GivenUpError("killed", "ECS does not know the task any more")
            deadline.check(runs=state is not None and state.runs)
            await asyncio.sleep(self.profile.poll_s)

    async def _taken_over(self, state: TaskState) -> Ran:
        data = await asyncio.to_thread(self.bucket.get, report_key(self.base), MAX_REPORT_BYTES)
        if data is None:
            return self._lost("killed", f"the task ended without a report: {state.why()}")
        report = read_report(data)
        if report.version != VERSION:
            raise ValueError(f"the report has version {report.version}; build the image of the task again")
        detail, ending = report.detail, report.ending
        try:
            await uncancelled(asyncio.to_thread(self._restore, report))
        except (ValueError, OSError) as error:
            ending = "killed"
            detail = "; ".join(filter(None, (detail, f"what the program left cannot be taken over: {error}")))
        return Ran(
            ending=ending,
            exit_code=report.exit_code,
            out_dir=self.run.out,
            stdout_tail=report.stdout_tail,
            stderr_tail=report.stderr_tail,
            used=report.used,
            detail=detail,
        )

    def _restore(self, report: Report) -> None:
        """Apply the program's changes to `out`: write changed files, remove deleted ones, keep the others."""
        assert self.sent is not None
        room = room_for(self.program.limits, len(self.sent.names))
        known = set(self.sent.names)
        remove(self.run.out, tuple(name for name in report.removed if name in known))
        if report.changed is None:
            return
        place = self.run.path / "changed.zip"
        # A zip of incompressible files is slightly larger than the files.
        if not self.bucket.get_file(f"{self.base}changed.zip", place, room.bytes + room.files * 512 + 1024):
            raise SnapshotError("the snapshot of the program's files is not in the bucket")
        with place.open("rb") as file:
            report.changed.check_digest(digest(file))
        unpack(place, self.run.out, room)
        place.unlink()

    def _lost(self, ending: Ending, detail: str) -> Ran:
        return Ran(ending=ending, exit_code=_KILLED, out_dir=self.run.out, detail=detail)

    async def _cleared(self, answering: Answering) -> None:
        """Stop the task and remove the uploads; log failures, which a later cleanup removes."""
        await answering.end()
        steps = (
            lambda: self.stop("the execution is over"),
            lambda: asyncio.to_thread(self.tasks.drop_secret, self.secret),
            lambda: asyncio.to_thread(self.bucket.remove_below, self.base),
        )
        for step in steps:
            try:
                await step()
            except (CloudError, ValueError) as error:
                _logger.warning("could not remove all AWS resources of an execution: %s", error)


class _Deadline:
    """The two deadlines of the caller: for a task to start, and for it to end."""

    def __init__(self, profile: FargateProfile, wall_s: float) -> None:
        self._profile, self._wall_s = profile, wall_s
        self._launched_s = time.monotonic()
        self._running_s: float | None = None

    def check(self, *, runs: bool) -> None:
        """Raise `_AbandonedError` if a deadline has passed."""
        now = time.monotonic()
        if runs and self._running_s is None:
            self._running_s = now
        if self._running_s is None:
            if now - self._launched_s > self._profile.launch_timeout_s:
                raise _GivenUpError("killed", f"the task did not run within {self._profile.launch_timeout_s:g} s")
        elif now - self._running_s > self._wall_s + self._profile.transfer_s:
            raise _GivenUpError("timeout", f"the task did not end within {self._wall_s + self._profile.transfer_s:g} s")
