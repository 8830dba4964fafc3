"""A model that writes timestamps as deltas, behind the HTTP application of `timeloom model serve`.

It runs as a separate process and prints its address. The first message of a conversation sets the end of its reply and
the interval of the deltas: `until 81000000000 every 50`, in nanoseconds of the monotonic clock, which all processes of
a machine share, and in milliseconds.
"""

import asyncio
import re
import socket
import time
from collections.abc import AsyncGenerator
from typing import Final

import uvicorn

from timeloom.core.blocks import Usage
from timeloom.core.stream.channels import DECISION
from timeloom.ports.model import FinishEvent, ModelEvent, ModelRequest, TextPiece
from timeloom.testing.model_endpoint.app import model_app

BACKLOG: Final = 2048

_ASKED: Final = re.compile(r"until (\d+) every (\d+)")


def message(until_ns: int, every_ms: int) -> str:
    """Return the first message of a conversation whose reply lasts until that time."""
    return f"until {until_ns} every {every_ms}"


class StampingModel:
    """Streams timestamps, each at the time that it states."""

    name = "stamping"
    window_tokens = 200_000

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        asked = _ASKED.search(request.opening)
        assert asked, request.opening
        until_s, every_s = int(asked[1]) / 1e9, int(asked[2]) / 1000
        yield TextPiece(f'<channel:{DECISION}>{{"action": "complete", "final_answer": "')
        # Scheduled by absolute times instead of pauses, so that a late model does not write fewer deltas.
        at_s = time.monotonic()
        while (at_s := at_s + every_s) < until_s:
            await asyncio.sleep(at_s - time.monotonic())
            yield TextPiece(f"{time.monotonic_ns()} ")
        yield TextPiece(f'"}}</channel:{DECISION}>')
        yield FinishEvent("end", Usage(input_tokens=9, output_tokens=9), "stamping")

    async def close(self) -> None:
        pass


def main() -> None:
    """Serve until the process is terminated."""
    config = uvicorn.Config(model_app(StampingModel()), log_config=None, access_log=False, lifespan="off")
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(f"serving on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
