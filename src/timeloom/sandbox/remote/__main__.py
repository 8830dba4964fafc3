"""The entrypoint of a task: `python -m timeloom.sandbox.remote`, with the name of the launch's secret in a variable."""

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
from timeloom.sandbox.remote.supervisor import Task, supervise

_STOPPED: Final = 143
_logger = logging.getLogger("timeloom.sandbox.remote")


def main() -> int:
    """Runs the one execution that this task is for; its program's failure is in the report, not in this exit code."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    secret_id = os.environ.pop(PAYLOAD_VARIABLE, "")
    if not secret_id:
        _logger.error("%s is not set: it names the secret with what is to be run", PAYLOAD_VARIABLE)
        return 2
    task = Task(Cloud(), RandomIds(), SystemClock(), Path(WORKSPACE))
    try:
        return asyncio.run(_until_stopped(secret_id, task))
    except (CloudError, ValueError):
        _logger.exception("the launch cannot be read, or nothing can be reported")
        return 1


async def _until_stopped(secret_id: str, task: Task) -> int:
    """ECS says SIGTERM and some time later SIGKILL; in between the program is ended."""
    supervising = asyncio.create_task(supervise(secret_id, task))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, supervising.cancel)
    try:
        await supervising
    except asyncio.CancelledError:
        return _STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
