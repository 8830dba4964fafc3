"""Entry point of a task: `python -m timeloom.sandbox.remote`; a variable names the launch's secret."""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Final

from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.sandbox.remote.cloud import Cloud, CloudError
from timeloom.sandbox.remote.launch_payload import PAYLOAD_VARIABLE, WORKSPACE
from timeloom.sandbox.remote.supervisor import TaskEnvironment, supervise

_STOPPED: Final = 143
_logger = logging.getLogger("timeloom.sandbox.remote")


def main() -> int:
    """Run this task's execution; a failure of the program is in the report, not in this exit code."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    secret_id = os.environ.pop(PAYLOAD_VARIABLE, "")
    if not secret_id:
        _logger.error("%s is not set; it must name the secret with the launch payload", PAYLOAD_VARIABLE)
        return 2
    task = TaskEnvironment(Cloud(), RandomIds(), SystemClock(), Path(WORKSPACE))
    try:
        return asyncio.run(_until_stopped(secret_id, task))
    except (CloudError, ValueError):
        _logger.exception("could not read the launch payload or upload the report")
        return 1


async def _until_stopped(secret_id: str, task: TaskEnvironment) -> int:
    """Supervise the execution and return the exit code; SIGTERM, which ECS sends before SIGKILL, ends the program."""
    supervising = asyncio.create_task(supervise(secret_id, task))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, supervising.cancel)
    try:
        await supervising
    except asyncio.CancelledError:
        return _STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
