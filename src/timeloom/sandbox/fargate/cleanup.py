"""Sweeping: what callers that died have left in the cloud is removed when it is old."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from timeloom.sandbox.fargate.tasks import Tasks
from timeloom.sandbox.remote.bucket import Bucket
from timeloom.sandbox.remote.cloud import CloudError

OLD: Final = timedelta(days=1)
"""Older than any execution: a task reads its secret and its files when it starts."""

_logger = logging.getLogger(__name__)


def sweep(tasks: Tasks, bucket: Bucket, prefix: str, epoch_us: int) -> None:
    """Removes secrets of launches and objects below the prefix that are older than a day; a refusal is only told."""
    before = datetime.fromtimestamp(epoch_us / 1e6, UTC) - OLD
    _tried(lambda: _sweep_secrets(tasks, before))
    _tried(lambda: bucket.remove([each.key for each in bucket.listed(f"{prefix}/") if each.last_modified < before]))


def _sweep_secrets(tasks: Tasks, before: datetime) -> None:
    for secret in tasks.secrets():
        if secret.created_date < before:
            tasks.drop_secret(secret.name)


def _tried(step: Callable[[], None]) -> None:
    try:
        step()
    except CloudError as error:
        _logger.warning("leftovers of earlier executions were not swept: %s", error)
