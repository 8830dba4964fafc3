"""Executes one program in a Fargate task: uploads it, follows the task, collects the files and cleans up."""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final

import msgspec

from timeloom.platform.tasks import run_to_completion
from timeloom.ports.sandbox import Broker, ExitReason, OutputSink, Program, ProgramResult, SandboxUnavailableError
from timeloom.sandbox.fargate.broker_relay import BrokerRelay
from timeloom.sandbox.fargate.profile import FargateProfile
from timeloom.sandbox.fargate.tasks import EcsTasks, NotLaunchedError, TaskState
from timeloom.sandbox.fargate.upload import UploadedLaunch, upload_launch
from timeloom.sandbox.folders.run_folder import RunFolder
from timeloom.sandbox.remote.bucket import Bucket
from timeloom.sandbox.remote.bucket_messages import BucketChannel
from timeloom.sandbox.remote.cloud import CloudError
from timeloom.sandbox.remote.launch_payload import (
    MAX_REPORT_BYTES,
    VERSION,
    TaskReport,
    decode_report,
    encode_launch,
    report_key,
    result_limits,
)
from timeloom.sandbox.remote.snapshot import SnapshotError, hash_stream, remove_files, unpack

STOP_S: Final = 180.0
"""How long to wait for a task to stop: ECS gives its containers half a minute to exit by themselves."""

MAX_MISSED_POLLS: Final = 10
"""Failed polls in a row before an execution is abandoned; a busy service may fail for a while."""

_KILLED: Final = 137

_logger = logging.getLogger(__name__)


class _AbandonedError(Exception):
    """The caller stopped waiting; `ending` is the resulting ending, the message is the reason."""

    def __init__(self, ending: ExitReason, detail: str) -> None:
        super().__init__(detail)
        self.ending: ExitReason = ending


