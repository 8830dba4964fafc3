"""Runs the retention for a server, a worker and the command line: at the start, daily, and with an audit entry."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from timeloom.core.codes import CodedError
from timeloom.platform.tasks import cancel_and_wait
from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.ids import Ids
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.store import Store
from timeloom.runtime.erase.retention import (
    DAY_US,
    HOLDER,
    RetentionContext,
    RetentionOutcome,
    RetentionResult,
    apply_retention,
)
from timeloom.runtime.erase.side_files import SideFileEraser
from timeloom.server.auth.audit_log import AuditEntry, AuditLog

CHECK_INTERVAL_S: Final = 600.0
"""Seconds between two looks at the clock. A larger value makes a daily run later by up to that time."""

_logger = logging.getLogger(__name__)


class RetentionJob:
    """Deletes old conversations once a day, by the given clock."""

    def __init__(
        self,
        store: Store,
        days: int,
        data_dir: Path,
        clock: Clock,
        ids: Ids,
        side_file_erasers: Sequence[SideFileEraser] = (),
    ) -> None:
        self._days = days
        self._clock = clock
        self._ids = ids
        self._audit_log = AuditLog(data_dir / "audit")
        self._due_us = 0
        self._context = RetentionContext(
            store=store,
            workspaces=data_dir / "workspaces",
            clock=clock,
            side_file_erasers=side_file_erasers,
            on_delete=self._audit,
        )

    def run(self, *, dry_run: bool = False) -> AsyncIterator[RetentionResult]:
        """Run now, and yield each conversation that is older than the period with its outcome."""
        return apply_retention(self._context, self._days, dry_run=dry_run)

    async def run_if_due(self) -> Counter[RetentionOutcome] | None:
        """Run if the last run is a day ago or there was none, and return the number of each outcome."""
        now_us = self._clock.epoch_us()
        if now_us < self._due_us:
            return None
        counts = Counter[RetentionOutcome]([result.outcome async for result in self.run()])
        self._due_us = now_us + DAY_US
        return counts

    async def _audit(self, info: ConversationInfo) -> None:
        await self._audit_log.add(
            AuditEntry(
                id=f"{self._ids.bits() % 2**64:016x}",
                ts=timestamp(self._clock.epoch_us()),
                tenant=info.tenant,
                project=info.project,
                user=HOLDER,
                role="operator",
                operation="retention",
                conversation_id=info.id,
                owner=info.user,
            )
        )


@asynccontextmanager
async def run_daily(job: RetentionJob | None, interval_s: float = CHECK_INTERVAL_S) -> AsyncGenerator[None]:
    """Run the job now and daily while the context is open; without a job do nothing."""

    async def run_forever(job: RetentionJob) -> None:
        while True:
            try:
                if counts := await job.run_if_due():
                    _logger.info("retention", extra={"fields": dict(counts)})
            except (CodedError, OSError) as error:
                # The next look at the clock tries again; the server stays up.
                _logger.warning("retention failed", exc_info=error)
            await asyncio.sleep(interval_s)

    if job is None:
        yield
        return
    task = asyncio.create_task(run_forever(job), name="retention")
    try:
        yield
    finally:
        await cancel_and_wait(task)
