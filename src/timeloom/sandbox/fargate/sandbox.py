"""The Fargate sandbox: runs each program in a task of its own."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from timeloom.ports.clock import Clock, SystemClock
from timeloom.ports.ids import Ids, RandomIds
from timeloom.ports.sandbox import Broker, Output, Program, Ran, SandboxUnavailableError
from timeloom.sandbox.fargate.execution import Execution
from timeloom.sandbox.fargate.profile import FargateProfile
from timeloom.sandbox.fargate.sweeping import sweep
from timeloom.sandbox.fargate.tasks import SECRETS, Tasks
from timeloom.sandbox.remote.bucket import Bucket
from timeloom.sandbox.remote.cloud import Cloud, CloudError
from timeloom.sandbox.run_folder import Owner, RunFolders
from timeloom.sandbox.uncancelled import uncancelled

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX_ID_CHARS: Final = 128


class FargateSandbox:
    """Programs in tasks of AWS Fargate; for those that take long, because a task takes 10 to 30 seconds to start."""

    def __init__(self, profile: FargateProfile, *, ids: Ids | None = None, clock: Clock | None = None) -> None:
        self._profile = profile
        self._ids, self._clock = ids or RandomIds(), clock or SystemClock()
        cloud = Cloud(profile.region, profile.endpoint_url)
        self._tasks, self._bucket = Tasks(cloud, profile), Bucket(cloud, profile.bucket)
        self._opening = asyncio.Lock()
        self._folders: RunFolders | None = None
        self._running: dict[str, Execution] = {}

    @property
    def name(self) -> str:
        return "fargate"

    async def check(self) -> None:
        """Raises `SandboxUnavailableError` where no task could be started; none is started to see."""
        self._profile.check()
        try:
            await asyncio.to_thread(self._tasks.check)
            await asyncio.to_thread(self._bucket.check)
        except CloudError as error:
            raise SandboxUnavailableError(f"{error}; check the credentials, rights and settings") from None
        await self._opened()

    @asynccontextmanager
    async def run(self, program: Program, broker: Broker, output: Output) -> AsyncGenerator[Ran]:
        """Runs the program to its end when it is entered; what it left is there until it is exited."""
        self._profile.check()
        folders = await self._opened()
        owner = Owner(os.geteuid(), os.getegid())
        run = folders.make(owner)
        attempt = f"{self._ids.bits():016x}"
        named = _NOT_IN_NAMES.sub("_", program.execution_id)[:_MAX_ID_CHARS] or "execution"
        try:
            await asyncio.to_thread(run.put, program.inputs, owner)
            execution = self._running[attempt] = Execution(
                profile=self._profile,
                tasks=self._tasks,
                bucket=self._bucket,
                program=program,
                run=run,
                base=f"{self._profile.prefix}/{named}/{attempt}/",
                secret=f"{SECRETS}{named}/{attempt}",
            )
            yield await execution.ran(broker, output)
        finally:
            self._running.pop(attempt, None)
            await uncancelled(asyncio.to_thread(run.remove))

    async def close(self) -> None:
        """Ends what runs, and removes what is left of it on this machine."""
        for execution in list(self._running.values()):
            await execution.stop("the sandbox is closed")
        async with self._opening:
            folders, self._folders = self._folders, None
        if folders is not None:
            await asyncio.to_thread(folders.close)

    async def _opened(self) -> RunFolders:
        """The folders of this supervisor; leftovers are swept before the first execution."""
        async with self._opening:
            if self._folders is None:
                self._folders = await asyncio.to_thread(RunFolders.open, self._profile.root(), self._ids)
                await asyncio.to_thread(sweep, self._tasks, self._bucket, self._profile.prefix, self._clock.epoch_us())
            return self._folders
