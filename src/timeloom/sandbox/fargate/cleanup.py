"""Removes old secrets and bucket objects that dead callers left in AWS."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from timeloom.sandbox.fargate.tasks import EcsTasks
from timeloom.sandbox.remote.bucket import Bucket
from timeloom.sandbox.remote.cloud import CloudError

MAX_AGE: Final = timedelta(days=1)
"""Minimum age of leftovers. It exceeds every execution: a task reads its secret and its files when it starts."""

_logger = logging.getLogger(__name__)


def remove_leftovers(tasks: EcsTasks, bucket: Bucket, prefix: str, epoch_us: int) -> None:
    """Remove launch secrets, and objects below the prefix, older than a day; log a warning if AWS refuses."""
    before = datetime.fromtimestamp(epoch_us / 1e6, UTC) - MAX_AGE
    _try_step(lambda: _remove_old_secrets(tasks, before))
    _try_step(
        lambda: bucket.remove([each.key for each in bucket.list_objects(f"{prefix}/") if each.last_modified < before])
    )


def _remove_old_secrets(tasks: EcsTasks, before: datetime) -> None:
    for secret in tasks.list_secrets():
        if secret.created_date < before:
            tasks.delete_secret(secret.name)


def _try_step(step: Callable[[], None]) -> None:
    try:
        step()
    except CloudError as error:
        _logger.warning("could not remove leftovers of earlier executions: %s", error)
