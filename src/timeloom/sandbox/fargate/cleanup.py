"""Removes old secrets and bucket objects that dead callers left in AWS."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from timeloom.sandbox.fargate.tasks import Tasks
from timeloom.sandbox.remote.bucket import Bucket
from timeloom.sandbox.remote.cloud import CloudError

OLD: Final = timedelta(days=1)
"""Minimum age of leftovers. It exceeds every execution: a task reads its secret and its files when it starts."""

_logger = logging.getLogger(__name__)


def sweep(tasks: Tasks, bucket: Bucket, prefix: str, epoch_us: int) -> None:
    """Remove launch secrets, and objects below the prefix, older than a day; log a warning if AWS refuses."""
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
        _logger.warning("could not remove leftovers of earlier executions: %s", error)