@dataclass(slots=True)
class FargateExecution:
    """Runs one program in its own Fargate task and removes its AWS resources afterwards."""

    profile: FargateProfile
    tasks: EcsTasks
    bucket: Bucket
    program: Program
    run: RunFolder
    base: str
    secret: str
    arn: str = ""
    upload: UploadedLaunch | None = None
    is_stopped: bool = False

    async def execute(self, broker: Broker, output: OutputSink) -> ProgramResult:
        """Run the program to its end; none of its resources is left in AWS afterwards.

        Raises `SandboxUnavailableError` if the services cannot be used at all.
        """
        relay = BrokerRelay(BucketChannel(self.bucket, f"{self.base}down/", f"{self.base}up/"), broker, output)
        try:
            result = await self._execute(relay)
        finally:
            await run_to_completion(self._clean_up(relay))
        return msgspec.structs.replace(result, calls=tuple(relay.delegated_calls))

    async def _execute(self, relay: BrokerRelay) -> ProgramResult:
        """Run the program without the cleanup; a failure on the way becomes an ending."""
        try:
            await run_to_completion(self._launch())
            return await self._collect_result(await self._follow_task(relay))
        except SandboxUnavailableError:
            raise
        except CloudError as error:
            if error.is_permanent:
                raise SandboxUnavailableError(f"{error}; check the credentials, rights and settings") from None
            return self._failed_result("killed", str(error))
        except _AbandonedError as error:
            return self._failed_result(error.ending, str(error))
        except (NotLaunchedError, ValueError, OSError) as error:
            return self._failed_result("killed", str(error) or type(error).__name__)

    async def stop(self, reason: str) -> None:
        """Stop the task and wait until it has stopped."""
        if not self.arn or self.is_stopped:
            return
        await asyncio.to_thread(self.tasks.stop, self.arn, reason)
        give_up_at = time.monotonic() + STOP_S
        while time.monotonic() < give_up_at:
            state = await asyncio.to_thread(self.tasks.describe, self.arn)
            if state is None or state.is_stopped:
                self.is_stopped = True
                return
            await asyncio.sleep(self.profile.poll_s)
        _logger.warning("a task did not stop within %g s; ECS will kill it", STOP_S)

    async def _launch(self) -> None:
        self.upload = await asyncio.to_thread(
            upload_launch, self.program, self.profile, self.run, self.bucket, self.base
        )
        await asyncio.to_thread(self.tasks.create_secret, self.secret, encode_launch(self.upload.launch))
        self.arn = await asyncio.to_thread(self.tasks.start, self.secret)

    async def _follow_task(self, relay: BrokerRelay) -> TaskState:
        """Wait for the end of the task and answer its requests; raise `_AbandonedError` past a deadline."""
        deadline = _Deadline(self.profile, self.program.limits.wall_s)
        missed = 0
        while True:
            try:
                state = await asyncio.to_thread(self.tasks.describe, self.arn)
                if state is not None and (state.is_running or state.is_stopped):
                    await relay.process_messages()
                missed = missed + 1 if state is None else 0
            except CloudError:
                state, missed = None, missed + 1
                if missed > MAX_MISSED_POLLS:
                    raise
            if state is not None and state.is_stopped:
                self.is_stopped = True
                return state
            if missed > MAX_MISSED_POLLS:
                raise _AbandonedError("killed", "ECS does not know the task any more")
            deadline.check(is_running=state is not None and state.is_running)
            await asyncio.sleep(self.profile.poll_s)

    async def _collect_result(self, state: TaskState) -> ProgramResult:
        data = await asyncio.to_thread(self.bucket.get, report_key(self.base), MAX_REPORT_BYTES)
        if data is None:
            return self._failed_result("killed", f"the task ended without a report: {state.stop_reason()}")
        report = decode_report(data)
        if report.version != VERSION:
            raise ValueError(f"the report has version {report.version}; build the image of the task again")
        detail, ending = report.detail, report.ending
        try:
            await run_to_completion(asyncio.to_thread(self._restore_files, report))
        except (ValueError, OSError) as error:
            ending = "killed"
            detail = "; ".join(filter(None, (detail, f"what the program left cannot be taken over: {error}")))
        return ProgramResult(
            ending=ending,
            exit_code=report.exit_code,
            out_dir=self.run.out,
            stdout_tail=report.stdout_tail,
            stderr_tail=report.stderr_tail,
            used=report.used,
            detail=detail,
        )

    def _restore_files(self, report: TaskReport) -> None:
        """Apply the program's changes to `out`: write changed files, remove deleted ones, keep the others."""
        assert self.upload is not None
        limits = result_limits(self.program.limits, len(self.upload.file_names))
        known = set(self.upload.file_names)
        remove_files(self.run.out, tuple(name for name in report.removed if name in known))
        if report.changed is None:
            return
        archive = self.run.path / "changed.zip"
        # A zip of incompressible files is slightly larger than the files.
        if not self.bucket.get_file(f"{self.base}changed.zip", archive, limits.bytes + limits.files * 512 + 1024):
            raise SnapshotError("the snapshot of the program's files is not in the bucket")
        with archive.open("rb") as file:
            report.changed.check_digest(hash_stream(file))
        unpack(archive, self.run.out, limits)
        archive.unlink()

    def _failed_result(self, ending: ExitReason, detail: str) -> ProgramResult:
        return ProgramResult(ending=ending, exit_code=_KILLED, out_dir=self.run.out, detail=detail)

    async def _clean_up(self, relay: BrokerRelay) -> None:
        """Stop the task and remove the uploads; log failures, which a later cleanup removes."""
        await relay.cancel_requests()
        steps = (
            lambda: self.stop("the execution is over"),
            lambda: asyncio.to_thread(self.tasks.delete_secret, self.secret),
            lambda: asyncio.to_thread(self.bucket.remove_prefix, self.base),
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

    def check(self, *, is_running: bool) -> None:
        """Raise `_AbandonedError` if a deadline has passed."""
        now = time.monotonic()
        if is_running and self._running_s is None:
            self._running_s = now
        if self._running_s is None:
            if now - self._launched_s > self._profile.launch_timeout_s:
                raise _AbandonedError("killed", f"the task did not run within {self._profile.launch_timeout_s:g} s")
        elif now - self._running_s > self._wall_s + self._profile.transfer_s:
            raise _AbandonedError(
                "timeout", f"the task did not end within {self._wall_s + self._profile.transfer_s:g} s"
            )
