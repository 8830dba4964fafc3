"""Runs each program in a separate AWS Fargate task."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from timeloom.platform.tasks import run_to_completion
from timeloom.ports.clock import Clock, SystemClock
from timeloom.ports.ids import Ids, RandomIds
from timeloom.ports.sandbox import Broker, OutputSink, Program, ProgramResult, SandboxUnavailableError
from timeloom.sandbox.fargate.cleanup import remove_leftovers
from timeloom.sandbox.fargate.execution import FargateExecution
from timeloom.sandbox.fargate.profile import FargateProfile
from timeloom.sandbox.fargate.tasks import SECRET_PREFIX, EcsTasks
from timeloom.sandbox.folders.run_folder import FolderOwner, RunFolders
from timeloom.sandbox.remote.bucket import Bucket
from timeloom.sandbox.remote.cloud import Cloud, CloudError
from timeloom.sandbox.shutdown import CancelOnClose

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX_ID_CHARS: Final = 128


class FargateSandbox:
    """Runs programs in Fargate tasks; for long programs, because a task takes 10 to 30 seconds to start."""

    def __init__(self, profile: FargateProfile, *, ids: Ids | None = None, clock: Clock | None = None) -> None:
        self._profile = profile
        self._ids, self._clock = ids or RandomIds(), clock or SystemClock()
        cloud = Cloud(profile.region, profile.endpoint_url)
        self._tasks, self._bucket = EcsTasks(cloud, profile), Bucket(cloud, profile.bucket)
        self._open_lock = asyncio.Lock()
        self._folders: RunFolders | None = None
        self._work = CancelOnClose()

    @property
    def name(self) -> str:
        return "fargate"

    async def check(self) -> None:
        """Raise `SandboxUnavailableError` if no task could be started; starts none."""
        self._profile.check()
        try:
            await asyncio.to_thread(self._tasks.check)
            await asyncio.to_thread(self._bucket.check)
        except CloudError as error:
            raise SandboxUnavailableError(f"{error}; check the credentials, rights and settings") from None
        await self._ensure_open()

    @asynccontextmanager
    async def run(self, program: Program, broker: Broker, output: OutputSink) -> AsyncGenerator[ProgramResult]:
        """Run the program to its end on enter; its files exist until exit."""
        self._profile.check()
        folders = await self._ensure_open()
        owner = FolderOwner(os.geteuid(), os.getegid())
        run = folders.create(owner)
        attempt = f"{self._ids.bits():016x}"
        safe_id = _NOT_IN_NAMES.sub("_", program.execution_id)[:_MAX_ID_CHARS] or "execution"
        execution = FargateExecution(
            profile=self._profile,
            tasks=self._tasks,
            bucket=self._bucket,
            program=program,
            run=run,
            base=f"{self._profile.prefix}/{safe_id}/{attempt}/",
            secret=f"{SECRET_PREFIX}{safe_id}/{attempt}",
        )
        try:
            yield await self._work.run(_execute(execution, owner, broker, output))
        finally:
            await run_to_completion(asyncio.to_thread(run.remove))

    async def close(self) -> None:
        """Stop all programs and remove their files; pending runs raise `SandboxUnavailableError`."""
        await self._work.close()
        async with self._open_lock:
            folders, self._folders = self._folders, None
        if folders is not None:
            await asyncio.to_thread(folders.close)

    async def _ensure_open(self) -> RunFolders:
        """Return the folders of this supervisor; before the first execution, remove leftovers from AWS."""
        async with self._open_lock:
            self._work.check_open()
            if self._folders is None:
                self._folders = await self._make_folders()
                await asyncio.to_thread(
                    remove_leftovers, self._tasks, self._bucket, self._profile.prefix, self._clock.epoch_us()
                )
            return self._folders

    async def _make_folders(self) -> RunFolders:
        opening = asyncio.ensure_future(asyncio.to_thread(RunFolders.open, self._profile.root(), self._ids))
        try:
            return await asyncio.shield(opening)
        except BaseException:
            # Cancelled while the folder was being created: remove it.
            (await run_to_completion(opening)).close()
            raise


async def _execute(
    execution: FargateExecution, owner: FolderOwner, broker: Broker, output: OutputSink
) -> ProgramResult:
    await asyncio.to_thread(execution.run.copy_inputs, execution.program.inputs, owner)
    return await execution.execute(broker, output)
