"""Signals that end a command: what runs is cancelled and cleans up, and the exit code says which signal it was."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""SIGINT is not among them: the event loop has its own way with that."""

_SIGNALLED: Final = 128
_ended_by: Final[list[signal.Signals]] = []
"""The signal that this process ends by, which it does once."""


def run_until_signalled(
    body: "Coroutine[Any, Any, int]", new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> int:
    """The exit code of a command: its own, or 128 and the signal that ended it.

    The same signal a second time ends the process at once.
    """
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            code = runner.run(_cancelled_by_signals(body))
    except (asyncio.CancelledError, OSError):
        # An error too, because a terminal that has hung up can no longer be written to.
        if not _ended_by:
            raise
        code = 0
    return _SIGNALLED + _ended_by[0] if _ended_by else code


@contextmanager
def reaching_what_blocks() -> Generator[None]:
    """For something that blocks the event loop, so that no cancellation reaches it: the signals raise one there."""

    def end(number: int, _frame: FrameType | None) -> None:
        _ended_by.append(signal.Signals(number))
        raise asyncio.CancelledError

    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        for number in (number for number, now in before.items() if now != signal.SIG_IGN):
            signal.signal(number, end)
        if _ended_by:
            # It came a moment ago, and nothing was awaited since.
            raise asyncio.CancelledError
        yield
    finally:
        for number, then in before.items():
            signal.signal(number, then)


async def _cancelled_by_signals(body: "Coroutine[Any, Any, int]") -> int:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        _ended_by.append(signal.Signals(number))
        task.cancel()
        # Else it would sleep on.
        loop.call_soon_threadsafe(lambda: None)

    for number in SIGNALS:
        # Whoever started us may have had it ignored, as `nohup` does.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)
    return await body
